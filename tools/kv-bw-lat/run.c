/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Threads and rounds. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/kv-bw-lat/perf.h"

#define SLEEP_MAX_NS (100 * NS_PER_MS) /* then a look whether the round was halted */
#define AWAKE_NS     50000u /* what is due sooner is not slept for */
#define MISSED_APART (1u << 20) /* of what was given up so many are counted by themselves */
#define SEED_STEP    0x9e3779b97f4a7c15ull

int perf_fail(struct perf_thread *t, int code, const char *what, const char *why)
{
	/* the first of all threads stops the others; relaxed: as perf_halted() */
	atomic_store_explicit(&t->p->halt, true, memory_order_relaxed);
	return error_set(&t->error, code, "%s: %s", what, why);
}

/* Of very many, neighbours count as one of them does: they may be 10^12. */
void perf_missed(struct perf_thread *t, uint64_t now)
{
	uint64_t left = pace_behind(&t->pace, now), step = left / MISSED_APART + 1;

	while (left) {
		uint64_t n = left < step ? left : step;
		uint64_t ns = ticks_ns(now - pace_intended(&t->pace, t->pace.next));

		t->pace.next += n;
		left -= n;
		t->tally.missed += n;
		histogram_add_many(&t->tally.lat, ns, n);
		moments_add_many(&t->tally.moments, (double)ns, n);
		while (t->p->round.kept && n-- && t->kept_count < t->kept_max)
			t->kept[t->kept_count++] = ns;
	}
}

void perf_idle(const struct perf *p, unsigned count)
{
	if (count <= p->spin_polls)
		time_relax();
	else if (p->software)
		time_give_way(); /* the server needs a core of this machine */
	else
		time_yield();
}

/* Whether all of the thread's handles may be slept on, as gkv_arm() says. */
static int arm(struct perf_thread *t, struct pollfd *fd)
{
	for (unsigned i = 0; i < t->count; i++) {
		struct gkv *kv = t->p->handle[t->first + i].kv;
		int rc = gkv_arm(kv);

		fd[i] = (struct pollfd){ .fd = gkv_fd(kv), .events = POLLIN };
		if (rc)
			return rc;
		if (fd[i].fd < 0)
			return fd[i].fd;
	}
	return 0;
}

int perf_sleep(struct perf_thread *t, uint64_t until)
{
	struct pollfd fd[PERF_QPS_MAX];
	struct timespec pause = { 0, SLEEP_MAX_NS };
	uint64_t now = ticks_now(), ns = until > now ? ticks_ns(until - now) : 0;
	int rc;

	if (until != UINT64_MAX && ns < AWAKE_NS)
		return 0;
	rc = arm(t, fd);
	if (rc)
		return rc == -EAGAIN ? 0 : perf_fail(t, rc, "sleeping", gkv_strerror(rc));
	if (until != UINT64_MAX && ns - AWAKE_NS < SLEEP_MAX_NS)
		pause.tv_nsec = (long)(ns - AWAKE_NS);
	ppoll(fd, t->count, &pause, NULL);
	return 0;
}

static int work(struct perf_thread *t)
{
	switch (t->p->round.kind) {
	case PERF_RAW_READ:
		return perf_raw_reads(t);
	case PERF_RAW_SEND:
		return perf_raw_sends(t);
	case PERF_OPERATION:
		break;
	}
	return t->p->o.latency ? perf_single(t) : perf_flight(t);
}

static void begin(struct perf_thread *t)
{
	const struct perf_round *r = &t->p->round;
	struct perf_tally *y = &t->tally;

	memset(y, 0, sizeof(*y));
	slices_clear(&y->slices);
	y->begun = ticks_now();
	t->end = r->ns ? y->begun + ticks_of_ns((double)r->ns) : UINT64_MAX;
}

static void *run(void *arg)
{
	struct perf_thread *t = arg;
	struct perf *p = t->p;

	pthread_mutex_lock(&p->gate); /* until all are there, */
	pthread_mutex_unlock(&p->gate);
	if (p->few) /* or one could not be started: then nobody comes to the barrier */
		return NULL;
	for (;;) {
		pthread_barrier_wait(&p->barrier);
		if (p->quit)
			return NULL;
		begin(t);
		work(t);
		t->tally.ended = ticks_now();
		pthread_barrier_wait(&p->barrier);
		pthread_barrier_wait(&p->barrier); /* main has looked at the tally */
	}
}

/* -U: as many as it may do. An open loop deals them to threads, and not to handles. */
static uint64_t kept_max(const struct perf *p, const struct perf_thread *t)
{
	uint64_t dealt = p->o.iterations * p->o.qps / p->o.threads + p->o.rounds;

	return dealt > p->o.iterations * t->count ? dealt : p->o.iterations * t->count;
}

static int start_one(struct perf *p, unsigned number)
{
	struct perf_thread *t = &p->thread[number];
	const unsigned threads = (unsigned)p->o.threads, qps = (unsigned)p->o.qps;
	int rc = 0;

	t->p = p;
	t->first = number * qps / threads;
	t->count = (number + 1) * qps / threads - t->first;
	t->random = (number + 1) * SEED_STEP;
	if (p->o.unsorted) {
		t->kept_max = kept_max(p, t);
		t->kept = calloc(t->kept_max, sizeof(*t->kept));
		rc = t->kept ? 0 : -ENOMEM;
	}
	if (rc == 0)
		rc = -pthread_create(&t->thread, NULL, run, t);
	return rc ? error_set(&p->error, rc, "starting a thread: %s", error_name(rc)) : 0;
}

int perf_threads_start(struct perf *p)
{
	int rc = 0;

	p->thread = calloc(p->o.threads, sizeof(*p->thread));
	if (!p->thread)
		return error_set(&p->error, -ENOMEM, "no memory for threads");
	pthread_mutex_init(&p->gate, NULL);
	pthread_barrier_init(&p->barrier, NULL, (unsigned)p->o.threads + 1);
	pthread_mutex_lock(&p->gate);
	for (; p->started < p->o.threads; p->started++) {
		rc = start_one(p, p->started);
		if (rc)
			break;
	}
	p->few = rc != 0;
	pthread_mutex_unlock(&p->gate);
	return rc;
}

void perf_threads_stop(struct perf *p)
{
	if (!p->thread)
		return;
	if (!p->few) { /* one that has yet to begin comes to the barrier too */
		p->quit = true;
		pthread_barrier_wait(&p->barrier);
	}
	for (unsigned i = 0; i < p->started; i++)
		pthread_join(p->thread[i].thread, NULL);
	for (unsigned i = 0; i < p->o.threads; i++)
		free(p->thread[i].kept);
	free(p->thread);
	pthread_barrier_destroy(&p->barrier);
	pthread_mutex_destroy(&p->gate);
}
