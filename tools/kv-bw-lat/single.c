/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * kv-lat's round: one operation at a time on each thread, over its handles in turns, by the calls
 * that wait; with -e by gkv_submit() and a sleep on gkv_fd(). Open loop: the thread waits until the
 * next one is due, or is late, and then it counts from when it was due.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "tools/kv-bw-lat/perf.h"

#define SLEEP_NS 200000u /* what is further away is slept for, but for this much */
#define NAP_NS	 (100 * NS_PER_MS) /* at most: the run may have been halted */

static int other_length(struct perf_thread *t, const char *what)
{
	return perf_fail(t, -ENOENT, what,
			 "a record is gone, or has another length: another program writes them "
			 "(give a --name of your own)");
}

static int judge(struct perf_thread *t, struct perf_handle *f, bool get, int rc, uint64_t len)
{
	const char *what = get ? "get" : "put", *why = gkv_error(f->kv);

	if (get && (rc == -ENOENT || (rc == 0 && len != t->p->keys.size)))
		return other_length(t, what);
	return rc ? perf_fail(t, rc, what, why[0] ? why : gkv_strerror(rc)) : 0;
}

/* One that waits. @since: when it began, or was due. */
static int call(struct perf_thread *t, struct perf_handle *f, bool get, const char *key)
{
	const struct perf_keys *k = &t->p->keys;
	struct gkv_meta meta = { 0 };
	const void *value;
	int rc = get ? gkv_get_view(f->kv, key, k->key_len, &value, &meta)
		     : gkv_put(f->kv, key, k->key_len, f->memory, k->size, NULL);

	return judge(t, f, get, rc, meta.value_len);
}

/* The same, asleep until there is an event. */
static int call_asleep(struct perf_thread *t, struct perf_handle *f, bool get, const char *key)
{
	struct gkv_completion done;
	int n;

	f->request[0].op = get ? GKV_OP_GET : GKV_OP_PUT;
	f->request[0].memory = get ? f->registered : NULL;
	f->request[0].key = key;
	f->request[0].value = f->memory;
	n = gkv_submit(f->kv, f->request, 1);
	while (n == 0 || n == 1) {
		n = gkv_poll(f->kv, &done, 1);
		if (n == 1)
			return judge(t, f, get, done.status, done.len);
		if (n == 0)
			n = perf_sleep(t, UINT64_MAX);
	}
	return t->error.code ? n : perf_fail(t, n, get ? "get" : "put", gkv_error(f->kv));
}

static int call_many(struct perf_thread *t, struct perf_handle *f)
{
	const struct perf *p = t->p;
	int rc = gkv_mget(f->kv, f->item, p->o.group);

	for (unsigned i = 0; i < p->o.group && rc == 0; i++) {
		rc = f->item[i].status;
		if (rc == -EMSGSIZE || (rc == 0 && f->item[i].len != p->keys.size))
			rc = -ENOENT;
	}
	return rc == -ENOENT ? other_length(t, "mget")
	       : rc	     ? perf_fail(t, rc, "mget", gkv_error(f->kv))
			     : 0;
}

/* The next operation; only the call is between the two looks at the clock. */
static int once(struct perf_thread *t, struct perf_handle *f, uint64_t since)
{
	struct perf *p = t->p;
	uint64_t random = bench_random(&t->random), now;
	const char *key = perf_key(p, perf_draw(t, random));
	bool get = perf_is_get(p, random);
	int rc;

	for (unsigned i = 0; i < p->o.group && p->o.op == PERF_MGET; i++)
		f->item[i].key = perf_key(p, perf_draw(t, bench_random(&t->random)));
	if (!since)
		since = ticks_now();
	rc = p->o.op == PERF_MGET ? call_many(t, f)
	     : p->o.events	  ? call_asleep(t, f, get, key)
				  : call(t, f, get, key);
	now = ticks_now();
	if (rc)
		return rc;
	perf_count(t, since, now);
	perf_slice(t, now, 1);
	return 0;
}

static void nap(uint64_t ns)
{
	const struct timespec pause = { 0, (long)(ns < NAP_NS ? ns : NAP_NS) };

	nanosleep(&pause, NULL);
}

/* Until the next one is due, or the run is halted. */
static void wait_until_due(struct perf_thread *t)
{
	uint64_t at = pace_intended(&t->pace, t->pace.next), now = ticks_now();

	for (unsigned empty = 0; now < at && !perf_halted(t->p); now = ticks_now()) {
		uint64_t ns = ticks_ns(at - now);

		if (ns > SLEEP_NS)
			nap(ns - SLEEP_NS);
		else
			perf_idle(t->p, empty++);
	}
}

static int paced(struct perf_thread *t)
{
	int rc = 0;

	while (rc == 0 && t->pace.next < t->pace.count) {
		struct perf_handle *f = &t->p->handle[t->first + t->pace.next % t->count];

		wait_until_due(t);
		if (perf_halted(t->p) || ticks_now() >= t->end)
			break;
		rc = once(t, f, pace_take(&t->pace));
	}
	perf_missed(t, ticks_now());
	return rc;
}

int perf_single(struct perf_thread *t)
{
	const struct perf_round *r = &t->p->round;
	uint64_t all = r->ops == UINT64_MAX ? r->ops : r->ops * t->count;
	unsigned at = 0;
	int rc = 0;

	if (r->paced)
		return paced(t);
	for (uint64_t i = 0; i < all && rc == 0 && !perf_halted(t->p); i++) {
		if (t->end != UINT64_MAX && ticks_now() >= t->end)
			break;
		rc = once(t, &t->p->handle[t->first + at], 0);
		at = at + 1 < t->count ? at + 1 : 0;
	}
	return rc;
}
