/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The reader: one process, one handle, one GET at a time of a key that exists. It connects again
 * between rounds, so that memory that was overwritten can come back.
 */
#include <gracekv.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "tests/performance/growth_bench.h"
#include "tools/lib/samples.h"
#include "tools/lib/store.h"

#define WARM_UP 2000u

struct reader {
	struct growth_shared *s;
	struct gkv_session *session;
	struct gkv *kv;
	uint64_t seed;
};

static _Noreturn void end(struct reader *r, int status)
{
	bench_store_close(r->session, r->kv);
	if (status)
		atomic_store(&r->s->failed, true);
	exit(status);
}

static void fail(struct reader *r, const char *what, const char *why)
{
	end(r, program_failed(&growth_program, what, why));
}

static void get(struct reader *r, uint64_t *ns)
{
	uint64_t i = bench_random(&r->seed) % atomic_load(&r->s->live), start, number;
	char key[GROWTH_KEY_LEN];
	struct gkv_meta meta;
	const void *value;
	int rc;

	growth_key(i, key);
	start = time_now_ns();
	rc = gkv_get_view(r->kv, key, sizeof(key), &value, &meta);
	*ns = time_now_ns() - start;
	if (rc)
		fail(r, "get of a key that exists",
		     gkv_error(r->kv)[0] ? gkv_error(r->kv) : gkv_strerror(rc));
	memcpy(&number, value, sizeof(number));
	if (number != i || meta.value_len != r->s->value_len)
		fail(r, "get", "the value is another key's");
}

static void connect_anew(struct reader *r)
{
	struct gkv_options o;
	uint64_t ns;

	bench_store_close(r->session, r->kv);
	gkv_options_init(&o);
	o.server = r->s->server;
	o.device = "soft0";
	o.hint_bytes = 0; /* by the index, which grows */
	if (bench_store_open(&growth_program, &o, &r->session, &r->kv))
		end(r, 3);
	for (unsigned i = 0; i < WARM_UP; i++)
		get(r, &ns);
}

static void measure(struct reader *r, uint32_t order)
{
	struct growth_reads *out = &r->s->slice;
	struct gkv_stats before, after;
	uint64_t ns;

	memset(out, 0, sizeof(*out));
	gkv_stats_get(r->kv, &before);
	while (atomic_load_explicit(&r->s->order, memory_order_relaxed) == order) {
		get(r, &ns);
		histogram_add(&out->latency, ns);
	}
	gkv_stats_get(r->kv, &after);
	out->gets = after.gets - before.gets;
	out->reads = after.reads - before.reads;
	out->refreshes = after.retry_directory - before.retry_directory;
	out->obsolete = after.retry_obsolete - before.retry_obsolete;
	out->torn = after.retry_checksum - before.retry_checksum;
	out->asked = after.rpc_fallbacks - before.rpc_fallbacks;
}

void growth_reader(struct growth_shared *s)
{
	struct reader r = { .s = s, .seed = 7 };
	uint32_t order, done = 0;

	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		while ((order = atomic_load(&s->order)) == done)
			sched_yield();
		if (order % 8 == GROWTH_END)
			end(&r, 0);
		if (order % 8 == GROWTH_CONNECT)
			connect_anew(&r);
		else if (order % 8 < GROWTH_KINDS)
			measure(&r, order);
		atomic_store(&s->done, order);
		done = order;
	}
}
