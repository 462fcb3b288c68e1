/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A server's memory made by hand, and a reader whose READs are copies out of it. A READ that
 * leaves what is registered ends the test: on a device it would break the queue pair.
 */
#include <stdint.h>

#include "client/src/know/lookup.h"
#include "common/layout/block.h"
#include "common/layout/root.h"

#define FAKE_EXTENT_BYTES EXTENT_BYTES_FIRST
#define FAKE_INCARNATION  77u
#define FAKE_INDEX	  1u /* extent numbers */
#define FAKE_DIR	  2u
#define FAKE_DATA	  3u
#define FAKE_DATA_LATE	  5u /* in the table only after fake_publish_late() */

struct fake {
	struct root *root;
	struct extent_entry *table;
	uint8_t *extent[EXTENTS_MAX]; /* FAKE_EXTENT_BYTES each */
	uint64_t data_used;
	uint64_t dir_used;
	unsigned segments_used;
	struct directory *dir; /* the current one, in the DIR extent */

	struct reader reader;
	struct error err;
	uint64_t clock_ms;
	unsigned chains; /* READ chains so far */
	uint64_t data_reads, data_bytes; /* of FAKE_DATA so far */
	unsigned grown;
	int fail_at_chain; /* -1: never; this one returns -ECONNRESET */
	/* Called before each chain is executed, and after it. */
	void (*before)(struct fake *f, const struct read_op *ops, unsigned count);
	void (*after)(struct fake *f, const struct read_op *ops, unsigned count);
	void *arg;
};

/* fake_create - a directory of @depth, each entry with a segment of its own. */
/* lookup_run - a whole batch, in the memory of the reader itself. @age: of hints; 0: none. */
int lookup_run(struct reader *r, struct lookup *l, unsigned count, uint32_t age);

struct fake *fake_create(unsigned depth);
void fake_destroy(struct fake *f);

/* fake_segment - a fresh segment for the hashes with this prefix; returns its directory entry. */
uint64_t fake_segment(struct fake *f, uint32_t prefix, unsigned depth);
struct segment *fake_segment_of(struct fake *f, uint64_t entry);

/* fake_directory - replace the directory by one of @depth; entries are zero. Seals the root. */
void fake_directory(struct fake *f, unsigned depth, uint32_t incarnation);

uint64_t fake_hash(const struct fake *f, const char *key);
struct bucket *fake_bucket(struct fake *f, const char *key);

/* fake_block - a LIVE block in FAKE_DATA; returns its slot word. @fingerprint_of: a key. */
uint64_t fake_block(struct fake *f, const char *key, const char *value, const char *fingerprint_of,
		    struct block **block);

/* fake_put - a record in the first empty slot of its bucket. */
struct block *fake_put(struct fake *f, const char *key, const char *value);

void fake_publish_late(struct fake *f);
