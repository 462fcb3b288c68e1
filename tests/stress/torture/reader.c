/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A reader's process: sessions, one after the other, for a few dozen milliseconds or for seconds,
 * and in them what its role says. It may be stopped or killed at any moment.
 */
#include <stdlib.h>
#include <time.h>

#include "tests/stress/torture/hold.h"

#define VISIT_MS_MIN 20u /* of those that come and go */
#define VISIT_MS_ALL 200u
#define STAY_MS	     4000u /* of the others, on average */
#define REST_NS_MAX  (40 * NS_PER_MS)
#define WORK_NS_MAX  (100 * NS_PER_MS) /* between two rests */

static struct hold hold; /* of this process's handle */

static void let_go(struct visitor *r)
{
	hold_begin(r->hold);
}

/* A block that a bucket named is whole, in whatever state it is. */
static void expect_whole(struct visitor *r)
{
	uint64_t torn = r->kv->reader.stats.retry_checksum;

	if (torn != r->hold->torn)
		model_wrong(r->s->model, WRONG_CHECKSUM, MODEL_NO_KEY,
			    "a block that was reached inside a section had a wrong checksum");
	r->hold->torn = torn;
}

void reader_hold(struct visitor *r)
{
	hold_take(&hold, r->s, r->seat, r->kv, &r->random);
	r->hold = &hold;
	r->before = let_go;
	r->after = expect_whole;
}

void reader_rest(struct visitor *r)
{
	static uint64_t rest_at_ns;
	uint64_t now = time_now_ns(), ns = model_random(&r->random) % REST_NS_MAX;
	const struct timespec t = { 0, (long)ns };

	if (now < rest_at_ns)
		return;
	nanosleep(&t, NULL);
	rest_at_ns = time_now_ns() + model_random(&r->random) % WORK_NS_MAX;
}

static void index_visit(struct visitor *r, uint64_t end_ns)
{
	reader_hold(r);
	while (!shared_ended(r->s) && time_now_ns() < end_ns) {
		if (model_random(&r->random) & 3)
			visitor_get(r, torture_pick(r->s, &r->random));
		else
			visitor_get_many(r);
		reader_rest(r);
	}
}

static void visit(struct visitor *r)
{
	uint64_t ms = VISIT_MS_MIN + model_random(&r->random) % VISIT_MS_ALL, end_ns;

	if (r->seat->stays)
		ms = model_random(&r->random) % (2 * STAY_MS);
	end_ns = time_now_ns() + ms * NS_PER_MS;
	if (r->seat->role == ROLE_INDEX)
		index_visit(r, end_ns);
	else if (r->seat->role == ROLE_HINT)
		hint_visit(r, end_ns);
	else if (r->seat->role == ROLE_COUNT)
		count_visit(r);
	else
		write_visit(r);
}

_Noreturn void reader_main(struct shared *s, unsigned number, unsigned life)
{
	const struct timespec pause = { 0, NS_PER_MS };
	struct visitor r = { 0 };

	visitor_enter(&r, s, number, life);
	while (!atomic_load(&s->go) && !shared_ended(s))
		nanosleep(&pause, NULL);
	while (!shared_ended(s))
		visitor_session(&r, visit);
	exit(0);
}
