/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Remote readers, each a process of its own with the public client library, on a soft0 as kind as
 * it is or as unkind as hardware. What they were given is judged.
 */
#include "tests/stress/visitor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/stress/disturb.h"
#include "tests/stress/home.h"
#include "tests/stress/torture/forge.h"

#define BATCH	   48u
#define TIMEOUT_MS 60000u

static uint8_t values[BATCH][MODEL_VALUE_MAX + 1];

void visitor_failed(struct visitor *r, const char *what, int rc, const char *why)
{
	model_wrong(r->s->model, WRONG_ERROR, MODEL_NO_KEY, "%s: %s: %s", what, gkv_strerror(rc),
		    why);
}

void visitor_judge(struct visitor *r, uint32_t k, uint32_t floor, int rc, const void *value,
		   size_t len)
{
	if (rc == 0 && forged(value, len))
		model_wrong(r->s->model, WRONG_FORGED, k,
			    "a look-up led into the value of another record, which was accepted");
	else if (rc == 0)
		model_found(r->s->model, k, floor, value, len);
	else if (rc == -ENOENT)
		model_missed(r->s->model, k, floor);
	else
		visitor_failed(r, "get", rc, gkv_error(r->kv));
	if (rc == 0)
		count(&r->seat->counts.found, 1);
	count(&r->seat->counts.gets, 1);
}

void visitor_get(struct visitor *r, uint32_t k)
{
	uint32_t floor = model_floor(r->s->model, k), key_len;
	const void *value = values[0];
	struct gkv_meta meta;
	char key[MODEL_KEY_MAX];
	size_t len = 0;
	int rc;

	key_len = model_key(k, key);
	if (r->before)
		r->before(r);
	if (model_random(&r->random) & 1) {
		rc = gkv_get(r->kv, key, key_len, values[0], sizeof(values[0]), &len);
	} else {
		rc = gkv_get_view(r->kv, key, key_len, &value, &meta);
		len = rc ? 0 : meta.value_len;
	}
	visitor_judge(r, k, floor, rc, value, len);
	if (r->after)
		r->after(r);
	count(&r->seat->counts.phase_work, 1);
}

void visitor_get_many(struct visitor *r)
{
	unsigned n = 1 + (unsigned)(model_random(&r->random) % BATCH);
	static char keys[BATCH][MODEL_KEY_MAX];
	struct gkv_item item[BATCH];
	uint32_t k[BATCH], floor[BATCH];
	int rc;

	for (unsigned i = 0; i < n; i++) {
		k[i] = r->s->face->pick(r->s, &r->random);
		item[i] = (struct gkv_item){ .key = keys[i],
					     .key_len = model_key(k[i], keys[i]),
					     .value = values[i],
					     .cap = sizeof(values[i]) };
		floor[i] = model_floor(r->s->model, k[i]);
	}
	if (r->before)
		r->before(r);
	rc = gkv_mget(r->kv, item, n);
	if (rc)
		visitor_failed(r, "mget", rc, gkv_error(r->kv));
	for (unsigned i = 0; i < n && rc == 0; i++)
		visitor_judge(r, k[i], floor[i], item[i].status, item[i].value, item[i].len);
	if (r->after)
		r->after(r);
	count(&r->seat->counts.phase_work, n);
}

void visitor_stats(struct visitor *r)
{
	struct seat_counts *c = &r->seat->counts;
	struct gkv_session_stats session;
	struct gkv_stats stats;

	gkv_stats_get(r->kv, &stats);
	count(&c->reads, stats.reads);
	count(&c->obsolete, stats.retry_obsolete);
	count(&c->checksum, stats.retry_checksum);
	count(&c->directory, stats.retry_directory);
	count(&c->asked, stats.rpc_fallbacks);
	count(&c->reconnects, stats.reconnects);
	count(&c->hints, stats.hint_hits + stats.hint_stale);
	count(&c->hints_good, stats.hint_hits);
	count(&c->hints_gone, stats.hint_stale);
	gkv_session_stats_get(r->session, &session);
	count(&c->hints_asked, session.hints_dropped);
}

/* A server on a machine that stands still may keep a session waiting for longer than an attempt is
 * given. */
static int connect_to(const struct gkv_options *o, struct gkv_session **session, char *why,
		      size_t cap)
{
	const uint64_t end_ns = time_now_ns() + TIMEOUT_MS * NS_PER_MS;
	int rc;

	do
		rc = gkv_session_open(o, session, why, cap);
	while (rc == -ETIMEDOUT && time_now_ns() < end_ns);
	return rc;
}

void visitor_session(struct visitor *r, void (*work)(struct visitor *r))
{
	const struct gkv_handle_options handle = {
		.flags = r->seat->role > ROLE_HINT ? GKV_NO_HINTS : 0,
	};
	struct gkv_options o;
	char why[640];
	int rc;

	gkv_options_init(&o);
	o.server = r->s->server;
	o.device = "soft0";
	o.timeout_ms = TIMEOUT_MS;
	o.lifeline_ms = TIMEOUT_MS;
	o.name = r->seat->name;
	rc = connect_to(&o, &r->session, why, sizeof(why));
	if (rc) {
		visitor_failed(r, "connecting", rc, why);
		return;
	}
	rc = gkv_open(r->session, &handle, &r->kv, why, sizeof(why));
	if (rc) {
		visitor_failed(r, "opening a handle", rc, why);
	} else {
		work(r);
		visitor_stats(r);
		gkv_close(r->kv);
	}
	gkv_session_close(r->session);
	count(&r->seat->counts.sessions, 1);
}

void visitor_enter(struct visitor *r, struct shared *s, unsigned number, unsigned life)
{
	char weak[24];
	int rc;

	r->s = s;
	r->seat = &s->seat[number];
	r->random = model_mix(s->o.seed ^ (1000 + number) ^ (uint64_t)life << 32);
	model_who(r->seat->name);
	snprintf(weak, sizeof(weak), "%llu", (unsigned long long)(s->o.weak + number));
	if (r->seat->weak)
		setenv("SOFTRDMA_WEAK", weak, 1);
	else
		unsetenv("SOFTRDMA_WEAK");
	signal(SIGPIPE, SIG_IGN);
	rc = s->o.disturb ? disturb_start(r->random) : 0;
	if (rc)
		visitor_failed(r, "starting a timer", rc, "");
}
