/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The table of operations: what is chosen for each, and its call. run() is the one place that knows
 * how a call is made: the same actions can go by gkv_submit(), as many as have different keys, with
 * before_ms from the submission and after_ms from the poll.
 */
#include <errno.h>
#include <string.h>

#include "common/base/time.h"
#include "tests/stress/differ/differ.h"

#define APPEND_LIMIT 100000000000000000 /* of a number that another digit fits behind */

static uint64_t choose_ttl(struct differ *d)
{
	return below(d, 4) ? 0 : below(d, 5) ? 10 + below(d, 290) : 100000 + below(d, 100000);
}

/* A version that is the record's, was, or never is. */
static uint64_t choose_version(struct differ *d, uint32_t key)
{
	const struct record *r = &d->record[key];

	if (!r->there || !r->version)
		return below(d, 2) ? 0 : 1ull << 60;
	return below(d, 3) ? r->version : below(d, 2) ? r->version - 1 : r->version + 1;
}

static void prepare_get(struct differ *d, struct action *a)
{
	uint32_t len = d->record[a->key].shape.len;

	a->place = d->room;
	switch (below(d, 6)) {
	case 0:
		a->cap = 0;
		break;
	case 1:
		a->cap = len ? len - 1 : 0;
		break;
	case 2:
		a->cap = len;
		break;
	case 3:
		a->cap = below(d, len + 1);
		break;
	default:
		a->cap = DIFFER_VALUE_MAX;
	}
	memset(a->place + a->cap, DIFFER_FILL, DIFFER_BEYOND);
}

static void run_get(struct differ *d, struct action *a)
{
	const struct key *k = &d->keys[a->key];

	a->status =
		gkv_get(a->end->kv, k->bytes, k->len, a->cap ? a->place : NULL, a->cap, &a->len);
	a->has_len = true;
	a->has_bytes = true;
	a->bytes = a->place;
	if (lies(d, "beyond"))
		a->place[a->cap] = 0;
	for (unsigned i = 0; i < DIFFER_BEYOND; i++)
		if (a->place[a->cap + i] != DIFFER_FILL)
			wrong(d, a->key, "beyond", "byte %u after a place of %zu", i, a->cap);
}

static void run_view(struct differ *d, struct action *a)
{
	const struct key *k = &d->keys[a->key];
	const void *view = NULL;

	a->status = gkv_get_view(a->end->kv, k->bytes, k->len, &view, &a->meta);
	a->has_meta = a->has_bytes = true;
	a->bytes = view;
}

static void run_exists(struct differ *d, struct action *a)
{
	const struct key *k = &d->keys[a->key];

	a->status = gkv_exists(a->end->kv, k->bytes, k->len, &a->meta);
	a->has_meta = true;
}

static void prepare_put(struct differ *d, struct action *a)
{
	a->shape = shape_choose(d, a->key);
}

static void prepare_put_with(struct differ *d, struct action *a)
{
	a->shape = shape_choose(d, a->key);
	a->options.condition = (unsigned)below(d, 4);
	if (a->options.condition == GKV_IF_VERSION)
		a->options.version = choose_version(d, a->key);
	a->options.ttl_ms = choose_ttl(d);
	if (a->options.condition != GKV_IF_ABSENT && below(d, 3) == 0)
		a->options.flags = GKV_KEEP_EXPIRY;
}

static void run_put(struct differ *d, struct action *a)
{
	const struct key *k = &d->keys[a->key];

	shape_fill(d, &a->shape, d->out);
	a->has_version = below(d, 2);
	a->status = gkv_put(a->end->kv, k->bytes, k->len, d->out, a->shape.len,
			    a->has_version ? &a->version : NULL);
}

static void run_put_with(struct differ *d, struct action *a)
{
	const struct key *k = &d->keys[a->key];

	shape_fill(d, &a->shape, d->out);
	a->has_meta = a->has_version = below(d, 4);
	a->status = gkv_put_with(a->end->kv, k->bytes, k->len, d->out, a->shape.len, &a->options,
				 a->has_meta ? &a->meta : NULL);
	a->version = a->meta.version;
}

static void prepare_cas(struct differ *d, struct action *a)
{
	a->shape = shape_choose(d, a->key);
	a->options.condition = GKV_IF_VERSION;
	a->options.version = choose_version(d, a->key);
}

static void run_cas(struct differ *d, struct action *a)
{
	const struct key *k = &d->keys[a->key];

	shape_fill(d, &a->shape, d->out);
	a->version = a->options.version;
	a->has_version = true;
	a->status = gkv_cas(a->end->kv, k->bytes, k->len, &a->version, d->out, a->shape.len);
	if (a->status == -ENOENT && a->version != a->options.version)
		wrong(d, a->key, "version", "gkv_cas() has changed it where there was no record");
}

static void run_del(struct differ *d, struct action *a)
{
	const struct key *k = &d->keys[a->key];

	a->status = gkv_del(a->end->kv, k->bytes, k->len);
}

static void prepare_del_if(struct differ *d, struct action *a)
{
	a->options.condition = GKV_IF_VERSION;
	a->options.version = choose_version(d, a->key);
}

static void run_del_if(struct differ *d, struct action *a)
{
	const struct key *k = &d->keys[a->key];

	a->status = gkv_del_if(a->end->kv, k->bytes, k->len, a->options.version);
}

static void prepare_incr(struct differ *d, struct action *a)
{
	a->delta = (int64_t)below(d, 2000) - 1000;
	if (below(d, 8) == 0)
		a->delta = below(d, 2) ? INT64_MAX : INT64_MIN;
}

static void run_incr(struct differ *d, struct action *a)
{
	const struct key *k = &d->keys[a->key];

	/* where it may have expired just now, only the sum says whether it was met */
	a->has_sum = below(d, 4) || d->record[a->key].expiry_last;
	a->status = gkv_incr(a->end->kv, k->bytes, k->len, a->delta, a->has_sum ? &a->sum : NULL);
}

static void prepare_incr_with(struct differ *d, struct action *a)
{
	prepare_incr(d, a);
	a->options.ttl_ms = choose_ttl(d);
}

static void run_incr_with(struct differ *d, struct action *a)
{
	const struct key *k = &d->keys[a->key];

	a->has_sum = a->has_meta = true;
	a->status = gkv_incr_with(a->end->kv, k->bytes, k->len, a->delta, &a->options, &a->sum,
				  &a->meta);
}

/* A digit, to a number that is one with it too; where there is none, on the condition that not. */
static void prepare_append(struct differ *d, struct action *a)
{
	const struct record *r = &d->record[a->key];
	int64_t number;

	a->delta = 1 + (int64_t)below(d, 9);
	a->options.ttl_ms = choose_ttl(d);
	if (r->there && (!shape_number(d, &r->shape, &number) || !number ||
			 number >= APPEND_LIMIT || number <= -APPEND_LIMIT))
		a->options.condition = GKV_IF_ABSENT;
	else if (below(d, 3) == 0)
		a->options.condition = GKV_IF_PRESENT;
}

static void run_append(struct differ *d, struct action *a)
{
	const struct key *k = &d->keys[a->key];
	const char digit = (char)('0' + a->delta);

	a->has_meta = true;
	a->status = gkv_append(a->end->kv, k->bytes, k->len, &digit, 1, &a->options, &a->meta);
}

static void run_getdel(struct differ *d, struct action *a)
{
	const struct key *k = &d->keys[a->key];

	a->has_meta = a->has_bytes = true;
	a->bytes = d->room;
	a->status = gkv_getdel(a->end->kv, k->bytes, k->len, d->room, DIFFER_VALUE_MAX, &a->meta);
}

static void prepare_touch(struct differ *d, struct action *a)
{
	a->options.ttl_ms = choose_ttl(d);
}

static void run_touch(struct differ *d, struct action *a)
{
	const struct key *k = &d->keys[a->key];

	a->has_meta = below(d, 2);
	a->status = gkv_touch(a->end->kv, k->bytes, k->len, a->options.ttl_ms,
			      a->has_meta ? &a->meta : NULL);
}

static void run_get_into(struct differ *d, struct action *a)
{
	const struct key *k = &d->keys[a->key];
	struct line *l = line_of(d, a->end);
	struct place *p = place_take(d, l, a->cap);

	if (!p) {
		run_get(d, a);
		return;
	}
	a->status = gkv_get_into(a->end->kv, k->bytes, k->len, l->memory, p->at, a->cap, &a->meta);
	a->has_len = a->has_meta = a->has_bytes = true;
	a->len = a->meta.value_len;
	memcpy(d->room, p->at, a->cap);
	a->bytes = d->room;
	place_leave(d, p);
	d->met[MET_DIRECT]++;
}

const struct op ops[] = {
	{ "get", 3000, KIND_READ, prepare_get, run_get, NULL, GKV_OP_GET },
	{ "get_into", 1000, KIND_READ, prepare_get, run_get_into, NULL, GKV_OP_GET },
	{ "get_view", 2000, KIND_READ, NULL, run_view, NULL, 0 },
	{ "exists", 1000, KIND_READ, NULL, run_exists, NULL, GKV_OP_EXISTS },
	{ "put", 800, KIND_PUT, prepare_put, run_put, NULL, GKV_OP_PUT },
	{ "put_with", 1600, KIND_PUT, prepare_put_with, run_put_with, NULL, GKV_OP_PUT },
	{ "cas", 400, KIND_PUT, prepare_cas, run_cas, NULL, GKV_OP_PUT },
	{ "del", 300, KIND_DEL, NULL, run_del, NULL, GKV_OP_DEL },
	{ "del_if", 300, KIND_DEL, prepare_del_if, run_del_if, NULL, GKV_OP_DEL },
	{ "incr", 600, KIND_INCR, prepare_incr, run_incr, NULL, GKV_OP_INCR },
	{ "incr_with", 300, KIND_INCR, prepare_incr_with, run_incr_with, NULL, GKV_OP_INCR },
	{ "append", 600, KIND_APPEND, prepare_append, run_append, NULL, GKV_OP_APPEND },
	{ "getdel", 300, KIND_GETDEL, NULL, run_getdel, NULL, 0 },
	{ "touch", 400, KIND_TOUCH, prepare_touch, run_touch, NULL, GKV_OP_TOUCH },
	{ "submit", 1000, KIND_READ, NULL, NULL, flight_submit, 0 },
	{ "collect", 2000, KIND_READ, NULL, NULL, flight_collect, 0 },
	{ "cancel", 200, KIND_READ, NULL, NULL, flight_cancel, 0 },
	{ "break", 10, KIND_READ, NULL, NULL, flight_break, 0 },
	{ "mget", 100, KIND_READ, NULL, NULL, batch_mget, 0 },
	{ "mput", 50, KIND_READ, NULL, NULL, batch_mput, 0 },
	{ "mdel", 20, KIND_READ, NULL, NULL, batch_mdel, 0 },
	{ "scan", 4, KIND_READ, NULL, NULL, walk_scan, 0 },
	{ "walk", 500, KIND_READ, NULL, NULL, walk_step, 0 },
	{ "tick", 100, KIND_READ, NULL, NULL, line_tick, 0 },
	{ "churn", 20, KIND_READ, NULL, NULL, line_churn, 0 },
	{ NULL },
};

/* What was given to look at must stand there until the next call on the handle. */
static void keep_view(struct differ *d, const struct action *a)
{
	if (a->status || a->op->run != run_view)
		return;
	a->end->view = a->bytes;
	a->end->shape = d->record[a->key].shape;
	if (lies(d, "view") && a->end->shape.len)
		*(uint8_t *)(uintptr_t)a->bytes ^= 1;
}

void act(struct differ *d, const struct op *op, struct end *end)
{
	struct action a = { .op = op, .end = end };

	d->deeds++;
	if (op->whole) {
		op->whole(d, end);
		return;
	}
	a.key = key_choose(d, op->kind);
	a.floor = d->version;
	end_use(d, end);
	if (op->prepare)
		op->prepare(d, &a);
	begins(d, &a, time_wall_ns());
	op->run(d, &a);
	a.after_ms = time_wall_ms();
	lie(d, &a);
	remember(d, &a);
	judge(d, &a);
	keep_view(d, &a);
}
