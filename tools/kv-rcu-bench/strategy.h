/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A way of reclaiming memory, as kv-rcu-bench tries it: what readers do around a read, and what
 * an updater does with the object that it replaced.
 *
 * Readers read in periods of PERIOD_READS: under QSBR and epochs a period is one section, under
 * hazard pointers each read is its own. The first object of a period is held to its end and then
 * read again, so that every period is a section that lasts.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "tools/lib/histogram.h"
#include "tools/kv-rcu-bench/object.h"

#define PERIOD_READS  64u
#define BATCH_OBJECTS 256u
#define BATCH_NS      5000000ull
#define LINE	      128 /* bytes: two, since neighbours are fetched in pairs */

#define READERS_MAX  1024u
#define UPDATERS_MAX 256u
#define HAZARDS	     2u /* of a reader: the object that it holds, and the one that it reads */
#define EPOCH_BAGS   3u

/* Grace periods as one thread saw them. */
struct rcu_grace {
	struct histogram times;
	uint64_t total_ns;
};

/* Objects that a thread keeps; of that thread. */
struct rcu_bag {
	struct rcu_object *first;
	uint64_t count;
	uint64_t since_ns; /* batch: when the first one came; epoch: when the last one did */
	uint64_t epoch; /* in which they were retired */
};

/* A pointer that readers follow and updaters exchange. */
struct rcu_source {
	_Alignas(LINE) _Atomic(struct rcu_object *) object;
};

struct rcu_domain;

struct rcu_reader {
	/* What the others look at: seq_cst where it is announced, release where it is taken back.
	 * Pairs with hazards_collect() and epoch_advance(). */
	_Alignas(LINE) _Atomic(struct rcu_object *) hazard[HAZARDS];
	_Atomic uint64_t epoch; /* number * 2 + 1; 0: in no section */
	/* Its own. */
	_Alignas(LINE) struct rcu_domain *domain;
	void *own; /* the strategy's */
	pthread_t thread;
	unsigned turn; /* which object is next */
	uint64_t reads;
	uint64_t failures; /* objects that were freed under it */
};

struct rcu_updater {
	/* Written by this thread, relaxed: they are figures, looked at by rcu_deferred(). */
	_Alignas(LINE) _Atomic uint64_t retired;
	_Atomic uint64_t freed; /* by this thread */
	/* Its own. */
	_Alignas(LINE) struct rcu_domain *domain;
	void *own; /* the strategy's */
	pthread_t thread;
	unsigned turn;
	uint64_t serial;
	uint64_t now_ns; /* when the update began that it is at */
	uint64_t until_check; /* objects, until it looks at the bound */
	uint64_t epoch; /* that it saw last */
	struct rcu_bag bag[EPOCH_BAGS]; /* all but epoch: the first */
	struct histogram times; /* of updates */
	struct rcu_grace grace;
};

struct rcu_strategy {
	const char *name;
	const char *how; /* for people */
	bool qsbr_readers, qsbr_updaters; /* these threads are QSBR readers */
	bool unbreakable; /* rcu_domain.broken does not reach it */
	/* Any may be NULL, but for read, and retire or update. */
	int (*open)(struct rcu_domain *d, struct error *err);
	/* One period. Returns how many objects had been freed under the reader. */
	uint64_t (*read)(struct rcu_reader *r);
	/* The whole of an update, in place of malloc, exchange and retire. Returns 0; -EINTR: the
	 * run is over and it was not made; another negative errno, which ends the run. */
	int (*update)(struct rcu_updater *u);
	/* @old was replaced by this updater; inside the timing. */
	void (*retire)(struct rcu_updater *u, struct rcu_object *old);
	/* After it, outside the timing. */
	void (*after)(struct rcu_updater *u);
	/* Readers and updaters are gone: ends its threads and frees what they had. rcu_run() frees
	 * the updaters' bags. Returns 0, or a negative errno with @err. */
	int (*close)(struct rcu_domain *d, struct error *err);
};

/* One run: readers, updaters, objects, and what is theirs together. */
struct rcu_domain {
	const struct rcu_strategy *strategy;
	void *own; /* the strategy's, from open to close */
	struct rcu_source *source;
	unsigned sources;
	struct rcu_reader *reader;
	struct rcu_updater *updater;
	unsigned readers, updaters;
	uint64_t pause_ns;
	uint64_t deferred_max; /* objects */
	bool broken; /* nobody waits for readers: to see that they notice */
	bool slow; /* readers stop where it is most dangerous: for tests */
	_Alignas(LINE) _Atomic uint64_t go; /* 0: not yet */
	_Atomic bool stop; /* relaxed: a sign, nothing hangs on its order */
	_Atomic int failed; /* a negative errno: what ended a thread; relaxed */
	_Alignas(LINE) _Atomic uint64_t freed; /* by helper threads; see rcu_updater */
	_Alignas(LINE) _Atomic uint64_t epoch; /* of epoch.c */
	struct rcu_grace grace; /* of a strategy's own thread; read when that has ended */
	uint64_t periods; /* grace periods, where they are more than those timed; set by close */
};

/* All of them; the last one has no name. */
extern const struct rcu_strategy *const rcu_strategies[];
extern const struct rcu_strategy rcu_floor, rcu_sync, rcu_delay, rcu_batch, rcu_gpc, rcu_liburcu,
	rcu_hazard, rcu_epoch, rcu_remote;

#define RCU_REMOTE_DEVICE "soft0" /* of rcu_remote, whatever else is here */

/* rcu_strategy_find - by name, @len bytes; NULL: there is none. */
const struct rcu_strategy *rcu_strategy_find(const char *name, size_t len);

/* rcu_read_qsbr - a period under QSBR. */
uint64_t rcu_read_qsbr(struct rcu_reader *r);

/* rcu_linger - in a section: where nobody waits for readers, so that they notice; and for tests. */
void rcu_linger(const struct rcu_reader *r);

/* rcu_stall - between finding something and announcing it: for tests. */
void rcu_stall(const struct rcu_reader *r);

/* rcu_grace_wait - a grace period of QSBR, timed into @g, which is the calling thread's. */
void rcu_grace_wait(struct rcu_domain *d, struct rcu_grace *g);

/* rcu_grace_add - one that took @ns. */
void rcu_grace_add(struct rcu_grace *g, uint64_t ns);

/* rcu_deferred - objects that are retired and not freed, about. Any thread. */
uint64_t rcu_deferred(const struct rcu_domain *d);

/*
 * rcu_bound - for strategies whose own thread frees: now and then, look whether more than
 * deferred_max wait, and sleep, offline, until it is less. Also says that one more was retired.
 */
void rcu_bound(struct rcu_updater *u);

/* rcu_bag_put, rcu_bag_free - the latter returns how many there were. */
static inline void rcu_bag_put(struct rcu_bag *bag, struct rcu_object *o)
{
	o->next = bag->first;
	bag->first = o;
	bag->count++;
}

uint64_t rcu_bag_free(struct rcu_bag *bag);

/* rcu_count - add to a figure that one thread writes and others look at. */
static inline void rcu_count(_Atomic uint64_t *figure, uint64_t n)
{
	uint64_t now = atomic_load_explicit(figure, memory_order_relaxed);

	atomic_store_explicit(figure, now + n, memory_order_relaxed);
}

static inline struct rcu_source *rcu_next_source(struct rcu_domain *d, unsigned *turn)
{
	unsigned i = *turn;

	*turn = i + 1 == d->sources ? 0 : i + 1;
	return &d->source[i];
}

/*
 * rcu_pause - busy, without a system call, so that it is as long for every strategy; but for what
 * goes beyond PAUSE_BUSY_NS, which is slept. @since_ns: when it began. @quiescent: the caller is a
 * QSBR reader, and says all the time that it holds nothing.
 */
#define PAUSE_BUSY_NS 1000000ull
void rcu_pause(uint64_t since_ns, uint64_t ns, bool quiescent);
