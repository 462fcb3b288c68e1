/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A client process. What it does is told by grace_shared; what a call of it fails with goes to
 * stderr once, and is counted: it goes on.
 */
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/src/link/handle.h"
#include "common/base/time.h"
#include "tests/performance/grace_bench.h"
#include "tools/lib/samples.h"
#include "tools/lib/store.h"

#define OWN_VALUE 4000u /* bytes of the records that a writer overwrites */

struct me {
	struct grace_shared *s;
	struct grace_client *c;
	unsigned number;
	struct gkv_session *session;
	struct gkv *kv;
	uint64_t seed;
	uint64_t rounds, looked_ns; /* of the housekeeper, and when they were looked at */
	bool complained;
	unsigned char value[65536];
};

int grace_connect(const struct grace_shared *s, unsigned housekeeper, struct gkv_session **session,
		  struct gkv **kv)
{
	struct gkv_options o;

	gkv_options_init(&o);
	o.server = s->server;
	o.device = s->o.device;
	o.hint_bytes = 0; /* by the index: that is what grace periods are for */
	o.connect = strcmp(s->o.connect, "cm") == 0 ? GKV_CONNECT_CM : GKV_CONNECT_TCP;
	o.housekeeper = housekeeper;
	o.timeout_ms = (unsigned)(10 * s->o.lease_ms + 5000);
	return bench_store_open(&grace_program, &o, session, kv);
}

static bool ordered(const struct me *m, uint32_t order)
{
	return atomic_load_explicit(&m->c->order, memory_order_relaxed) == order;
}

/* relaxed, all: one writer; figures to be sampled */
static void add(_Atomic uint64_t *word, uint64_t n)
{
	atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* A call has ended: @rc. */
static void ended(struct me *m, int rc, uint64_t ns)
{
	if (ns > atomic_load_explicit(&m->c->longest_ns, memory_order_relaxed))
		atomic_store_explicit(&m->c->longest_ns, ns, memory_order_relaxed);
	if (rc) {
		add(&m->c->errors, 1);
		if (!m->complained)
			fprintf(stderr, "grace-bench: a call of client %u failed: %s\n", m->number,
				gkv_error(m->kv)[0] ? gkv_error(m->kv) : gkv_strerror(rc));
		m->complained = true;
	}
	add(&m->c->ops, 1);
}

static void tell_session(struct me *m)
{
	uint64_t now = time_now_ns();
	struct gkv_session_stats stats;

	gkv_session_stats_get(m->session, &stats);
	atomic_store_explicit(&m->c->reconnects, stats.reconnects, memory_order_relaxed);
	if (stats.rounds != m->rounds) /* a beat, since it was looked last */
		atomic_store_explicit(&m->c->beat_ns, m->looked_ns, memory_order_relaxed);
	m->rounds = stats.rounds;
	m->looked_ns = now;
}

static void mix(struct me *m, uint32_t order)
{
	char key[GRACE_KEY_LEN + 1];
	const void *view;

	while (ordered(m, order)) {
		uint64_t r = bench_random(&m->seed), start;
		int rc;

		grace_key((r >> 8) % m->s->o.keys, key);
		start = time_now_ns();
		if ((r & 0xff) * 100 < m->s->o.puts * 256)
			rc = gkv_put(m->kv, key, GRACE_KEY_LEN, m->value, m->s->o.value_len, NULL);
		else
			rc = gkv_get_view(m->kv, key, GRACE_KEY_LEN, &view, NULL);
		start = time_now_ns() - start;
		ended(m, rc, start);
		if (start > NS_PER_MS || r >> 58 == 0) /* now and then */
			tell_session(m);
	}
}

static void overwrite(struct me *m, uint32_t order)
{
	char key[GRACE_KEY_LEN + 1];

	for (unsigned i = 0; ordered(m, order); i = (i + 1) % GRACE_OWN_KEYS) {
		uint64_t start = time_now_ns();
		int rc;

		snprintf(key, sizeof(key), "own-%04u-%07u", m->number, i);
		rc = gkv_put(m->kv, key, GRACE_KEY_LEN, m->value, OWN_VALUE, NULL);
		ended(m, rc, time_now_ns() - start);
	}
}

/* Its housekeeper goes on, so that it beats; what it announces stands still. */
static void hold(struct me *m, uint32_t order)
{
	const struct timespec nap = { 0, NS_PER_MS };

	section_open(m->kv, SECTION_CALL);
	while (ordered(m, order)) {
		nanosleep(&nap, NULL);
		if (handle_current(m->kv))
			continue;
		section_close(m->kv, SECTION_CALL); /* fenced: come back, and do it again */
		ended(m, gkv_ping(m->kv, NULL), 0);
		tell_session(m);
		section_open(m->kv, SECTION_CALL);
	}
	section_close(m->kv, SECTION_CALL);
}

static _Noreturn void end(struct me *m, int status)
{
	bench_store_close(m->session, m->kv);
	exit(status);
}

static void want_session(struct me *m, bool want)
{
	if (want == (m->session != NULL))
		return;
	if (!want) {
		bench_store_close(m->session, m->kv);
		m->session = NULL;
		m->kv = NULL;
	} else if (grace_connect(m->s, GKV_HOUSEKEEPER_THREAD, &m->session, &m->kv)) {
		end(m, 3);
	}
	atomic_store_explicit(&m->c->reconnects, 0, memory_order_relaxed);
}

static void rest(struct me *m, uint32_t order)
{
	while (ordered(m, order))
		syscall(SYS_futex, &m->c->order, FUTEX_WAIT, order, NULL, NULL, 0);
}

static void obey(struct me *m, uint32_t order)
{
	bool ok = true;

	switch (GRACE_ORDER(order)) {
	case GRACE_CLOSED:
	case GRACE_PARKED:
		break;
	case GRACE_MIX:
		mix(m, order);
		return;
	case GRACE_WRITE:
		overwrite(m, order);
		return;
	case GRACE_HOLD:
		hold(m, order);
		return;
	case GRACE_IDLE:
		ok = grace_client_idle(m->s, m->session, m->kv);
		break;
	case GRACE_COST:
		ok = grace_client_cost(m->s, m->session, m->kv);
		break;
	case GRACE_END:
		end(m, 0);
	}
	if (!ok)
		end(m, 3);
	/* release: pairs with grace_results() */
	atomic_store_explicit(&m->c->done, order, memory_order_release);
	rest(m, order);
}

void grace_client(struct grace_shared *s, unsigned number)
{
	struct me *m = calloc(1, sizeof(*m));
	uint32_t order = 0;

	if (!m)
		_exit(program_failed(&grace_program, "memory", "out of it"));
	m->s = s;
	m->c = &s->client[number];
	m->number = number;
	m->seed = number;
	rest(m, order);
	for (;;) {
		order = atomic_load_explicit(&m->c->order, memory_order_relaxed);
		if (GRACE_ORDER(order) != GRACE_END)
			want_session(m, GRACE_ORDER(order) != GRACE_CLOSED);
		atomic_store_explicit(&m->c->longest_ns, 0, memory_order_relaxed);
		/* release: what was counted belongs to this order */
		atomic_store_explicit(&m->c->doing, order, memory_order_release);
		obey(m, order);
	}
}
