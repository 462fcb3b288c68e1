/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * When snapshots are taken: one thread, which also raises the life ahead of the versions.
 *
 * A snapshot that fails harms nothing: what it would have had is in the log, which is kept from the
 * older one on. It is tried again later, under the same number.
 *
 * A save asks for the number after the one that is under way, as that may have walked past what the
 * asker wants in it.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "server/data/snapshot_write.h"
#include "server/index/index.h"
#include "server/reclaim/qsbr.h"

#define LOOK_NS	 (NS_PER_S / 5) /* between two looks at the log's length */
#define NICE	 10 /* of the thread: workers go first */
#define AGAIN_NS (10 * NS_PER_S) /* after a failure */

/* Half of the versions of the life that meta knows are given out: the next one may be entered. In a
 * group another member may have drawn that, and the group's thread is the one that writes meta. */
static void raise_life(struct data *d)
{
	uint64_t version = atomic_load_explicit(&d->store->version, memory_order_relaxed);
	struct error err;

	if (d->in_group || version < life_first(d->meta.life) + (1ull << (COUNT_BITS - 1)))
		return;
	if (data_raise_life(d, d->meta.life + 1, &err))
		log_error("data", "%s", err.text);
}

static bool is_new(const struct data_snapshots *s, uint64_t tail)
{
	return s->newest.time_ms ? tail != s->newest.start : tail != 0;
}

/* Must hold the lock. */
static bool is_due(const struct data *d)
{
	const struct data_snapshots *s = &d->snapshots;
	uint64_t done = atomic_load_explicit(&s->done, memory_order_relaxed);
	uint64_t tail = log_tail(d->log);

	if (d->lost)
		return false;
	if (s->wanted > done)
		return true;
	if (s->stopping)
		return is_new(s, tail);
	return d->config.snapshot_bytes && tail - s->newest.start >= d->config.snapshot_bytes;
}

static void count_one(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); /* a figure */
}

static void tell(const struct data *d, const struct data_newest *n, uint64_t records)
{
	log_info("data",
		 "snapshot of %" PRIu64 " records in %s: %.2f GB in %.2f s; the log is replayed "
		 "from position %" PRIu64,
		 records, d->path, (double)n->bytes / 1e9, (double)n->took_ms / 1e3, n->start);
}

/* Returns whether it is complete. */
static bool take_one(struct data *d, struct reclaim_worker *hazards)
{
	struct data_snapshots *s = &d->snapshots;
	struct data_newest newest;
	struct index_stats index;
	struct error err = { 0 };
	int rc;

	index_stats_get(d->store->index, &index);
	atomic_store_explicit(&s->progress, 0, memory_order_relaxed);
	atomic_store_explicit(&s->total, index.records ? index.records : 1, memory_order_relaxed);
	rc = snapshot_take(d, hazards, &newest, &err);
	if (rc == 0) {
		tell(d, &newest, atomic_load_explicit(&s->progress, memory_order_relaxed));
		pthread_mutex_lock(&s->lock);
		s->newest = newest;
		pthread_mutex_unlock(&s->lock);
		count_one(&s->done);
	} else {
		count_one(&s->failed);
		log_warn("data", "a snapshot could not be taken, which harms nothing: %s",
			 err.text);
	}
	atomic_store_explicit(&s->progress, 0, memory_order_relaxed);
	atomic_store_explicit(&s->total, 0, memory_order_relaxed);
	if (rc == 0 && snapshot_prune(d, &err))
		log_warn("data", "%s", err.text);
	return rc == 0;
}

/* Must hold the lock, which is dropped meanwhile. */
static void sleep_a_while(struct data_snapshots *s)
{
	uint64_t until = time_now_ns() + LOOK_NS;
	const struct timespec ts = { (time_t)(until / NS_PER_S), (long)(until % NS_PER_S) };

	pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, &ts);
}

static void loop(struct data *d, struct reclaim_worker *hazards)
{
	struct data_snapshots *s = &d->snapshots;
	uint64_t again_ns = 0;
	bool over = false;

	pthread_mutex_lock(&s->lock);
	while (!over) {
		bool stopping = s->stopping;

		if (is_due(d) && (stopping || time_now_ns() >= again_ns)) {
			s->begun = atomic_load_explicit(&s->done, memory_order_relaxed) + 1;
			pthread_mutex_unlock(&s->lock);
			again_ns = take_one(d, hazards) ? 0 : time_now_ns() + AGAIN_NS;
			pthread_mutex_lock(&s->lock);
		} else if (!stopping) {
			sleep_a_while(s);
		}
		over = stopping;
		pthread_mutex_unlock(&s->lock);
		raise_life(d);
		data_delete_aside(d);
		pthread_mutex_lock(&s->lock);
	}
	pthread_mutex_unlock(&s->lock);
}

static void *snapshots_main(void *arg)
{
	struct data *d = arg;

	pthread_setname_np(pthread_self(), "gkv-snapshot");
	setpriority(PRIO_PROCESS, 0, NICE); /* Linux: of this thread alone */
	qsbr_register();
	qsbr_offline();
	loop(d, d->snapshots.hazards);
	qsbr_online();
	qsbr_unregister();
	return NULL;
}

int data_serve(struct data *d, const struct data_published *published, struct error *err)
{
	struct data_snapshots *s = &d->snapshots;
	sigset_t all, old;
	int rc;

	s->published = *published;
	s->store[0] = d->meta.store[0];
	s->store[1] = d->meta.store[1];
	s->hash_seed = d->meta.hash_seed;
	rc = reclaim_worker_create(&s->hazards, d->store->reclaim, STORE_WALK_MAX);
	if (rc)
		return error_set(err, rc, "out of memory for snapshots");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = -pthread_create(&s->thread, NULL, snapshots_main, d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		reclaim_worker_destroy(s->hazards);
		return error_set(err, rc, "starting the thread of snapshots failed: %s",
				 error_name(rc));
	}
	s->runs = true;
	return 0;
}

void data_rest(struct data *d, bool last)
{
	struct data_snapshots *s = &d->snapshots;

	if (!s->runs)
		return;
	pthread_mutex_lock(&s->lock);
	s->stopping = true;
	d->lost |= !last;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	reclaim_worker_destroy(s->hazards);
	s->runs = false;
}

uint64_t data_save(struct data *d)
{
	struct data_snapshots *s = &d->snapshots;
	uint64_t number;

	pthread_mutex_lock(&s->lock);
	number = s->begun + 1;
	if (number > s->wanted)
		s->wanted = number;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return number;
}
