/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * One-sided reading: what a look-up, the caches and a scan need, without knowing where READs go.
 * A handle owns one reader; tests put memory of their own behind it.
 */
#include <stddef.h>
#include <stdint.h>

#include "client/include/gracekv.h"
#include "client/src/base/figures.h"
#include "client/src/know/hints.h"
#include "client/src/know/world.h"
#include "common/base/error.h"
#include "common/layout/bucket.h"

#define READER_BATCH	     64u /* keys of one batch, READs of one chain */
#define READER_ARENA_BYTES   (256u << 10) /* block bytes of one batch, unless one block is larger */
#define READER_SCRATCH_BYTES 4096u
#define READER_ATTEMPTS	     8u /* then the server is asked */

#define READ_PIECES 3u /* places that one READ may be scattered to */

struct read_piece {
	void *local;
	uint32_t len; /* may be 0 */
	uint32_t lkey;
};

/* One READ of a chain. */
struct read_op {
	uint64_t remote;
	uint32_t rkey;
	uint32_t len;
	void *local;
	uint32_t lkey;
	/* NULL: all of it goes to local. Otherwise READ_PIECES - 1 pieces, which take its last
	 * bytes; at least one byte goes to local. */
	const struct read_piece *more;
};

/* read_op_first - how many bytes go to op->local. */
static inline uint32_t read_op_first(const struct read_op *op)
{
	return op->more ? op->len - op->more[0].len - op->more[1].len : op->len;
}

/* Registered memory that a batch's READs go to. */
struct fetch {
	struct bucket *buckets; /* READER_BATCH of them */
	uint32_t buckets_lkey;
	uint8_t *arena; /* for blocks, 64-byte aligned */
	size_t arena_len;
	uint32_t arena_lkey;
	size_t batch_bytes; /* of blocks in one chain, unless one is larger */
	int (*grow)(struct fetch *f, size_t bytes); /* see fetch_grow() */
	void *owner; /* what grow() makes it larger for */
};

/* fetch_grow - make the arena at least @bytes long; what stood in it is lost. 0 or -ENOMEM. */
static inline int fetch_grow(struct fetch *f, size_t bytes)
{
	return f->grow(f, bytes);
}

/*
 * read: post @count READs (1 to READER_BATCH) as one chain and wait for all of them. Returns 0;
 *	-ECONNRESET: the connection is lost, start again on another one; -ETIMEDOUT.
 *	When it returns 0, @local holds the bytes (acquire, by the poll of the completion).
 * clock_ms: estimate of the server's wall clock. 0: not known.
 */
struct reader_ops {
	int (*read)(void *ctx, const struct read_op *ops, unsigned count);
	uint64_t (*clock_ms)(void *ctx);
};

struct reader {
	const struct reader_ops *ops;
	void *ctx;
	struct world *world; /* counted reference */
	struct dir_cache *dir; /* counted reference; NULL until the first look-up */
	struct hints *hints; /* the session's; NULL: none are used */

	const void *device; /* that READs go through, by its address alone */

	/* Registered memory, of the reader's thread alone. */
	struct fetch fetch; /* of calls that wait; and large pieces of metadata */
	void *scratch; /* READER_SCRATCH_BYTES: root, directory words, extent entries */
	uint32_t scratch_lkey;

	struct gkv_stats stats;
	struct error *err; /* where sentences go */
};

/* reader_read - one chain, counted. */
static inline int reader_read(struct reader *r, const struct read_op *ops, unsigned count)
{
	figure_add(&r->stats.reads, count);
	return r->ops->read(r->ctx, ops, count);
}

/* reader_scratch - READ @len bytes at @remote into the scratch memory at @offset. */
static inline struct read_op reader_scratch_op(const struct reader *r, size_t offset,
					       uint64_t remote, uint32_t rkey, uint32_t len)
{
	return (struct read_op){
		.remote = remote,
		.rkey = rkey,
		.len = len,
		.local = (uint8_t *)r->scratch + offset,
		.lkey = r->scratch_lkey,
	};
}

/*
 * reader_prepare - root and directory are known after it: READs them where they are not.
 * Returns 0; -ECONNRESET, -ETIMEDOUT; -EPROTO: they are not what the layout says.
 */
int reader_prepare(struct reader *r);

/*
 * reader_extent - the place of an extent, from the cache, or READ from the extent table.
 * Returns 0; -ENOENT: the table has no sound entry there; -ECONNRESET, -ETIMEDOUT.
 */
int reader_extent(struct reader *r, unsigned number, struct extent *out);

/*
 * directory_refresh - the bucket of @hash was not what the cached directory promised: READ that
 * entry again, and with it root's descriptor; where the directory was replaced, the new one.
 * Returns 0: look again; -EPROTO, -ENOMEM, -ECONNRESET, -ETIMEDOUT.
 */
int directory_refresh(struct reader *r, uint64_t hash);

/*
 * directory_fetch - READ the directory that a sound descriptor of the root names; the caller's
 * reference. Returns 0; -EAGAIN: it is not there (any more); -EPROTO: it cannot be there; -ENOMEM,
 * -ECONNRESET, -ETIMEDOUT.
 */
int directory_fetch(struct reader *r, const struct root_directory *at, struct dir_cache **out);

/* directory_entry_of - the cached entry of a hash. The word names itself: relaxed. */
static inline uint64_t directory_entry_of(const struct dir_cache *dir, uint64_t hash)
{
	return atomic_load_explicit(&dir->entry[hash_prefix(hash, dir->depth)],
				    memory_order_relaxed);
}

/*
 * segment_place - remote address and rkey of the segment that a directory entry names.
 * Returns 0; -ENOENT: the entry names none that can be; -ECONNRESET, -ETIMEDOUT.
 */
int segment_place(struct reader *r, uint64_t entry, uint64_t *addr, uint32_t *rkey);

/* reader_drop - let go of world and directory. */
void reader_drop(struct reader *r);
