/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The second pass of load --verify: each record of the file is looked up and compared, byte by
 * byte, in bounded memory.
 *
 * A key may come more than once in a file, and only its last record is in the store. So a record
 * that differs is remembered, with its key, and forgotten when a later record of the same key is
 * equal. What is left at the end differs. Right for any order: the last record of a key decides.
 */
#include <stddef.h>

#include "tools/kv-cli/record_reader.h"

#define VERIFY_OPEN_MAX (1u << 20) /* differing records remembered; more end the pass */

struct verify_entry; /* one differing record */

struct verify {
	struct verify_entry *entries; /* open addressing by the key's hash */
	size_t cap, used, open; /* used: slots taken, open: of these, still differing */
};

/*
 * verify_record - compare a record with what the store answered.
 * @found: NULL: the store has no such key; else @found_len bytes.
 * Returns 0 (also where it differs), -ENOMEM or -E2BIG (too many differ).
 */
int verify_record(struct verify *v, const struct record *record, const void *found,
		  size_t found_len);

/*
 * verify_report - call @print with a sentence ("line N: KEY: why") for the first differing records,
 * at most @max, by line. Returns how many differ. Only verify_free() may follow.
 */
size_t verify_report(struct verify *v, size_t max, void (*print)(const char *sentence));

void verify_free(struct verify *v);
