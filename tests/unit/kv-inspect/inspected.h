/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A store made by hand, and a check of it: sound until a test breaks something. A READ that leaves
 * what is registered ends the test (fake_store.h).
 */
#include <stdbool.h>
#include <stdint.h>

#include "tests/lib/unit.h"
#include "tests/unit/client/fake_store.h"
#include "tools/kv-inspect/check.h"

#define INSPECTED_DEPTH	  2u
#define INSPECTED_RECORDS 400u /* more than one chain of READs for a segment */

struct inspected {
	struct fake *f;
	struct inspect in;
	struct check check;
	int rc; /* of the last run */
	unsigned sections, pauses; /* of the last run */
	bool open; /* a section is */
	bool still; /* the server's clock does not move */
	bool stop; /* SIGINT came */
	unsigned gone_after; /* sections; then no connection is to be had; 0: never */
	void (*at_pause)(struct inspected *i); /* what the server does meanwhile */
	void *arg;
};

int inspected_set_up(void **state);
int inspected_tear_down(void **state);

/* inspected_key - of record @n. Static, until the next call. */
const char *inspected_key(unsigned n);

/* inspected_run - a check, from the beginning. Returns how many violations it found. */
size_t inspected_run(struct inspected *i);

/* inspected_only - a check finds one violation, of this kind, whose words contain @words. */
void inspected_only(struct inspected *i, enum finding_kind kind, const char *words);

/* inspected_has - the last check found such a one among others. */
bool inspected_has(const struct inspected *i, enum finding_kind kind, const char *words);

/* inspected_clean - a check finds nothing, and counts all records. */
void inspected_clean(struct inspected *i);

/* inspected_neighbour - another key of the same segment, in another bucket. As inspected_key(). */
const char *inspected_neighbour(struct inspected *i, const char *key);

/* The slot of a record, and its block. */
_Atomic uint64_t *inspected_slot(struct inspected *i, const char *key);
struct block *inspected_block(struct inspected *i, const char *key);

/* inspected_seal - the block's checksum is right again. */
void inspected_seal(struct block *b);

/* inspected_chain - the record's slot moves to overflow bucket @n (from 1), which its bucket links
 * to. Returns the overflow bucket. */
struct bucket *inspected_chain(struct inspected *i, const char *key, unsigned n);
