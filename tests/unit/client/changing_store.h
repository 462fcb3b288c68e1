/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Memory made by hand that changes as a server's does: segments split and merge, records come, go
 * and are replaced, READs fail; under a seed.
 */
#include <stdint.h>

#include "fake_handle.h"

#define STAY	    400u /* records that live throughout */
#define OTHERS	    400u /* keys that come and go */
#define DEPTH_LEAST 1u

struct world_of_scan {
	struct fake *f;
	struct gkv h;
	unsigned visits[STAY + OTHERS];
	uint64_t seed;
	unsigned splits, merges;
	unsigned every; /* something changes with one chain of so many; 0: nothing does */
	unsigned padding; /* spaces that values have after their word */
	struct gkv_scan_options options;
};

/* key_text - of number i; those from STAY on come and go. Static, until the next call. */
char *key_text(unsigned i);

/* set_up, tear_down - of a test, whose state is a struct world_of_scan. */
int set_up(void **state);
int tear_down(void **state);

/* note - a record that a scan gave is one that there was. */
void note(struct world_of_scan *w, const struct gkv_record *rec);

/* scan_in_chunks - with the world's options. Returns how many records it gave. */
unsigned scan_in_chunks(struct world_of_scan *w, size_t max);

/* fill - records of the first @count keys. padded - a value of @word; static likewise. */
void fill(struct world_of_scan *w, unsigned count);
const char *padded(const struct world_of_scan *w, const char *word);

uint64_t next_random(struct world_of_scan *w);

/* find_slot - of a key; NULL: it is not there. */
_Atomic uint64_t *find_slot(struct fake *f, const char *key);
void make_obsolete(struct fake *f, uint64_t slot);

/* change - something. before_chain - the same now and then: struct fake's before. */
void change(struct world_of_scan *w);
void before_chain(struct fake *f, const struct read_op *ops, unsigned count);
