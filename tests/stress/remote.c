/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Remote readers, each a process of its own with the public client library: single gets, batches,
 * or scans; on a soft0 as kind as it is or as unkind as hardware; connected for a whole phase or
 * for a few dozen milliseconds at a time.
 */
#include <errno.h>
#include <gracekv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tests/stress/disturb.h"
#include "tests/stress/stress.h"

#define BATCH	     48u
#define TIMEOUT_MS   60000u
#define VISIT_MS_MIN 20u /* of those that come and go */
#define VISIT_MS_ALL 100u

enum kind { KIND_GET, KIND_MGET, KIND_SCAN };

struct role {
	enum kind kind;
	bool stays, weak;
};

/* With few readers the first ones. */
static const struct role roles[REMOTES_MAX] = {
	{ KIND_GET, true, false },  { KIND_MGET, false, true }, { KIND_SCAN, false, false },
	{ KIND_GET, false, true },  { KIND_MGET, true, false }, { KIND_SCAN, false, true },
	{ KIND_GET, false, false }, { KIND_MGET, true, true },
};

static const char *const kinds[] = { "get", "mget", "scan" };

struct remote {
	struct shared *s;
	const struct role *role;
	unsigned number;
	uint64_t random;
	uint32_t leave;
	struct remote_counts *counts;
	char name[48];
};

static uint8_t values[BATCH][MODEL_VALUE_MAX + 1];

static void failed(struct remote *r, const char *what, int rc, const char *why)
{
	model_wrong(r->s->model, WRONG_ERROR, MODEL_NO_KEY, "%s: %s: %s", what, gkv_strerror(rc),
		    why);
}

static void judge(struct remote *r, uint32_t k, uint32_t floor, int rc, const void *value,
		  size_t len, struct gkv *kv)
{
	if (rc == 0)
		model_found(r->s->model, k, floor, value, len);
	else if (rc == -ENOENT)
		model_missed(r->s->model, k, floor);
	else
		failed(r, "get", rc, gkv_error(kv));
	if (rc == 0)
		count(&r->counts->found, 1);
	count(&r->counts->gets, 1);
}

static void get_one(struct remote *r, struct gkv *kv)
{
	uint32_t k = shared_pick(r->s, &r->random), floor;
	char key[MODEL_KEY_MAX];
	uint32_t key_len = model_key(k, key);
	const void *value = values[0];
	struct gkv_meta meta;
	size_t len = 0;
	int rc;

	floor = model_floor(r->s->model, k);
	if (model_random(&r->random) & 1) {
		rc = gkv_get(kv, key, key_len, values[0], sizeof(values[0]), &len);
	} else {
		rc = gkv_get_view(kv, key, key_len, &value, &meta);
		len = rc ? 0 : meta.value_len;
	}
	judge(r, k, floor, rc, value, len, kv);
	count(&r->counts->phase_work, 1);
}

static void get_many(struct remote *r, struct gkv *kv)
{
	unsigned n = 1 + (unsigned)(model_random(&r->random) % BATCH);
	static char keys[BATCH][MODEL_KEY_MAX];
	struct gkv_item item[BATCH];
	uint32_t k[BATCH], floor[BATCH];
	int rc;

	for (unsigned i = 0; i < n; i++) {
		k[i] = shared_pick(r->s, &r->random);
		item[i] = (struct gkv_item){ .key = keys[i],
					     .key_len = model_key(k[i], keys[i]),
					     .value = values[i],
					     .cap = sizeof(values[i]) };
		floor[i] = model_floor(r->s->model, k[i]);
	}
	rc = gkv_mget(kv, item, n);
	if (rc)
		failed(r, "mget", rc, gkv_error(kv));
	for (unsigned i = 0; i < n && rc == 0; i++)
		judge(r, k[i], floor[i], item[i].status, item[i].value, item[i].len, kv);
	count(&r->counts->mgets, 1);
	count(&r->counts->phase_work, n);
}

static bool still(const struct remote *r, uint32_t step)
{
	return atomic_load(&r->s->step) == step && !atomic_load(&r->s->model->any_wrong);
}

/* Work until the step, or this visit, ends. */
static void visit(struct remote *r, struct gkv *kv, uint32_t step)
{
	uint64_t end = UINT64_MAX;

	if (!r->role->stays || !atomic_load(&r->s->stay))
		end = time_now_ns() +
		      (VISIT_MS_MIN + model_random(&r->random) % VISIT_MS_ALL) * NS_PER_MS;
	do {
		if (r->role->kind == KIND_SCAN)
			remote_scan(r->s, r->number, kv, step);
		else if (r->role->kind == KIND_MGET)
			get_many(r, kv);
		else
			get_one(r, kv);
		if (atomic_load(&r->s->leave) != r->leave)
			break;
	} while (still(r, step) && time_now_ns() < end);
	r->leave = atomic_load(&r->s->leave);
}

static void take_stats(struct remote *r, struct gkv *kv)
{
	struct gkv_stats stats;

	gkv_stats_get(kv, &stats);
	count(&r->counts->reads, stats.reads);
	count(&r->counts->obsolete, stats.retry_obsolete);
	count(&r->counts->checksum, stats.retry_checksum);
	count(&r->counts->directory, stats.retry_directory);
	count(&r->counts->asked, stats.rpc_fallbacks);
	count(&r->counts->reconnects, stats.reconnects);
}

/* One session. */
static void session(struct remote *r, uint32_t step)
{
	struct gkv_session *session;
	struct gkv_options o;
	struct gkv *kv = NULL;
	char why[640];
	int rc;

	gkv_options_init(&o);
	o.server = r->s->server;
	o.device = "soft0";
	o.timeout_ms = TIMEOUT_MS;
	o.lifeline_ms = TIMEOUT_MS;
	o.name = r->name;
	rc = gkv_session_open(&session, &o, why, sizeof(why));
	if (rc) {
		failed(r, "connecting", rc, why);
		return;
	}
	rc = gkv_open(session, &kv);
	if (rc) {
		failed(r, "connecting", rc, gkv_session_error(session));
	} else if ((step & 3) == STEP_VERIFY) {
		remote_verify(r->s, kv);
	} else {
		visit(r, kv, step);
	}
	if (kv)
		take_stats(r, kv);
	gkv_close(kv);
	gkv_session_close(session);
	count(&r->counts->sessions, 1);
}

static void do_step(struct remote *r, uint32_t step)
{
	if ((step & 3) == STEP_RUN) {
		atomic_store(&r->counts->phase_work, 0);
		while (still(r, step))
			session(r, step);
	} else if ((step & 3) == STEP_VERIFY) {
		session(r, step);
	}
}

void remote_main(struct shared *s, unsigned number)
{
	const struct timespec pause = { 0, NS_PER_MS };
	struct remote r = { .s = s, .role = &roles[number], .number = number };
	uint32_t step, done = 0;
	char weak[24];
	int rc;

	snprintf(r.name, sizeof(r.name), "remote %u (%s%s%s)", number, kinds[r.role->kind],
		 r.role->stays ? ", stays" : "", r.role->weak && s->o.weak ? ", weak" : "");
	model_who(r.name);
	snprintf(weak, sizeof(weak), "%llu", (unsigned long long)(s->o.weak + number));
	if (r.role->weak && s->o.weak)
		setenv("SOFTRDMA_WEAK", weak, 1);
	else
		unsetenv("SOFTRDMA_WEAK");
	r.random = model_mix(s->o.seed ^ (1000 + number));
	r.counts = &s->counts[number];
	signal(SIGPIPE, SIG_IGN);
	rc = s->o.disturb ? disturb_start(r.random) : 0;
	if (rc)
		failed(&r, "starting a timer", rc, "");
	do {
		while ((step = atomic_load(&s->step)) == done)
			nanosleep(&pause, NULL);
		do_step(&r, step);
		atomic_store(&s->at[number], step);
		done = step;
	} while ((step & 3) != STEP_END);
	exit(0);
}
