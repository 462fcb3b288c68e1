/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A reader's process: sessions, one after the other, for a few dozen milliseconds or for seconds,
 * and in them what its role says. It may be stopped or killed at any moment.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/stress/disturb.h"
#include "tests/stress/torture/forge.h"
#include "tests/stress/torture/reader.h"

#define TIMEOUT_MS   60000u
#define VISIT_MS_MIN 20u /* of those that come and go */
#define VISIT_MS_ALL 200u
#define STAY_MS	     4000u /* of the others, on average */
#define BATCH	     48u
#define REST_NS_MAX  (40 * NS_PER_MS)
#define WORK_NS_MAX  (100 * NS_PER_MS) /* between two rests */

void reader_failed(struct visitor *r, const char *what, int rc, const char *why)
{
	model_wrong(r->s->model, WRONG_ERROR, MODEL_NO_KEY, "%s: %s: %s", what, gkv_strerror(rc),
		    why);
}

void reader_judge(struct visitor *r, uint32_t k, uint32_t floor, int rc, const void *value,
		  size_t len)
{
	if (rc == 0 && forged(value, (uint32_t)len))
		model_wrong(r->s->model, WRONG_FORGED, k,
			    "a look-up led into the value of another record, which was accepted");
	else if (rc == 0)
		model_found(r->s->model, k, floor, value, len);
	else if (rc == -ENOENT)
		model_missed(r->s->model, k, floor);
	else
		reader_failed(r, "get", rc, gkv_error(r->kv));
	if (rc == 0)
		count(&r->seat->counts.found, 1);
	count(&r->seat->counts.gets, 1);
}

/* A block that a bucket named is whole, in whatever state it is. */
static void expect_whole(struct visitor *r)
{
	uint64_t torn = r->kv->reader.stats.retry_checksum;

	if (torn != r->hold.torn)
		model_wrong(r->s->model, WRONG_CHECKSUM, MODEL_NO_KEY,
			    "a block that was reached inside a section had a wrong checksum");
	r->hold.torn = torn;
}

void reader_get(struct visitor *r, uint32_t k)
{
	uint32_t floor = model_floor(r->s->model, k);
	const void *value = NULL;
	struct gkv_meta meta = { 0 };
	char key[MODEL_KEY_MAX];
	int rc;

	hold_begin(&r->hold);
	rc = gkv_get_view(r->kv, key, model_key(k, key), &value, &meta);
	reader_judge(r, k, floor, rc, value, meta.value_len);
	expect_whole(r);
}

static void get_many(struct visitor *r)
{
	static uint8_t values[BATCH][MODEL_VALUE_MAX + 1];
	static char keys[BATCH][MODEL_KEY_MAX];
	unsigned n = 1 + (unsigned)(model_random(&r->random) % BATCH);
	struct gkv_item item[BATCH];
	uint32_t k[BATCH], floor[BATCH];
	int rc;

	for (unsigned i = 0; i < n; i++) {
		k[i] = key_pick(r->s, &r->random);
		item[i] = (struct gkv_item){ .key = keys[i],
					     .key_len = model_key(k[i], keys[i]),
					     .value = values[i],
					     .cap = sizeof(values[i]) };
		floor[i] = model_floor(r->s->model, k[i]);
	}
	hold_begin(&r->hold);
	rc = gkv_mget(r->kv, item, n);
	if (rc)
		reader_failed(r, "mget", rc, gkv_error(r->kv));
	for (unsigned i = 0; i < n && rc == 0; i++)
		reader_judge(r, k[i], floor[i], item[i].status, item[i].value, item[i].len);
	expect_whole(r);
}

void reader_rest(struct visitor *r)
{
	uint64_t now = time_now_ns(), ns = model_random(&r->random) % REST_NS_MAX;
	const struct timespec t = { 0, (long)ns };

	if (now < r->rest_at_ns)
		return;
	nanosleep(&t, NULL);
	r->rest_at_ns = time_now_ns() + model_random(&r->random) % WORK_NS_MAX;
}

static void index_visit(struct visitor *r, uint64_t end_ns)
{
	hold_take(&r->hold, r->s, r->seat, r->kv, &r->random);
	while (!shared_ended(r->s) && time_now_ns() < end_ns) {
		if (model_random(&r->random) & 3)
			reader_get(r, key_pick(r->s, &r->random));
		else
			get_many(r);
		reader_rest(r);
	}
}

void reader_stats(struct visitor *r)
{
	struct gkv_session_stats session;
	struct gkv_stats stats;

	gkv_stats_get(r->kv, &stats);
	count(&r->seat->counts.reads, stats.reads);
	count(&r->seat->counts.obsolete, stats.retry_obsolete);
	count(&r->seat->counts.checksum, stats.retry_checksum);
	count(&r->seat->counts.directory, stats.retry_directory);
	count(&r->seat->counts.asked, stats.rpc_fallbacks);
	count(&r->seat->counts.reconnects, stats.reconnects);
	count(&r->seat->counts.hints, stats.hint_hits + stats.hint_stale);
	count(&r->seat->counts.hints_good, stats.hint_hits);
	count(&r->seat->counts.hints_gone, stats.hint_stale);
	gkv_session_stats_get(r->session, &session);
	count(&r->seat->counts.hints_asked, session.hints_dropped);
}

static uint64_t visit_end(struct visitor *r)
{
	uint64_t ms = VISIT_MS_MIN + model_random(&r->random) % VISIT_MS_ALL;

	if (r->s->o.gets || r->seat->role == ROLE_WRITE)
		return UINT64_MAX;
	if (r->seat->stays)
		ms = model_random(&r->random) % (2 * STAY_MS);
	return time_now_ns() + ms * NS_PER_MS;
}

static void visit(struct visitor *r)
{
	uint64_t end_ns = visit_end(r);
	struct gkv_handle_options o;
	int rc;

	gkv_handle_options_init(&o);
	o.no_hints = r->seat->role != ROLE_HINT;
	rc = gkv_open_with(r->session, &o, &r->kv);

	if (rc) {
		reader_failed(r, "opening a handle", rc, gkv_session_error(r->session));
		return;
	}
	if (r->seat->role == ROLE_INDEX)
		index_visit(r, end_ns);
	else if (r->seat->role == ROLE_HINT)
		hint_visit(r, end_ns);
	else if (r->seat->role == ROLE_COUNT)
		count_visit(r);
	else
		write_visit(r);
	reader_stats(r);
	gkv_close(r->kv);
}

static void session(struct visitor *r)
{
	struct gkv_options o;
	char why[640];
	int rc;

	gkv_options_init(&o);
	o.server = r->s->server;
	o.device = "soft0";
	o.timeout_ms = TIMEOUT_MS;
	o.lifeline_ms = TIMEOUT_MS;
	o.name = r->seat->name;
	rc = gkv_session_open(&r->session, &o, why, sizeof(why));
	if (rc) {
		reader_failed(r, "connecting", rc, why);
		return;
	}
	visit(r);
	gkv_session_close(r->session);
	count(&r->seat->counts.sessions, 1);
}

_Noreturn void reader_main(struct shared *s, unsigned number, unsigned life)
{
	static struct visitor r; /* too large for a stack */
	const struct timespec pause = { 0, NS_PER_MS };
	char weak[24];
	int rc;

	r.s = s;
	r.seat = &s->seat[number];
	r.random = model_mix(s->o.seed ^ (1000 + number) ^ (uint64_t)life << 32);
	model_who(r.seat->name);
	snprintf(weak, sizeof(weak), "%llu", (unsigned long long)(s->o.weak + number));
	if (r.seat->weak)
		setenv("SOFTRDMA_WEAK", weak, 1);
	else
		unsetenv("SOFTRDMA_WEAK");
	signal(SIGPIPE, SIG_IGN);
	rc = s->o.gets ? 0 : disturb_start(r.random);
	if (rc)
		reader_failed(&r, "starting a timer", rc, "");
	while (!atomic_load(&s->go) && !shared_ended(s))
		nanosleep(&pause, NULL);
	while (!shared_ended(s))
		session(&r);
	exit(0);
}
