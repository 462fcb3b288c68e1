/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Structures of the layout as JSON objects, which --json prints and the text for people is made
 * from. A new reference each; NULL: no memory. Any thread.
 */
#include <stdint.h>

#include <jansson.h>

#include "common/layout/block.h"
#include "common/layout/bucket.h"
#include "common/layout/root.h"
#include "tools/kv-inspect/judge.h"
#include "tools/kv-inspect/reads.h"

/* decode_hex - "0x1f"; decode_word - "0x000000000000001f": 64 bits are more than JSON's numbers. */
json_t *decode_hex(uint64_t value);
json_t *decode_word(uint64_t value);

/* decode_number - a number; a text where it has 64 bits. */
json_t *decode_number(uint64_t value);

/* decode_text - words, or null. */
json_t *decode_text(const char *words);

#define DECODE_PREFIX (DEPTH_MAX + 2u)

/* decode_prefix - its bits, "-" where there are none. Returns @out. */
const char *decode_prefix(char out[DECODE_PREFIX], uint32_t prefix, unsigned depth);

/* decode_kind - "index", "dir", "data"; "?" for anything else: static. */
const char *decode_kind(uint32_t kind);

json_t *decode_entry(uint64_t entry);
json_t *decode_header(uint64_t header);
json_t *decode_slot(uint64_t slot, const struct placed *p);

/* decode_block - the header, the key, and @head bytes of the value at most. @b: @len bytes. */
json_t *decode_block(const struct block *b, uint32_t len, const struct judged *j, uint64_t now_ms,
		     uint32_t head);

/* decode_extent - an entry of the table, with its number. */
json_t *decode_extent(unsigned number, const struct extent_entry *e);
