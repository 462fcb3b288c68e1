/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * kv-bw's round: operations in flight on each of a thread's handles, by gkv_submit() and
 * gkv_poll().
 *
 * Closed loop: what completes is followed by another operation. With -Q it waits until so many
 * have completed, with -l until as many can be handed over at once. Open loop (pace.h): what is due
 * is handed over where there is room, and else waits, and counts from when it was due.
 *
 * The clock is read once for each hand-over and once for each poll that brings something; in an
 * open loop once for each turn over the handles instead of for each hand-over.
 */
#include <errno.h>
#include <string.h>

#include "tools/kv-bw-lat/perf.h"

#define CLOCK_TURNS 64u /* that bring nothing: a look at the clock */
#define DIRECT_MIN  4096u /* shorter values are copied faster than a READ is scattered */

static void fill(struct perf_thread *t, struct perf_handle *f, struct gkv_request *q)
{
	struct perf *p = t->p;
	uint64_t random = bench_random(&t->random);
	uint32_t place = f->free[--f->free_count];

	q->op = perf_is_get(p, random) ? GKV_OP_GET : GKV_OP_PUT;
	q->memory = q->op == GKV_OP_GET && q->len >= DIRECT_MIN ? f->registered : NULL;
	q->key = perf_key(p, perf_draw(t, random));
	q->value = f->memory + place * p->stride;
	q->user = &f->since[place];
}

/* @count operations, which there is room for; since[] is set by the caller's @paced or here. */
static int hand_over(struct perf_thread *t, struct perf_handle *f, unsigned count, bool paced)
{
	uint64_t now;
	int n;

	for (unsigned i = 0; i < count; i++) {
		fill(t, f, &f->request[i]);
		if (paced)
			*(uint64_t *)f->request[i].user = pace_take(&t->pace);
	}
	now = paced ? 0 : ticks_now();
	for (unsigned i = 0; i < count && !paced; i++)
		*(uint64_t *)f->request[i].user = now;
	n = gkv_submit(f->kv, f->request, count);
	if (n == (int)count)
		return 0;
	return perf_fail(t, n < 0 ? n : -EAGAIN, "submitting", gkv_error(f->kv));
}

static int judge(struct perf_thread *t, struct perf_handle *f, const struct gkv_completion *c)
{
	const char *what = c->op == GKV_OP_GET ? "get" : "put", *why = gkv_error(f->kv);

	if (c->status == 0 && (c->op != GKV_OP_GET || c->len == t->p->keys.size))
		return 0;
	if (c->status == 0 || c->status == -EMSGSIZE || c->status == -ENOENT)
		return perf_fail(t, -ENOENT, what,
				 "a record is gone, or has another length: another program writes "
				 "them (give a --name of your own)");
	return perf_fail(t, c->status, what, why[0] ? why : gkv_strerror(c->status));
}

/* Returns how many have completed, or a negative errno. */
static int collect(struct perf_thread *t, struct perf_handle *f)
{
	struct gkv_completion done[PERF_POLL];
	int n = gkv_poll(f->kv, done, PERF_POLL), rc;
	uint64_t now;

	if (n == 0)
		return 0;
	if (n < 0)
		return perf_fail(t, n, "polling", gkv_error(f->kv));
	now = ticks_now();
	for (int i = 0; i < n; i++) {
		const uint64_t *since = done[i].user;

		rc = judge(t, f, &done[i]);
		if (rc)
			return rc;
		perf_count(t, *since, now);
		f->free[f->free_count++] = (uint32_t)(since - f->since);
	}
	perf_slice(t, now, (unsigned)n);
	f->collected += (unsigned)n;
	if (now >= t->end)
		f->todo = 0;
	return n;
}

/* As many as are to be handed over now, -l at a time. */
static int refill(struct perf_thread *t, struct perf_handle *f)
{
	const struct perf_options *o = &t->p->o;
	bool flying = f->free_count < t->p->depth;
	int rc = 0;

	if (flying && f->collected < o->moderation)
		return 0;
	while (f->todo && f->free_count && rc == 0) {
		unsigned n = f->todo < o->post_list ? (unsigned)f->todo : (unsigned)o->post_list;

		if (n > t->p->depth)
			n = t->p->depth;
		if (n > f->free_count)
			break;
		f->todo -= n;
		f->collected = 0;
		rc = hand_over(t, f, n, false);
	}
	return rc;
}

/* What is due, up to -l at a time. */
static int refill_paced(struct perf_thread *t, struct perf_handle *f, uint64_t now)
{
	int rc = 0;

	while (rc == 0 && f->free_count && pace_due(&t->pace, now)) {
		struct pace ahead = t->pace;
		unsigned n = 0;

		while (n < t->p->o.post_list && n < f->free_count && pace_due(&ahead, now)) {
			ahead.next++;
			n++;
		}
		rc = hand_over(t, f, n, true);
	}
	return rc;
}

static bool in_flight(const struct perf_thread *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		if (t->p->handle[t->first + i].free_count < t->p->depth)
			return true;
	}
	return false;
}

static bool to_do(const struct perf_thread *t)
{
	if (t->p->round.paced)
		return t->pace.next < t->pace.count;
	for (unsigned i = 0; i < t->count; i++) {
		if (t->p->handle[t->first + i].todo)
			return true;
	}
	return false;
}

/* What is left is given up: the round is over, or halted. */
static void give_up(struct perf_thread *t, uint64_t now)
{
	for (unsigned i = 0; i < t->count; i++)
		t->p->handle[t->first + i].todo = 0;
	if (t->p->round.paced)
		perf_missed(t, now);
	t->pace.count = t->pace.next;
}

/* One turn over all handles. Returns how many operations have completed, or a negative errno. */
static int turn(struct perf_thread *t, uint64_t now)
{
	struct perf *p = t->p;
	int sum = 0;

	for (unsigned i = 0; i < t->count; i++) {
		struct perf_handle *f = &p->handle[t->first + i];
		int n = f->free_count < p->depth ? collect(t, f) : 0, rc;

		if (n < 0)
			return n;
		rc = p->round.paced ? refill_paced(t, f, now) : refill(t, f);
		if (rc)
			return rc;
		sum += n;
	}
	return sum;
}

static bool room(const struct perf_thread *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		if (t->p->handle[t->first + i].free_count)
			return true;
	}
	return false;
}

/* When there is something to do besides what completes. */
static uint64_t next_look(const struct perf_thread *t)
{
	if (!to_do(t))
		return UINT64_MAX;
	if (t->p->round.paced && room(t))
		return pace_intended(&t->pace, t->pace.next);
	return t->end;
}

/* Nothing has come. */
static int pause_for(struct perf_thread *t, unsigned empty)
{
	if (t->p->o.events)
		return perf_sleep(t, next_look(t));
	perf_idle(t->p, empty);
	return 0;
}

int perf_flight(struct perf_thread *t)
{
	const struct perf_round *r = &t->p->round;
	const bool paced = r->paced;
	unsigned empty = 0;
	uint64_t now = 0;
	int rc = 0;

	for (unsigned i = 0; i < t->count; i++) {
		t->p->handle[t->first + i].todo = r->ops;
		t->p->handle[t->first + i].collected = 0;
	}
	while (rc >= 0 && (to_do(t) || in_flight(t))) {
		if (paced || empty % CLOCK_TURNS == CLOCK_TURNS - 1)
			now = ticks_now();
		if (to_do(t) && (perf_halted(t->p) || now >= t->end))
			give_up(t, ticks_now());
		rc = turn(t, now);
		empty = rc > 0 ? 0 : empty + 1;
		if (rc == 0)
			rc = pause_for(t, empty);
	}
	return rc < 0 ? rc : 0;
}
