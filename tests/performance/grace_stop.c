/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * One of several clients is stopped in the middle of its work.
 *
 * The others' operations are counted in short slices, in rounds of two kinds that alternate, of the
 * same processes and length. In both the last worker rests, and another client, which is connected
 * all the time, does its work in its place: so as many processes are runnable, the same ones, and
 * the scheduler has been upset alike. What differs is how the last worker came to rest: by itself,
 * between two calls; or by SIGSTOP, with SIGCONT well after it was fenced. The server's statistics
 * are asked at the same times in both.
 *
 * The lease runs from the last beat, which the scheduler may have put some time before SIGSTOP. A
 * worker looks at its housekeeper's rounds now and then: when it finds more, a beat came after the
 * look before. From that time to the fence it is a lease at least.
 */
#include <errno.h>
#include <signal.h>
#include <time.h>

#include "common/base/time.h"
#include "tests/performance/grace_bench.h"
#include "tools/lib/samples.h"

#define POLL_NS	  (2 * NS_PER_MS) /* of the fence counter */
#define SETTLE_MS 200u
#define BACK_NS	  (20 * NS_PER_S) /* for the stopped one to be at work again */

static int die(const char *what, const char *why)
{
	return program_failed(&grace_program, what, why);
}

static void sleep_until(uint64_t ns)
{
	const struct timespec ts = { (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static uint64_t others_ops(const struct grace_bench *b)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i + 1 < b->o.workers; i++)
		sum += atomic_load_explicit(&b->shared->client[i].ops, memory_order_relaxed);
	return sum;
}

/* A stopped client is silent, and maybe stuck before that, where others want what it holds. */
static int fences(struct grace_bench *b, uint64_t *out)
{
	static const char *const name[] = { "sessions_fenced_silent", "sessions_fenced_stuck" };
	uint64_t count[2];
	int rc = grace_stats(b, name, count, 2);

	*out = rc ? 0 : count[0] + count[1];
	return rc;
}

struct round {
	bool stop;
	uint64_t start_ns, fences, fenced_ns; /* fenced_ns: 0: not seen yet */
	double slice[GRACE_SLICES_ONE];
	size_t slices;
};

/* Whether the server's counter is to be asked at this time of a round. */
static bool ask_now(const struct grace_bench *b, const struct round *r, uint64_t now)
{
	uint64_t lease = b->o.lease_ms * NS_PER_MS, at = now - r->start_ns;

	if (at < lease * 9 / 10)
		return false;
	return r->stop ? !r->fenced_ns : at < lease * 106 / 100;
}

static int watch(struct grace_bench *b, struct round *r, uint64_t end_ns)
{
	uint64_t slice_ns = b->o.slice_ms * NS_PER_MS, from = time_now_ns(), now = from, count;
	uint64_t ops = others_ops(b), before = ops;
	int rc = 0;

	while (rc == 0 && now < end_ns) {
		sleep_until(ask_now(b, r, now) && now + POLL_NS < from + slice_ns
				    ? now + POLL_NS
				    : from + slice_ns);
		now = time_now_ns();
		if (now >= from + slice_ns) {
			ops = others_ops(b);
			if (r->slices < sizeof(r->slice) / sizeof(r->slice[0]))
				r->slice[r->slices++] =
					(double)(ops - before) * 1e9 / (double)(now - from);
			before = ops;
			from = now;
		}
		if (!ask_now(b, r, now))
			continue;
		rc = fences(b, &count);
		now = time_now_ns();
		if (rc == 0 && r->stop && count > r->fences)
			r->fenced_ns = now;
	}
	return rc;
}

/* It must go on by itself. Returns 0 with how long its call took. */
static int back_at_work(struct grace_bench *b, unsigned victim, uint64_t reconnects, double *ms)
{
	const struct grace_client *c = &b->shared->client[victim];
	uint64_t start = time_now_ns(), ops = atomic_load(&c->ops);

	while (atomic_load(&c->reconnects) == reconnects || atomic_load(&c->ops) < ops + 100) {
		if (time_now_ns() - start > BACK_NS)
			return die("the stopped client", "it did not go on after SIGCONT");
		sleep_until(time_now_ns() + NS_PER_MS);
	}
	*ms = (double)(time_now_ns() - start) / 1e6;
	return 0;
}

static int one_round(struct grace_bench *b, struct round *r, unsigned number)
{
	struct grace_stop *s = &b->stop;
	unsigned victim = (unsigned)b->o.workers - 1, stand_in = victim + 1;
	uint64_t reconnects = atomic_load(&b->shared->client[victim].reconnects), beat_ns;
	int rc = fences(b, &r->fences);

	sleep_until(time_now_ns() + SETTLE_MS * NS_PER_MS);
	r->start_ns = time_now_ns();
	if (rc == 0 && r->stop && kill(b->pid[victim], SIGSTOP))
		return die("SIGSTOP", error_name(errno));
	if (rc == 0 && !r->stop)
		rc = grace_order(b, victim, GRACE_PARKED);
	if (rc == 0)
		rc = grace_order(b, stand_in, GRACE_MIX);
	if (rc == 0)
		rc = watch(b, r, r->start_ns + 2 * b->o.lease_ms * NS_PER_MS);
	if (rc == 0)
		rc = grace_order(b, stand_in, GRACE_PARKED);
	if (!r->stop)
		return rc ? rc : grace_order(b, victim, GRACE_MIX);
	beat_ns = atomic_load(&b->shared->client[victim].beat_ns); /* it stands still */
	kill(b->pid[victim], SIGCONT);
	if (rc == 0 && !r->fenced_ns)
		rc = die("the stopped client", "it was not fenced within two leases");
	s->fence_ms[number] = (double)(r->fenced_ns - r->start_ns) / 1e6;
	s->silent_ms[number] = (double)(r->fenced_ns - beat_ns) / 1e6;
	return rc ? rc : back_at_work(b, victim, reconnects, &s->back_ms[number]);
}

static void keep(struct grace_stop *s, const struct round *r)
{
	for (size_t i = 0; i < r->slices && s->slices[r->stop] < GRACE_SLICES_MAX; i++)
		s->slice[r->stop][s->slices[r->stop]++] = r->slice[i];
}

static int two_rounds(struct grace_bench *b, unsigned number)
{
	static struct round round[2];
	struct grace_stop *s = &b->stop;
	double median[2];
	int rc = 0;

	for (unsigned i = 0; i < 2 && rc == 0; i++) {
		struct round *r = &round[(number + i) % 2];

		*r = (struct round){ .stop = r == &round[1] };
		rc = one_round(b, r, number);
		keep(s, r);
		samples_sort(r->slice, r->slices);
		median[r->stop] = samples_median(r->slice, r->slices);
	}
	if (rc == 0)
		s->ratio[s->rounds++] = median[0] > 0 ? median[1] / median[0] : 0;
	return rc;
}

int grace_measure_stop(struct grace_bench *b)
{
	int rc = grace_order(b, (unsigned)b->o.workers, GRACE_PARKED);

	for (unsigned i = 0; i < b->o.workers && rc == 0; i++)
		rc = grace_order(b, i, GRACE_MIX);
	sleep_until(time_now_ns() + 5 * SETTLE_MS * NS_PER_MS); /* caches, directories */
	for (unsigned i = 0; i < b->o.rounds && rc == 0; i++)
		rc = two_rounds(b, i);
	for (unsigned i = 0; i <= b->o.workers && rc == 0; i++)
		rc = grace_order(b, i, GRACE_CLOSED);
	return rc;
}
