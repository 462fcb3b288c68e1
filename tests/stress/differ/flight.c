/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Operations in flight. Each has its key for itself, among all handles, from its submission to its
 * completion: so what it must answer follows from the model, and time alone is less certain.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/link/handle.h" /* its queue pair: to break it */
#include "common/base/time.h"
#include "tests/stress/differ/differ.h"

#define BURST	   300u /* more than any handle takes */
#define KEYS_PART  6u /* of all keys, at most so many are in flight */
#define BRIEF_PART 60u
#define BRIEF_MS   3u

static const struct op *choose_op(struct differ *d)
{
	const struct op *op;
	uint64_t all = 0, at;

	for (op = ops; op->name; op++)
		all += op->flies ? op->weight : 0;
	for (op = ops, at = below(d, all);; op++) {
		if (op->flies && at < op->weight)
			return op;
		at -= op->flies ? op->weight : 0;
	}
}

/* Whether it certainly is there, or certainly is not. */
static bool is_settled(const struct record *r)
{
	return !r->there || (!r->expiry_last && !r->or_never);
}

static void find_place(struct differ *d, struct flight *f, struct gkv_request *q)
{
	struct line *l = line_of(d, f->a.end);

	if (strcmp(f->a.op->name, "get_into") == 0)
		f->place = place_take(d, l, f->a.cap);
	if (f->place) {
		f->a.place = f->place->at;
		q->memory = l->memory;
		d->met[MET_DIRECT]++;
		return;
	}
	f->a.place = f->memory = malloc(f->a.cap + DIFFER_BEYOND);
	if (!f->memory)
		wrong(d, f->a.key, "error", "out of memory");
	memset(f->memory + f->a.cap, DIFFER_FILL, DIFFER_BEYOND);
}

/* What a scan may find from now on. */
static void announce(struct differ *d, const struct action *a)
{
	const struct record *r = &d->record[a->key];
	int64_t number;
	struct shape s;

	if (a->op->kind == KIND_PUT)
		past_add(d, a->key, &a->shape);
	if (a->op->kind != KIND_INCR && a->op->kind != KIND_APPEND)
		return;
	s = shape_of_number(d, a->key, a->delta);
	past_add(d, a->key, &s);
	if (r->there && shape_number(d, &r->shape, &number)) {
		s = a->op->kind == KIND_APPEND
			    ? shape_append(d, a->key, number, a->delta)
			    : shape_of_number(d, a->key,
					      (int64_t)((uint64_t)number + (uint64_t)a->delta));
		past_add(d, a->key, &s);
	}
}

static void request(struct differ *d, struct flight *f, struct gkv_request *q)
{
	struct action *a = &f->a;
	const struct key *k = &d->keys[a->key];

	*q = (struct gkv_request){
		.op = a->op->flies,
		.key = k->bytes,
		.key_len = k->len,
		.options = a->options,
		.delta = a->delta,
		.user = (void *)f->number,
	};
	if (q->op == GKV_OP_GET) {
		find_place(d, f, q);
		q->value = a->place;
		q->len = a->cap;
	}
	if (q->op == GKV_OP_PUT) {
		q->value = f->memory = malloc(a->shape.len + 1u);
		if (!f->memory)
			wrong(d, a->key, "error", "out of memory");
		q->len = a->shape.len;
		shape_fill(d, &a->shape, q->value);
	}
	if (q->op == GKV_OP_APPEND) {
		q->value = f->memory = malloc(1);
		if (!f->memory)
			wrong(d, a->key, "error", "out of memory");
		*f->memory = (uint8_t)('0' + a->delta);
		q->len = 1;
	}
	if (f->brief)
		q->timeout_ms = 1 + (unsigned)below(d, BRIEF_MS);
}

static struct flight *create(struct differ *d, struct end *end, struct gkv_request *q)
{
	struct flight *f = calloc(1, sizeof(*f));
	const struct op *op = choose_op(d);
	struct record *r;

	if (!f)
		wrong(d, 0, "error", "out of memory");
	f->number = ++d->flights;
	f->a = (struct action){ .op = op, .end = end, .key = key_choose(d, op->kind) };
	r = &d->record[f->a.key];
	if (op->prepare)
		op->prepare(d, &f->a);
	f->brief = below(d, BRIEF_PART) == 0 &&
		   (op->kind == KIND_READ || (is_settled(r) && doubt_room(d) > BURST / 30));
	request(d, f, q);
	f->a.floor = d->version;
	if (op->kind != KIND_READ)
		announce(d, &f->a);
	r->flying = true;
	d->flying++;
	f->next = end->flight;
	end->flight = f;
	end->flights++;
	return f;
}

void flight_free(struct differ *d, struct flight *f)
{
	struct end *end = f->a.end;
	struct flight **at = &end->flight;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	end->flights--;
	d->record[f->a.key].flying = false;
	d->flying--;
	if (f->place)
		place_leave(d, f->place);
	free(f->memory);
	free(f);
}

void flight_submit(struct differ *d, struct end *end)
{
	static struct gkv_request q[BURST];
	static struct flight *f[BURST];
	unsigned n = 1 + (unsigned)below(d, below(d, 3) ? 8 : below(d, 3) ? 64 : BURST), have = 0;
	int room = (int)(end->depth - end->flights), want, taken;
	uint64_t now_ns = time_wall_ns();

	while (have < n && d->flying < d->o.keys / KEYS_PART) {
		f[have] = create(d, end, &q[have]);
		begins(d, &f[have++]->a, now_ns);
	}
	if (!have)
		return;
	end_use(d, end);
	want = room == 0 ? -EAGAIN : (int)have < room ? (int)have : room;
	taken = gkv_submit(end->kv, q, have);
	if (taken != want)
		wrong(d, f[0]->a.key, "completion", "gkv_submit() returned %d, not %d: %s", taken,
		      want, gkv_error(end->kv));
	while ((int)have > (taken < 0 ? 0 : taken))
		flight_free(d, f[--have]);
}

void flight_cancel(struct differ *d, struct end *end)
{
	struct flight *f = end->flight;
	int rc;

	for (uint64_t n = end->flights ? below(d, end->flights) : 0; n; n--)
		f = f->next;
	end_use(d, end);
	rc = gkv_cancel(end->kv, f ? (void *)f->number : NULL);
	if (rc == 1 && f && !f->cancelled)
		f->cancelled = true;
	else if (rc != -ENOENT)
		wrong(d, f ? f->a.key : 0, "cancel", "gkv_cancel() returned %d", rc);
}

void flight_break(struct differ *d, struct end *end)
{
	if (!end->flights || !end->kv->link.live || !end->kv->link.qp.qp)
		return;
	if (rdma_qp_fail(&end->kv->link.qp))
		wrong(d, 0, "error", "a queue pair cannot be broken");
	d->met[MET_BROKEN]++;
}

static void orphan(struct differ *d, struct flight *f)
{
	if (!f->killed++)
		f->was = d->record[f->a.key];
	f->a.floor = 0;
	d->met[MET_ORPHAN]++;
	if (f->a.op->kind != KIND_READ)
		announce(d, &f->a);
}

void flights_orphan(struct differ *d)
{
	for (unsigned l = 0; l < DIFFER_LINKS; l++)
		for (unsigned e = 0; e < DIFFER_ENDS; e++)
			for (struct flight *f = d->link[l].end[e].flight; f; f = f->next)
				orphan(d, f);
}
