/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The two tables that index-bench compares, behind one set of functions, and the loops over keys
 * that both of them run. The loops are inlined into each side's file, with the side's own
 * operations, so that neither pays for a call through a pointer.
 *
 * Threads: open and close belong to one thread that is no RCU reader; the others to a worker's
 * thread, which is registered with liburcu (QSBR) and online.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "tools/lib/histogram.h"

#define INDEX_KEY_LEN	 16u
#define INDEX_BATCH	 1024u /* keys that are made at once, outside of what is timed */
#define INDEX_QUIESCENT	 64u /* operations between two quiescent states; divides INDEX_BATCH */
#define INDEX_GROUP_MAX	 64u
#define INDEX_HASH_SEED	 6u
#define INDEX_VALUE_UNIT 8u

enum index_op {
	INDEX_INSERT,
	INDEX_HIT,
	INDEX_HIT_READ,
	INDEX_HIT_SINGLE,
	INDEX_MISS,
	INDEX_DELETE,
	INDEX_OPS,
};

struct index_key {
	uint64_t word[2];
};

static_assert(sizeof(struct index_key) == INDEX_KEY_LEN, "index_key");

struct index_batch {
	unsigned count; /* at most INDEX_BATCH */
	struct index_key key[INDEX_BATCH];
};

struct index_setup {
	uint64_t records; /* to have room for */
	uint32_t value_len; /* a multiple of INDEX_VALUE_UNIT */
	unsigned workers; /* at a time */
	bool hugepages; /* reserved, enough for both sides */
	unsigned group; /* operations whose keys ours learns at once */
	const char *table; /* how cds_lfht keeps its buckets */
	bool bound; /* cds_lfht grows by the length of chains, up to the number of records */
};

struct index_side {
	const char *name, *key; /* for people; in JSON */
	int (*open)(const struct index_setup *config, struct error *err);
	void (*close)(void);
	void *(*worker_open)(void); /* NULL: no memory */
	void (*worker_close)(void *worker);
	/* Each key of a batch. Returns 0; -ENOENT, -EEXIST: a key was not as it should be;
	 * -ENOMEM. */
	int (*run[INDEX_OPS])(void *worker, const struct index_batch *batch);
	/* Inserts and deletes with the time of each one, ns. */
	int (*timed[INDEX_OPS])(void *worker, const struct index_batch *batch,
				struct histogram *times);
};

extern const struct index_side index_ours, index_theirs;

/* index_ours_bytes - memory that the open table takes besides blocks, once it holds its records. */
struct index_bytes {
	uint64_t records;
	uint64_t index_used, index_committed; /* segments and directory; their extents */
	uint64_t block, block_rounding; /* a record's; of that beyond header, key and value */
	unsigned depth;
	double fill; /* records a slot */
};

void index_ours_bytes(struct index_bytes *out);

/* index_theirs_arena - where the records of the open table lie. */
void index_theirs_arena(uintptr_t *start, uintptr_t *end);

/* What a record of theirs takes in the arena. */
uint64_t index_theirs_stride(uint32_t value_len);

/* The value of a key: its first word, again and again. */
static inline void index_value_fill(void *value, uint32_t len, const struct index_key *key)
{
	for (uint32_t at = 0; at < len; at += INDEX_VALUE_UNIT)
		memcpy((char *)value + at, &key->word[0], INDEX_VALUE_UNIT);
}

static inline bool index_value_fits(const void *value, uint32_t len, const struct index_key *key)
{
	uint64_t word, differs = 0;

	for (uint32_t at = 0; at < len; at += INDEX_VALUE_UNIT) {
		memcpy(&word, (const char *)value + at, sizeof(word));
		differs |= word ^ key->word[0];
	}
	return differs == 0;
}

#define INDEX_INLINE static inline __attribute__((always_inline))

/* An operation on one key: 0 or a negative errno. */
typedef int (*index_one)(void *worker, const struct index_key *key);
/* What a worker does between batches of its own, RCU reader's quiescent state included. */
typedef void (*index_pause)(void *worker);
/* Operations on @count keys come next. */
typedef void (*index_ahead)(const struct index_key *key, unsigned count);

/* @times: NULL where single operations are not timed; a constant, so that it costs nothing. */
INDEX_INLINE int index_loop(void *worker, const struct index_batch *batch, index_one one,
			    index_pause pause, index_ahead ahead, unsigned group,
			    struct histogram *times)
{
	uint64_t before = times ? time_now_ns() : 0, now;
	int failed, rc = 0;

	for (unsigned i = 0; i < batch->count; i++) {
		if (ahead && group > 1 && i % group == 0)
			ahead(&batch->key[i], batch->count - i < group ? batch->count - i : group);
		failed = one(worker, &batch->key[i]);
		if (failed)
			rc = failed;
		if (i % INDEX_QUIESCENT == INDEX_QUIESCENT - 1)
			pause(worker);
		if (!times)
			continue;
		now = time_now_ns();
		histogram_add(times, now - before);
		before = now;
	}
	return rc;
}
