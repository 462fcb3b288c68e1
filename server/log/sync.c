/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What is written and durable, who waits for it, and the end of writing.
 *
 * Positions are raised, and the failure is set, under `lock` only, and each of them wakes all who
 * sleep at `changed`: so no raise is missed, whoever does it, and nothing is raised after a
 * failure.
 *
 * With --sync MS and never a thread of its own syncs: where something was written for half of MS
 * and not yet synced, which leaves the other half for the sync, where log_await_durable() asks for
 * it, and where the kernel's memory has UNSYNCED_MAX of the log, so that the writer waits for no
 * more than twice that when it leaves the segment. A sync covers what was written before it began.
 * `syncing` keeps the writer from leaving the segment meanwhile, `switching` keeps the syncer from
 * one that the writer is about to leave.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/log/log_internal.h"

#define UNSYNCED_MAX (32u << 20) /* bytes; while they are synced as many more may come */

/* Under the lock. */
static uint64_t log_written(const struct log *l)
{
	return atomic_load_explicit(&l->written, memory_order_relaxed); /* the lock orders it */
}

static void raise_to(_Atomic uint64_t *position, uint64_t to)
{
	/* relaxed: under the lock. seq_cst: see log_wait_arm(); it is a release besides, for what
	 * was done to make it true */
	if (atomic_load_explicit(position, memory_order_relaxed) < to)
		atomic_store_explicit(position, to, memory_order_seq_cst);
}

/* Under the lock: what the disk and all other holders have. */
static uint64_t committed_by(const struct log *l, uint64_t disk)
{
	/* relaxed: stored by who calls, or by the writer, which calls when it has stored it. What
	 * is held does so since a completion, which no order of ours is needed for. */
	const uint64_t held = atomic_load_explicit(&l->held, memory_order_relaxed);

	return held < disk && !MUTANT(commit_alone) ? held : disk;
}

bool log_raise(struct log *l, uint64_t written, uint64_t durable)
{
	const uint64_t was = log_durable(l);
	bool failed, tell;

	pthread_mutex_lock(&l->lock);
	failed = log_has_failed(l);
	if (!failed) {
		raise_to(&l->written, written);
		raise_to(&l->durable, durable);
		raise_to(&l->committed,
			 committed_by(l, l->config.sync == LOG_SYNC_ALWAYS ? log_durable(l)
									   : log_written(l)));
		/* Nobody sleeps for a batch more that waits for its sync as others do. */
		tell = log_durable(l) > was || l->demand > was || l->unsynced >= UNSYNCED_MAX;
		if (!l->dirty && log_durable(l) < written) {
			l->dirty = tell = true;
			l->dirty_ns = time_now_ns();
		}
		if (tell)
			pthread_cond_broadcast(&l->changed);
	}
	pthread_mutex_unlock(&l->lock);
	log_wake(l);
	return !failed;
}

void log_fail(struct log *l, const char *what, const char *name, int rc)
{
	char why[384];
	bool was;

	pthread_mutex_lock(&l->lock);
	was = log_has_failed(l);
	atomic_store_explicit(&l->failed, true, memory_order_seq_cst); /* as raise_to() */
	pthread_cond_broadcast(&l->changed);
	pthread_cond_broadcast(&l->chores);
	pthread_mutex_unlock(&l->lock);
	log_kick(l); /* the writer ends */
	log_wake(l);
	if (was)
		return;
	snprintf(why, sizeof(why),
		 "%s %s failed: %s; nothing is acknowledged from now on (look at the disk and at "
		 "the kernel's messages, then start the server again: it recovers all that was "
		 "acknowledged)",
		 what, name, error_name(rc));
	if (l->config.failed)
		l->config.failed(l->config.ctx, why);
}

uint64_t log_at_disk(const struct log *l)
{
	/* relaxed: see at_disk() */
	const uint64_t n = atomic_load_explicit(&l->disk_calls, memory_order_relaxed);

	return n % 2 ? n : 0;
}

void log_give_up(struct log *l)
{
	char name[SEGMENT_NAME_BYTES];

	pthread_mutex_lock(&l->lock);
	memcpy(name, l->current->name, sizeof(name));
	pthread_mutex_unlock(&l->lock);
	log_fail(l, "writing", name, -ETIMEDOUT);
}

void sync_keep_up(struct log *l)
{
	if (l->config.sync == LOG_SYNC_ALWAYS)
		return;
	pthread_mutex_lock(&l->lock);
	while (l->syncing && l->unsynced >= UNSYNCED_MAX && !log_has_failed(l))
		pthread_cond_wait(&l->changed, &l->lock);
	pthread_mutex_unlock(&l->lock);
}

void sync_took(struct log *l, uint64_t ns)
{
	const uint64_t us = ns < 1000 ? 1 : ns / 1000;
	const unsigned power = 63 - (unsigned)__builtin_clzll(us);
	/* 1024 times what is above the power of two: 2^(1/4), 2^(2/4) and 2^(3/4) are the steps */
	const uint64_t part = power > 53 ? 0 : (us << 10) >> power;
	unsigned bin = 4 * power + (part >= 1218) + (part >= 1449) + (part >= 1723);

	if (bin >= LOG_BINS)
		bin = LOG_BINS - 1;
	pthread_mutex_lock(&l->lock);
	l->stats.syncs++;
	l->stats.sync_bins[bin]++;
	l->stats.sync_ns_last = ns;
	if (ns > l->stats.sync_ns_max)
		l->stats.sync_ns_max = ns;
	pthread_mutex_unlock(&l->lock);
}

/*
 * The waiter says what it wants, then looks whether it is there; who raises does so first, then
 * looks at what is wanted. All are seq_cst: one of the two sees the other. Failing is the same.
 */
void log_wake(struct log *l)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&l->wait_lock);
	for (struct log_waiter *w = l->waiters; w; w = w->next) {
		uint64_t wants = atomic_load_explicit(&w->wants, memory_order_seq_cst);

		if (wants == UINT64_MAX)
			continue;
		if (wants > atomic_load_explicit(&l->committed, memory_order_seq_cst) &&
		    !atomic_load_explicit(&l->failed, memory_order_seq_cst))
			continue;
		/* relaxed: where the waiter wants another position meanwhile, it has looked at
		 * `committed` itself; the kick stands, and is one too many */
		if (!atomic_compare_exchange_strong_explicit(&w->wants, &wants, UINT64_MAX,
							     memory_order_relaxed,
							     memory_order_relaxed))
			continue;
		while (write(w->fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
	pthread_mutex_unlock(&l->wait_lock);
}

void log_wait_join(struct log *l, struct log_waiter *w)
{
	atomic_store_explicit(&w->wants, UINT64_MAX, memory_order_relaxed); /* the lock orders it */
	pthread_mutex_lock(&l->wait_lock);
	w->next = l->waiters;
	l->waiters = w;
	pthread_mutex_unlock(&l->wait_lock);
}

void log_wait_leave(struct log *l, struct log_waiter *w)
{
	struct log_waiter **at = &l->waiters;

	pthread_mutex_lock(&l->wait_lock);
	while (*at && *at != w)
		at = &(*at)->next;
	if (*at)
		*at = w->next;
	pthread_mutex_unlock(&l->wait_lock);
}

bool log_wait_arm(struct log *l, struct log_waiter *w, uint64_t position)
{
	atomic_store_explicit(&w->wants, position, memory_order_seq_cst); /* see log_wake() */
	if (atomic_load_explicit(&l->committed, memory_order_seq_cst) < position &&
	    !atomic_load_explicit(&l->failed, memory_order_seq_cst))
		return true;
	log_wait_disarm(w);
	return false;
}

void log_wait_disarm(struct log_waiter *w)
{
	/* relaxed: who has not seen it wakes once too often */
	atomic_store_explicit(&w->wants, UINT64_MAX, memory_order_relaxed);
}

int log_await_durable(struct log *l, uint64_t position)
{
	bool durable;

	log_kick(l);
	pthread_mutex_lock(&l->lock);
	if (l->demand < position) {
		l->demand = position;
		pthread_cond_broadcast(&l->changed);
	}
	while (!(durable = log_durable(l) >= position) && !log_has_failed(l))
		pthread_cond_wait(&l->changed, &l->lock);
	pthread_mutex_unlock(&l->lock);
	return durable ? 0 : -EIO;
}

void log_wait_until(struct log *l, pthread_cond_t *at, uint64_t ns)
{
	const struct timespec until = { (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };

	pthread_cond_timedwait(at, &l->lock, &until);
}

/* Under the lock: whether the time for a sync has come; if not, sleep. */
static bool sync_is_due(struct log *l)
{
	const uint64_t half_ns = l->config.sync_ms * (NS_PER_MS / 2);
	const uint64_t durable = log_durable(l);

	/* relaxed: under the lock */
	if (!l->switching && atomic_load_explicit(&l->written, memory_order_relaxed) > durable) {
		if (l->demand > durable || l->unsynced >= UNSYNCED_MAX)
			return true;
		if (l->config.sync == LOG_SYNC_MS && l->dirty) {
			if (time_now_ns() >= l->dirty_ns + half_ns)
				return true;
			log_wait_until(l, &l->changed, l->dirty_ns + half_ns);
			return false;
		}
	}
	pthread_cond_wait(&l->changed, &l->lock);
	return false;
}

void *syncer_run(void *log)
{
	struct log *l = log;

	pthread_mutex_lock(&l->lock);
	while (!log_has_failed(l) && !l->ended) {
		struct segment *s;
		uint64_t written, began_ns;
		int rc;

		if (!sync_is_due(l))
			continue;
		s = l->current;
		written = atomic_load_explicit(&l->written, memory_order_relaxed); /* locked */
		l->syncing = true;
		l->dirty = false;
		l->unsynced = 0;
		pthread_mutex_unlock(&l->lock);
		began_ns = time_now_ns();
		rc = l->io->sync(s->file);
		if (rc)
			log_fail(l, "syncing", s->name, rc);
		else {
			sync_took(l, time_now_ns() - began_ns);
			log_raise(l, written, written);
		}
		pthread_mutex_lock(&l->lock);
		l->syncing = false;
		pthread_cond_broadcast(&l->changed);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}
