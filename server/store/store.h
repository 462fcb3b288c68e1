/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Records. Every function below is called by a worker thread that is registered with liburcu
 * (QSBR) and online; what a look-up returns is valid until the worker's next quiescent state.
 *
 * Order of a write (DESIGN 3): block INVALID, body and checksum; bucket lock; version;
 * block LIVE; old block OBSOLETE; slot published; bucket unlocked; then the caller acknowledges.
 * The old block is retired after the unlock.
 *
 * Versions are one server-wide sequence, drawn under the bucket's lock: of two writes of one key
 * the later one has the greater version, across delete and re-insert too.
 *
 * Lock order: client entry (clients/clients.h), bucket (index.h), memory's own.
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/time.h"
#include "common/layout/wire_rpc.h"
#include <urcu/list.h>

#include "server/index/index.h"
#include "server/log/log.h"
#include "server/memory/memory.h"
#include "server/reclaim/reclaim.h"

#define STORE_LINE 64 /* bytes of a cache line */

struct store_worker;

struct store {
	/* Read by each request. */
	struct memory *memory;
	struct index *index;
	struct reclaim *reclaim;
	uint64_t hash_seed;
	_Atomic(struct store_worker *) sweeper; /* the worker that goes over them, or NULL */
	struct log *log; /* NULL: nothing is durable, and every write is published at once */
	/* With a log: writes that are decided and not published, of each lock of the index in the
	 * order of their decision. Under that lock. */
	struct cds_list_head *pending;
	_Atomic uint64_t clock_floor_ms; /* store_now_ns() never says less. Raised by anyone */

	/* Written by each write: a cache line of its own. */
	_Alignas(STORE_LINE) _Atomic uint64_t version; /* last one drawn */

	_Alignas(
		STORE_LINE) _Atomic uint64_t expired; /* records that were deleted since they had */
};

static_assert(offsetof(struct store, version) % STORE_LINE == 0 &&
		      offsetof(struct store, expired) - offsetof(struct store, version) ==
			      STORE_LINE,
	      "drawing a version takes no line from those who read the rest");

struct store_config {
	uint64_t bytes_max;
	uint64_t extent_bytes_max; /* as in memory_config */
	bool fill; /* with all of its memory, as memory_fill() says */
	uint64_t slots; /* of the index, to begin with; 0: as few as there can be */
	uint64_t server_incarnation;
	uint64_t hash_seed;
	struct memory_hooks hooks;
	uint64_t
		deferred_max; /* bytes that may wait for grace periods; 0: a quarter of bytes_max */
	unsigned limit_ms; /* the section limit: reclaim.h */
};

/*
 * store_now_ns - the wall clock that expiry is judged by. With a log it never goes back, not even
 * from one life to the next: see store_log_open(). Any thread.
 * store_clock_raise - store_now_ns() says no less from now on.
 */
uint64_t store_now_ns(struct store *s);
void store_clock_raise(struct store *s, uint64_t ms);

/*
 * store_log_open - from now on writes wait for the log. No worker thread runs yet. Versions go on
 * above @first_version. Returns 0 or -ENOMEM.
 */
int store_log_open(struct store *s, struct log *log, uint64_t first_version);

int store_create(struct store *store, const struct store_config *config, struct error *err);
/* store_destroy - workers are gone and no session is left. A zeroed store is fine. */
void store_destroy(struct store *store);

/* One worker's share. */
struct store_worker {
	struct store *store;
	struct memory_cache *cache;
	struct reclaim_worker *reclaim;
	uint64_t sweep_ns, sweep_short_ns; /* when to sweep next; the same while memory is short */
	/* With a log: of the write that is under way, set by its caller before it calls a function
	 * that writes; NULL: what it calls publishes at once (deleting what has expired). */
	struct store_decision *decision;
#ifdef GRACEKV_MUTANTS
	struct index_hit late; /* acknowledge_first: replaced, and not OBSOLETE yet */
#endif
};

int store_worker_create(struct store_worker *w, struct store *store, unsigned hazards);
void store_worker_destroy(struct store_worker *w);

/* Where a record is and what it is: for replies. */
struct store_result {
	uint64_t version;
	uint64_t slot;
	uint64_t expiry_ms;
	uint32_t incarnation;
	uint32_t value_len;
	const struct block *block; /* NULL after a DEL */
	struct memory_place place;
};

enum store_condition { STORE_ALWAYS, STORE_IF_ABSENT, STORE_IF_PRESENT, STORE_IF_VERSION };

/*
 * What a write is bound to, looked at under the bucket's lock. A record that has expired by @now_ms
 * is not there for any condition; it is deleted before -ENOENT is returned.
 */
struct store_terms {
	enum store_condition condition;
	uint64_t version; /* of STORE_IF_VERSION */
	uint64_t now_ms; /* wall clock */
	bool force; /* as in store_del(), for a record that has expired */
	bool keep; /* PUT: the record that is there keeps its expiry */
};

/* Nothing is asked for; the same with force. */
extern const struct store_terms store_always, store_forced;

/*
 * A write that was decided and appended to the log, and is not published yet. From the decision to
 * store_publish() it stands in the list of its lock, where every later write of its key is judged
 * against it. @block is INVALID until then: final but for its state, readable inside the read-side
 * section in which it was found.
 */
struct store_pending {
	struct cds_list_head node;
	uint64_t hash;
	uint64_t version;
	uint64_t slot; /* PUT: what the index will hold, and does where `holds` */
	struct block *block; /* PUT; NULL: DEL */
	const uint8_t *key; /* in its own block, or of a DEL in that of what it deletes */
	uint32_t key_len;
	bool holds; /* its slot stands in the index already: nothing else of the key does */
	struct log_place place;
};

/* What a writer says of a write, and hears of it. */
struct store_decision {
	/* In: who asked, for the log. */
	uint64_t client[2];
	uint64_t sequence;
	uint8_t handle;
	uint16_t request_slot;
	struct store_pending *pending; /* the caller's, not in any list */
	/* Out. */
	int64_t number; /* INCR: set by the store before it appends */
	bool appended; /* *pending is in the list; the write's result is what it will be */
	int refused; /* what log_append_begin() returned, where that is why; else 0 */
	/* Otherwise: the result was judged against this version of a write that is pending, and
	 * must not be told before that is published; 0: against what is published. */
	uint64_t awaits;
	uint64_t awaits_hash;
};

/*
 * store_publish - the write's record is committed: what store_put_finish() does at once without a
 * log. Retires what it replaces. Returns 0; -EAGAIN: another write of the key comes first, which
 * another worker publishes soon.
 * store_is_pending - whether the write of @version is not published yet.
 */
int store_publish(struct store_worker *w, struct store_pending *p);
bool store_is_pending(struct store *s, uint64_t hash, uint64_t version);

/*
 * Recovery: no log is open, no session is there. A record of the log or of a snapshot, applied
 * where nothing as new stands there: any number of times, in the order of the log for each key.
 * Several threads may, each with its own worker, online.
 * store_restore_put - @body: XXH3 of key and value. Returns 0; STORE_EXPIRED: its time is over by
 * store_now_ns(), so it was left out, and what is older removed; -ENOMEM; -EAGAIN: memory is
 * growing, or waits for a grace period: go offline for a while and try again.
 * store_restore_del - removes what is older than @version. Returns 0, or -EAGAIN.
 */
#define STORE_EXPIRED 1
int store_restore_put(struct store_worker *w, const void *key, uint32_t key_len, const void *value,
		      uint32_t value_len, uint64_t version, uint64_t expiry_ms, uint64_t body);
int store_restore_del(struct store_worker *w, const void *key, uint32_t key_len, uint64_t version);

/*
 * store_walk - the records of a few buckets more, for a snapshot: @at is 0 at first, and says where
 * to go on. Every record that is published from the first call to the last is seen, and some of
 * those that are not all the time; a key may be seen twice, in two versions. @out: LIVE when they
 * were found, readable until the caller's next quiescent state; at most STORE_WALK_MAX. The caller
 * is a registered reader (qsbr.h), online. Returns false, with none, after the last.
 */
#define STORE_WALK_MAX 1024u
static_assert(STORE_WALK_MAX >= INDEX_WALK_MAX, "all of a bucket at least");

struct store_walk {
	uint64_t at;
	unsigned count;
	const struct block *block[STORE_WALK_MAX];
	struct memory_place place[STORE_WALK_MAX]; /* of each: for hazards (reclaim.h) */
};

bool store_walk(struct store *s, struct store_walk *walk);

/* A PUT that has its block and waits for its value. */
struct store_put {
	struct block *block;
	struct memory_place place;
	uint64_t hash;
	uint32_t base; /* bytes of the value before the caller's: of an APPEND */
	uint64_t base_version; /* sealed, of an APPEND: of the record that they are of; 0: none */
	bool sealed; /* the block's contents are whole, and body is their hash */
	uint64_t body;
};

/*
 * store_expiry - of a record that lives for @ttl_ms from @now_ns on (wall clock); 0: never. Never
 * early: of a millisecond that has begun all counts. @ttl_ms: as decoded, at most RPC_TTL_MAX_MS.
 */
static_assert(UINT64_MAX / NS_PER_MS + 1 + RPC_TTL_MAX_MS < INT64_MAX, "no expiry overflows");

static inline uint64_t store_expiry(uint64_t now_ns, uint64_t ttl_ms)
{
	return ttl_ms ? now_ns / NS_PER_MS + (now_ns % NS_PER_MS != 0) + ttl_ms : 0;
}

/*
 * store_put_begin - take a block and write all but the value and the version.
 * put->block->data + key_len is where @value_len bytes of value go.
 * Returns 0, -ENOMEM, or -EAGAIN: memory is growing, see memory_growth_wait().
 */
int store_put_begin(struct store_worker *w, const void *key, uint32_t key_len, uint32_t value_len,
		    uint64_t expiry_ms, struct store_put *put);

/*
 * store_put_refused - before a block is taken, or a value fetched: whether the condition of @terms
 * fails by what is there. Returns -EEXIST or -ENOENT, as store_put_commit(), or 0: not now, or a
 * record that has expired is in the way.
 */
int store_put_refused(struct store_worker *w, const void *key, uint32_t key_len,
		      const struct store_terms *terms, struct store_result *out);

/*
 * store_put_waits - whether the record that a PUT of the key would replace could not be replaced
 * now, as far as can be told: store_put_commit() would return -EBUSY.
 */
bool store_put_waits(struct store_worker *w, const void *key, uint32_t key_len);

/*
 * store_put_commit - the value stands in the block: publish it, on @terms. A full segment is split
 * first.
 * Returns 0; -ENOMEM: the index has no room; the block is given back and nothing changed; -EBUSY:
 * too much waits for grace periods to replace a record or to split a segment now, the same
 * otherwise; -EEXIST, -ENOENT: the condition does not hold, the same otherwise; with -EEXIST
 * out->version is of the record that is there; -EAGAIN: memory for the index is growing; nothing
 * changed and the block is still the caller's: call memory_growth_wait() and commit again, or
 * abort.
 * On return every later look-up, local or remote, finds this record or a newer one.
 */
int store_put_commit(struct store_worker *w, struct store_put *put, const struct store_terms *terms,
		     struct store_result *out);

/*
 * store_put_seal, store_append_seal - the value stands in the block: hash it ahead of
 * store_put_commit() or store_append_commit(), which otherwise do; so that locks which are held
 * there are not held for as long as 16 MiB take. For an APPEND that is done for the record which is
 * there now; it is done again where another one is there at the commit.
 */
void store_put_seal(struct store_put *put);
void store_append_seal(struct store_worker *w, struct store_put *put, uint64_t now_ms);

/* store_put_publish - the same, but unless it returns 0 the block is still the caller's. */
int store_put_publish(struct store_worker *w, struct store_put *put,
		      const struct store_terms *terms, struct store_result *out);

/* store_put_abort - give the block back; it never was published. */
void store_put_abort(struct store_worker *w, struct store_put *put);

/*
 * store_prefetch - operations on these keys come next, say those of requests that were polled
 * together: wait for all their buckets, then for all their blocks, at once instead of one by one.
 * A hint: it changes no result. @count: at most STORE_PREFETCH_MAX. @write: PUTs and DELs come, not
 * GETs.
 */
#define STORE_PREFETCH_MAX INDEX_PREFETCH_MAX

struct store_key {
	const void *key;
	uint32_t len;
};

void store_prefetch(const struct store *store, const struct store_key *keys, unsigned count,
		    bool write);

/*
 * store_get - @now_ms: wall clock; an expired record is deleted first, as nobody may find it after
 * "absent" was said. Returns 0, -ENOENT, or -EBUSY: it cannot be deleted now, as in store_del().
 */
int store_get(struct store_worker *w, const void *key, uint32_t key_len, uint64_t now_ms,
	      bool force, struct store_result *out);

/*
 * store_del - on @terms, STORE_ALWAYS or STORE_IF_VERSION. Returns 0 (out->version: of the
 * deletion), -ENOENT, -EEXIST: it has another version, out->version; or -EBUSY: too much waits for
 * grace periods, unless terms->force.
 */
int store_del(struct store_worker *w, const void *key, uint32_t key_len,
	      const struct store_terms *terms, struct store_result *out);

/*
 * store_append_begin, store_append_commit - an APPEND in the same two steps, and with the same
 * results. The @value_len bytes go behind what is there, at data + key_len + put->base; another
 * block is taken where that has another length in the end. The record expires as before, or at
 * @expiry_ms where there was none. Also -EFBIG: the value would be longer than VALUE_MAX. Unless it
 * returns 0 the block is still the caller's.
 */
int store_append_begin(struct store_worker *w, const void *key, uint32_t key_len,
		       uint32_t value_len, uint64_t expiry_ms, uint64_t now_ms,
		       struct store_put *put);
int store_append_commit(struct store_worker *w, struct store_put *put,
			const struct store_terms *terms, struct store_result *out);

/*
 * store_incr - the record's value is a decimal number (wire_rpc.h): add @delta, from 0 where there
 * is no record. It expires as before, or at @expiry_ms where there was none.
 * Returns 0 with @sum; -EDOM: it is no number; -ERANGE: the sum is none of 64 bits; -ENOMEM,
 * -EEXIST, -ENOENT, -EBUSY, -EAGAIN as store_put_commit(), but nothing is left with the caller.
 * However many others write the record, it is written in the end (update.c: PROGRESS).
 */
int store_incr(struct store_worker *w, const void *key, uint32_t key_len, int64_t delta,
	       uint64_t expiry_ms, const struct store_terms *terms, int64_t *sum,
	       struct store_result *out);

/*
 * store_touch - rewrite the record, with another expiry. Returns 0, -ENOENT, or as store_incr().
 * The copy is made here: a large one takes milliseconds.
 */
int store_touch(struct store_worker *w, const void *key, uint32_t key_len, uint64_t expiry_ms,
		const struct store_terms *terms, struct store_result *out);

/*
 * store_sweep - once per loop of the worker: deletes expired records that nobody asks for, a slice
 * of at most some 100 us. Returns nanoseconds until it wants to be called again, UINT64_MAX: as
 * long as no record expires, never.
 * store_sweeps - whether there may be some: so memory is on its way. Any thread.
 */
uint64_t store_sweep(struct store_worker *w, uint64_t now_ns);
bool store_sweeps(struct store *store);

/*
 * store_untidy - the index has become sparser than it is small; store_tidy() then goes on with
 * what was put off: a few merges of at most 50 us each. Returns whether to call it again at once;
 * where not, memory is short: some 100 ms later is soon enough.
 */
bool store_untidy(const struct store *store);
bool store_tidy(struct store_worker *w);
