/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* All of the store, against what DESIGN 4 says of it. The essay is in check.c. One thread. */
#include <stdbool.h>
#include <stdint.h>

#include "common/layout/root.h"
#include "tools/kv-inspect/findings.h"
#include "tools/kv-inspect/reads.h"

#define CHECK_PATIENCE_MS 1500u /* a writer has ended what it began by then, where it runs */

struct check_depth {
	uint64_t segments; /* of this local depth */
	uint64_t slots, used; /* of main buckets; of those and their overflow */
	uint64_t overflow; /* buckets that are linked */
	uint64_t records;
};

struct check_records {
	uint64_t records, bytes; /* LIVE and sound; header, key, value */
	uint64_t expiring, expired; /* of them */
	uint64_t block_bytes; /* READ */
};

/* What was there, at the first look. */
struct check_totals {
	uint64_t extents[EXTENT_DATA + 1], extent_bytes[EXTENT_DATA + 1]; /* by kind */
	uint64_t entries; /* of the directory */
	unsigned depth;
	struct check_depth by_depth[DEPTH_MAX + 1];
	struct check_records all;
	unsigned longest_chain; /* buckets */
};

struct segment_walk;

struct check {
	struct inspect *in;
	void (*progress)(uint64_t done, uint64_t all); /* NULL: nobody is told */

	struct findings violations;
	struct findings open; /* what a writer may explain, by the last look */
	uint64_t explained; /* of those: gone when looked at again */
	uint64_t walked_to; /* the first hash that was not looked at */
	bool walked_all; /* there is none */
	bool interrupted;
	bool clock_still; /* the server's clock did not move while we waited */
	struct check_totals totals;

	struct root root; /* by the last look */
	uint64_t epoch_first, epoch_last;
	uint64_t clock_first_ms, clock_ms;
	struct directory_look directory; /* likewise */
	bool usable; /* root and extent table can be gone by */
	struct segment_walk *walk; /* scratch: segment_walk.h */
};

/*
 * check_run - all of it. @c: zero but for in and progress; freed by check_end() in either case.
 * Returns 0: it has come to its end; or -ECONNRESET, -ETIMEDOUT, -ENOMEM, -ESTALE ...
 */
int check_run(struct check *c);
void check_end(struct check *c);

/*
 * check_found - a thing is not as it should be: @fmt says where, and what.
 * @f: kind, place, word, and range; certain.
 */
void check_found(struct check *c, struct finding *f, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* check_tables.c: each a look of its own. Returns 0, or as check_run(). */
int check_root(struct check *c);
int check_extents(struct check *c);
int check_directory(struct check *c);

/* check_segments - those that hold the hashes from @first to @last. Likewise. */
int check_segments(struct check *c, uint64_t first, uint64_t last);
