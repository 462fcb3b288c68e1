/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What a session costs that does nothing, and what its housekeeper adds to a GET.
 *
 * The same GETs, in turns, through two sessions of one process: the housekeeper of one is a
 * thread, that of the other is gkv_tick(), called between what is counted and so at rest in it, for
 * a part of the lease that nobody misses. READs are counted by the handles, messages by the
 * housekeepers.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/time.h"
#include "tests/performance/grace_bench.h"
#include "tools/lib/samples.h"
#include "tools/lib/store.h"

struct side {
	struct gkv_session *session;
	struct gkv *kv;
};

static void sleep_ms(uint64_t ms)
{
	const struct timespec ts = { (time_t)(ms / 1000), (long)(ms % 1000 * NS_PER_MS) };

	nanosleep(&ts, NULL);
}

static bool fail(const char *what, const char *why)
{
	program_failed(&grace_program, what, why);
	return false;
}

static uint64_t reads_of(struct gkv *const *handles, unsigned count)
{
	struct gkv_stats stats;
	uint64_t sum = 0;

	for (unsigned i = 0; i < count; i++) {
		gkv_stats_get(handles[i], &stats);
		sum += stats.reads;
	}
	return sum;
}

bool grace_client_idle(struct grace_shared *s, struct gkv_session *session, struct gkv *kv)
{
	struct gkv *handles[GRACE_HANDLES] = { kv };
	struct gkv_session_stats before, after;
	char why[640];
	bool ok = true;
	uint64_t start;

	for (unsigned i = 1; i < GRACE_HANDLES && ok; i++) {
		if (gkv_open(session, NULL, &handles[i], why, sizeof(why)))
			ok = fail("a handle of the idle client", why);
		else if (gkv_ping(handles[i], NULL))
			ok = fail("a ping of the idle client", gkv_error(handles[i]));
	}
	sleep_ms(2 * s->o.lease_ms); /* until it has noticed that nobody works */
	s->idle.reads = reads_of(handles, ok ? GRACE_HANDLES : 1);
	start = time_now_ns();
	gkv_session_stats_get(session, &before);
	sleep_ms(1000 * s->o.idle_s);
	gkv_session_stats_get(session, &after);
	s->idle.span_ns = time_now_ns() - start;
	s->idle.rounds = after.rounds - before.rounds;
	s->idle.messages = after.messages - before.messages;
	s->idle.reads = reads_of(handles, ok ? GRACE_HANDLES : 1) - s->idle.reads;
	for (unsigned i = 1; i < GRACE_HANDLES; i++)
		gkv_close(handles[i]);
	return ok;
}

static bool get(struct gkv *kv, uint64_t i)
{
	char key[GRACE_KEY_LEN + 1];
	const void *value;

	grace_key(i, key);
	if (gkv_get_view(kv, key, GRACE_KEY_LEN, &value, NULL) == 0)
		return true;
	return fail("get of a key that exists", gkv_error(kv));
}

/* Every record once: what is learnt on the way is not counted. @ops: how many GETs fit a slice. */
static bool warm_up(const struct grace_shared *s, const struct side *side, uint64_t *ops)
{
	uint64_t start = time_now_ns(), ns;

	for (uint64_t i = 0; i < s->o.keys; i++) {
		if (!get(side->kv, i))
			return false;
		if (i % 64 == 0)
			gkv_tick(side->session, NULL, 0);
	}
	ns = time_now_ns() - start + 1;
	*ops = s->o.keys * (s->o.lease_ms * NS_PER_MS / 8) / ns + 1;
	return true;
}

/* A housekeeper that rested sleeps for longer than a slice may last: GETs until it is at work. */
static bool wake(const struct grace_shared *s, const struct side *side)
{
	uint64_t end = time_now_ns() + s->o.lease_ms * NS_PER_MS;
	struct gkv_session_stats before, now;

	gkv_session_stats_get(side->session, &before);
	do {
		if (!get(side->kv, 0))
			return false;
		gkv_session_stats_get(side->session, &now);
	} while (now.rounds == before.rounds && time_now_ns() < end);
	return true;
}

/* GETs, for half a lease at most: counted. Returns how many; 0: one failed. */
static uint64_t piece(struct grace_cost *c, const struct side *side, const struct grace_options *o,
		      uint64_t most, uint64_t *seed, uint64_t *sum_ns)
{
	const uint64_t start = time_now_ns(), end = start + o->lease_ms * NS_PER_MS / 2;
	struct gkv_session_stats session[2];
	struct gkv_stats stats[2];
	uint64_t n = 0;

	gkv_session_stats_get(side->session, &session[0]);
	gkv_stats_get(side->kv, &stats[0]);
	do {
		if (!get(side->kv, bench_random(seed) % o->keys))
			return 0;
		n++;
	} while (n < most && (n % 64 || time_now_ns() < end));
	*sum_ns += time_now_ns() - start;
	gkv_stats_get(side->kv, &stats[1]);
	gkv_session_stats_get(side->session, &session[1]);
	c->gets += stats[1].gets - stats[0].gets;
	c->reads += stats[1].reads - stats[0].reads;
	c->rounds += session[1].rounds - session[0].rounds;
	c->messages += session[1].messages - session[0].messages;
	c->reconnects += session[1].reconnects - session[0].reconnects;
	return n;
}

/* In one piece, as a rule. On a busy machine it takes longer than it was meant to, and the session
 * that rests has to beat in between, which is not counted. */
static bool slice(struct grace_shared *s, const struct side side[2], unsigned which, uint64_t ops,
		  unsigned round)
{
	uint64_t seed = round, ns = 0, n;
	char why[640];

	for (uint64_t done = 0; done < ops; done += n) {
		if (gkv_tick(side[1].session, why, sizeof(why)) < 0)
			return fail("gkv_tick", why);
		n = piece(&s->cost[which], &side[which], &s->o, ops - done, &seed, &ns);
		if (!n)
			return false;
	}
	s->cost[which].ns[round] = (double)ns / (double)ops;
	return true;
}

bool grace_client_cost(struct grace_shared *s, struct gkv_session *session, struct gkv *kv)
{
	struct side side[2] = { { session, kv } };
	uint64_t ops;
	bool ok;

	memset(s->cost, 0, sizeof(s->cost));
	ok = grace_connect(s, GKV_HOUSEKEEPER_TICK, &side[1].session, &side[1].kv) == 0 &&
	     warm_up(s, &side[1], &ops) && warm_up(s, &side[0], &ops);
	for (unsigned i = 0; i < 2 * s->o.rounds && ok; i++) {
		unsigned which = (i / 2 + i) % 2;

		ok = (which == 1 || wake(s, &side[0])) && slice(s, side, which, ops, i / 2);
	}
	bench_store_close(side[1].session, side[1].kv);
	return ok;
}

static int rpcs(struct grace_bench *b, uint64_t *sum)
{
	static const char *const names[] = { "rpc_gets", "rpc_puts", "rpc_dels", "rpc_pings" };
	uint64_t values[4];
	int rc = grace_stats(b, names, values, 4);

	*sum = values[0] + values[1] + values[2] + values[3];
	return rc;
}

int grace_measure_rest(struct grace_bench *b)
{
	uint64_t before = 0, span = b->o.idle_s + 2 * b->o.lease_ms / 1000 + 30;
	int rc = grace_order(b, 0, GRACE_PARKED);

	if (rc == 0)
		rc = rpcs(b, &before);
	if (rc == 0)
		rc = grace_order(b, 0, GRACE_IDLE);
	if (rc == 0)
		rc = grace_results(b, 0, span);
	if (rc == 0)
		rc = rpcs(b, &b->rpcs);
	b->rpcs -= before + GRACE_HANDLES - 1; /* the pings at its beginning */
	if (rc == 0)
		rc = grace_order(b, 0, GRACE_COST);
	if (rc == 0)
		rc = grace_results(b, 0, 600);
	return rc ? rc : grace_order(b, 0, GRACE_CLOSED);
}
