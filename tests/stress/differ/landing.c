/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Ends of operations in flight: each has one completion, which is judged as the answer of a call
 * that lasted from the submission until now.
 *
 * The server was killed meanwhile: what is answered must fit the life in which it was submitted, or
 * a later one, in which nothing else was done with the key; of several later ones only the last
 * still counts. A write of which the new server does not know (-EREMOTEIO) is in an old one or
 * nowhere.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "tests/stress/differ/differ.h"

#define TAKEN_MAX   64u
#define PATIENCE_MS 60000u

static struct flight *find(struct differ *d, const struct end *end, const struct gkv_completion *c)
{
	struct flight *f = end->flight;

	while (f && f->number != (uintptr_t)c->user)
		f = f->next;
	if (!f)
		wrong(d, 0, "completion",
		      "operation %u with user %p has completed, which is not in flight", c->op,
		      c->user);
	if (f->a.op->flies != c->op)
		wrong(d, f->a.key, "completion", "operation %u has completed as %u", f->a.op->flies,
		      c->op);
	return f;
}

static void take(struct differ *d, struct flight *f, const struct gkv_completion *c)
{
	struct action *a = &f->a;

	a->after_ms = time_wall_ms();
	a->status = c->status;
	a->meta = c->meta;
	a->version = c->meta.version;
	a->has_meta = a->op->kind == KIND_READ || a->op->kind == KIND_PUT ||
		      a->op->kind == KIND_TOUCH || a->op->kind == KIND_APPEND;
	a->has_version = a->has_meta || a->op->kind == KIND_INCR;
	a->has_sum = a->op->kind == KIND_INCR;
	a->sum = c->sum;
	if (c->op != GKV_OP_GET)
		return;
	a->has_len = a->has_bytes = true;
	a->len = c->len;
	a->bytes = a->place;
	for (unsigned i = 0; f->memory && i < DIFFER_BEYOND; i++)
		if (a->place[a->cap + i] != DIFFER_FILL)
			wrong(d, a->key, "beyond", "byte %u after a place of %zu", i, a->cap);
}

static bool in_vain(const struct flight *f, int status)
{
	return f->brief && (status == -ETIMEDOUT || status == -ECONNREFUSED ||
			    status == -ECONNRESET || status == -EREMOTEIO || status == -ENOMEM);
}

/* A write whose answer is of one of two lives, or more. */
static void judge_orphaned_write(struct differ *d, struct flight *f)
{
	struct action *a = &f->a;
	struct record gone = d->record[a->key];
	const bool old = fits(d, a, &f->was), new = fits(d, a, &gone);
	const bool between = new && f->killed > 1; /* or as in the last one, but before it */
	int64_t sum = a->sum;

	if (a->status == -EREMOTEIO)
		return;
	a->has_version = a->has_meta = false; /* they may be of the other life */
	if (old && (!new || (a->op->kind == KIND_INCR && sum != a->delta) ||
		    (a->op->kind == KIND_APPEND && a->meta.value_len != 1)))
		return; /* it is gone with the old server */
	judge(d, a);
	if ((old || between) && a->status == 0)
		doubt_either(d, a->key, &gone);
}

static void judge_orphan(struct differ *d, struct flight *f)
{
	if (f->a.op->kind != KIND_READ)
		judge_orphaned_write(d, f);
	else if (f->was.doubt == SURE &&
		 (fits(d, &f->a, &d->record[f->a.key]) || !fits(d, &f->a, &f->was)))
		judge(d, &f->a);
}

static void land(struct differ *d, const struct end *end, const struct gkv_completion *c)
{
	struct flight *f = find(d, end, c);
	struct action *a = &f->a;

	take(d, f, c);
	if (lies(d, "cancelled") && a->op->kind == KIND_PUT && a->status == 0)
		a->status = -ECANCELED, f->cancelled = true;
	lie(d, a);
	remember(d, a);
	d->met[MET_LANDED]++;
	d->met[MET_CANCELLED] += a->status == -ECANCELED;
	if (f->cancelled != (a->status == -ECANCELED))
		wrong(d, a->key, "cancel", "%s has completed with %d, and %s cancelled",
		      a->op->name, a->status, f->cancelled ? "was" : "was not");
	if (f->cancelled)
		;
	else if (in_vain(f, a->status)) {
		if (a->op->kind != KIND_READ)
			doubt_write(d, a);
	} else if (f->killed)
		judge_orphan(d, f);
	else
		judge(d, a);
	if (lies(d, "doubled") && a->op->kind == KIND_INCR)
		gkv_incr(end->kv, d->keys[a->key].bytes, d->keys[a->key].len, 1, NULL);
	flight_free(d, f);
}

/* Until its descriptor says that there is something to poll. */
static void sleep_on_fd(struct differ *d, struct end *end)
{
	struct pollfd p = { .fd = gkv_fd(end->kv), .events = POLLIN };
	int rc = p.fd < 0 ? p.fd : gkv_arm(end->kv);

	if (rc == -EAGAIN)
		return;
	if (rc)
		wrong(d, 0, "error", "gkv_fd() or gkv_arm() returned %d: %s", rc,
		      gkv_error(end->kv));
	if (poll(&p, 1, PATIENCE_MS) != 1)
		wrong(d, end->flight->a.key, "lost", "the descriptor of a handle sleeps for ever");
}

static void collect(struct differ *d, struct end *end, unsigned max, unsigned how)
{
	struct gkv_completion c[TAKEN_MAX];
	int n;

	end_use(d, end);
	if (how == 0 && end->flights)
		sleep_on_fd(d, end);
	n = how == 1 ? gkv_wait(end->kv, c, max, 1 + (unsigned)below(d, 5))
		     : gkv_poll(end->kv, c, max);
	if (n < 0)
		wrong(d, 0, "error", "gkv_poll() or gkv_wait() returned %d: %s", n,
		      gkv_error(end->kv));
	n -= n && lies(d, "lost");
	for (int i = 0; i < n; i++)
		land(d, end, &c[i]);
	if (n && lies(d, "again"))
		land(d, end, &c[0]);
	if (gkv_pending(end->kv) != end->flights)
		wrong(d, end->flight ? end->flight->a.key : 0, "lost",
		      "%u operations are in flight, gkv_pending() says %zu", end->flights,
		      gkv_pending(end->kv));
}

void flight_collect(struct differ *d, struct end *end)
{
	collect(d, end, 1 + (unsigned)below(d, TAKEN_MAX), (unsigned)below(d, 12));
}

/* Whether the model can do without its completion. */
static bool may_be_left(const struct differ *d, const struct flight *f, unsigned writes)
{
	const struct record *r = &d->record[f->a.key];

	if (f->a.op->kind == KIND_READ)
		return true;
	return writes < doubt_room(d) && !f->killed &&
	       (!r->there || (!r->expiry_last && !r->or_never));
}

static bool may_leave(const struct differ *d, const struct end *end)
{
	unsigned writes = 0;

	for (const struct flight *f = end->flight; f; f = f->next)
		if (!may_be_left(d, f, writes += f->a.op->kind != KIND_READ))
			return false;
	return true;
}

void flights_settle(struct differ *d, struct end *end)
{
	const uint64_t end_ns = time_now_ns() + PATIENCE_MS * NS_PER_MS;
	const bool all = below(d, 3) == 0;

	while (end->flights && (all || !may_leave(d, end))) {
		collect(d, end, 1, 1);
		if (time_now_ns() > end_ns)
			wrong(d, end->flight->a.key, "lost",
			      "an operation in flight does not complete");
	}
}

void flights_leave(struct differ *d, struct end *end)
{
	while (end->flight) {
		struct flight *f = end->flight;

		f->a.after_ms = time_wall_ms();
		f->a.status = -EINPROGRESS;
		remember(d, &f->a);
		d->met[MET_LEFT]++;
		if (f->a.op->kind != KIND_READ && !f->cancelled)
			doubt_write(d, &f->a);
		flight_free(d, f);
	}
}
