/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Operations in flight.
 *
 *	gkv_submit()      +--> READ --> READING --+--> DONE      gkv_poll()
 *	   FREE ----------+      ^         |      |     |  ---------> FREE
 *	                  |      +---------+      |     |
 *	                  |   another section     v     |
 *	                  +--------------------> ASK --> ASKING
 *	                     writes              no answer one-sided
 *
 * A look-up waits for a lane (lane.c), a write for a request (ask.c). All goes on inside of calls,
 * in async_step(): take what came, look at each lane and request whose turn has come, start what
 * waits. Nothing waits there, but for what every look-up may have to wait for: a READ of metadata
 * that is not cached, and where there is no thread (GKV_HOUSEKEEPER_TICK), a queue pair.
 *
 * The owner of the handle. One thread at a time: the application's in a call, or the housekeeper's
 * for a moment, which ends sections of a handle that nobody polls, so that the server gets its
 * memory back (DESIGN 5.3). handle_own() and tend.c take it, both by compare-and-swap with acquire,
 * and give it back with release: all that is here is the owner's. The housekeeper only tries; a
 * call waits for it, for a poll and a few lists. What it gives up starts over with the next call:
 * READs again, so nothing is lost but their time. The connector (connector.c) shares nothing but
 * its own state.
 *
 * Sections. Each lane has its own, with the pin of its time; the handle's word shows the oldest of
 * those that are open, and is never 0 while one is. Lanes follow each other without a gap, and the
 * word still advances, as the oldest of them ends (epochs.c).
 *
 * Late DMA. A lane's memory is written by READs until its chain has come or its queue pair is
 * destroyed; an operation that ends before that is taken out of its lane, which goes on. The memory
 * of requests is rpc.c's matter.
 *
 * Bounds: depth operations; HANDLE_LANES chains of READER_BATCH READs, reads_max in all, which is
 * what the send queue has room for; as many requests as the server grants. What does not fit waits
 * in its list. All memory is made by the first gkv_submit(), but for values that are larger than a
 * lane's arena.
 */
#include "client/src/flight/async.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/link/memory.h"
#include "client/src/request/fill.h"

#define QUIET_NS    (10 * NS_PER_MS) /* then a look at the life line */
#define CLOCK_STEPS 64u /* a look at the clock for so many that bring something */

static void set(struct flights *f, unsigned number, struct async *a)
{
	pthread_mutex_lock(&f->lock);
	f->async[number] = a;
	pthread_mutex_unlock(&f->lock);
}

static void lost(struct gkv *h)
{
	async_lost(h->async);
}

int async_create(struct gkv *h)
{
	struct async *a = calloc(1, sizeof(*a));
	int rc;

	if (!a)
		return error_set(&h->error, -ENOMEM, "out of memory for operations in flight");
	a->h = h;
	a->epoll = a->timer = a->event = -1;
	asks_create(a);
	rc = ops_create(a, h->depth);
	if (rc)
		error_set(&h->error, rc, "out of memory for %u operations in flight", h->depth);
	else
		rc = lanes_create(a);
	if (rc) {
		async_destroy(a);
		return rc;
	}
	if (!h->call.owned) { /* from now on the housekeeper may look at it */
		/* relaxed: it does not know the handle yet */
		atomic_store_explicit(&h->call.owner, OWNER_CALL, memory_order_relaxed);
		h->call.owned = true;
	}
	h->async = a;
	h->on_lost = lost;
	set(h->session->flights, h->link.number, a);
	return 0;
}

void async_destroy(struct async *a)
{
	if (!a)
		return;
	for (unsigned i = 0; a->op && i < a->depth; i++) {
		if (a->op[i].aimed)
			memory_done(a->op[i].q.memory);
	}
	wait_end(a);
	lanes_destroy(a);
	free(a->op);
	free(a);
}

int op_request(struct gkv *h, struct rpc_call *c, const struct gkv_request *q)
{
	static const enum rpc_op ops[] = {
		[GKV_OP_GET] = RPC_GET,	      [GKV_OP_EXISTS] = RPC_GET, [GKV_OP_PUT] = RPC_PUT,
		[GKV_OP_DEL] = RPC_DEL,	      [GKV_OP_INCR] = RPC_INCR,	 [GKV_OP_TOUCH] = RPC_TOUCH,
		[GKV_OP_APPEND] = RPC_APPEND,
	};
	int rc;

	if (q->op < GKV_OP_GET || q->op > GKV_OP_APPEND)
		return error_set(&h->error, -EINVAL,
				 "the operation is %u, none that this library knows", q->op);
	rc = write_key(h, c, ops[q->op], q->key, q->key_len);
	if (rc == 0 && q->op == GKV_OP_TOUCH)
		rc = write_known(h, &q->options, 0);
	if (rc)
		return rc;
	switch (q->op) {
	case GKV_OP_PUT:
	case GKV_OP_APPEND:
		return write_put(h, c, q->value, q->len, &q->options);
	case GKV_OP_DEL:
		return write_del(h, c, &q->options);
	case GKV_OP_INCR:
		return write_incr(h, c, q->delta, &q->options);
	case GKV_OP_TOUCH:
		return write_touch(h, c, q->options.ttl_ms);
	}
	return 0;
}

int op_aim(struct async *a, struct op *op)
{
	struct gkv *h = a->h;
	struct lookup l = {
		.key = op->q.key,
		.key_len = (uint32_t)op->q.key_len,
		.dest = op->q.value,
		.cap = op->q.len,
	};
	int rc;

	if (op->q.op != GKV_OP_GET)
		return error_set(&h->error, -EINVAL,
				 "registered memory is for gets, the operation is %u", op->q.op);
	rc = memory_aim(op->q.memory, h->session, &l, &h->error);
	if (rc)
		return rc;
	op->aimed = true;
	op->direct = l.direct;
	op->lkey = l.dest_lkey;
	op->device = l.dest_device;
	return 0;
}

/* What is wrong with it, before it begins. Returns 0 or -EINVAL. */
static int check(struct async *a, struct op *op)
{
	const struct gkv_request *q = &op->q;
	struct rpc_call call;
	int rc;

	if (q->reserved[0] | q->reserved[1] | q->reserved[2] | q->reserved[3])
		return error_set(
			&a->h->error, -EINVAL,
			"a reserved field of the request is not 0 (gkv_request_init() zeroes "
			"them)");
	if (!op_is_get(op)) { /* most are: they need no call */
		memset(&call, 0, sizeof(call));
		rc = op_request(a->h, &call, q);
		return rc || !q->memory ? rc : op_aim(a, op);
	}
	rc = handle_key(a->h, q->key, q->key_len);
	if (rc == 0 && q->op == GKV_OP_GET && !q->value && q->len)
		rc = error_set(&a->h->error, -EINVAL,
			       "the place for the value is NULL, of %zu bytes", q->len);
	return rc || !q->memory ? rc : op_aim(a, op);
}

/* Its hint is on its way into the cache, long before its lane looks for it. */
static void send_for_hint(struct gkv *h, struct op *op)
{
	struct reader *r = &h->reader;

	op->hashed = r->world && world_has_root(r->world);
	if (!op->hashed)
		return;
	op->hash_seed = r->world->hash_seed;
	op->hash = lookup_key(r, op->q.key, op->q.key_len);
}

static void take(struct async *a, const struct gkv_request *q, uint64_t now)
{
	struct gkv *h = a->h;
	struct op *op = a->free;
	const unsigned timeout_ms = q->timeout_ms ? q->timeout_ms : h->session->settings.timeout_ms;
	int rc;

	a->free = op->next;
	a->pending++;
	h->reader.stats.submitted++;
	op->q = *q;
	op->cancelled = false;
	op->age = op->block_bytes = 0;
	op->deadline_ns = now + (uint64_t)timeout_ms * NS_PER_MS;
	if (!op_is_get(op))
		op->result = (struct gkv_completion){ .user = q->user, .op = q->op };
	op->aimed = op->direct = false;
	rc = check(a, op);
	if (rc) {
		op_end(a, op, rc);
		return;
	}
	if (op->deadline_ns < a->next_ns)
		a->next_ns = op->deadline_ns;
	if (!op_is_get(op)) {
		op_to(a, op, OP_ASK);
		return;
	}
	figure_add(&h->reader.stats.gets, 1);
	send_for_hint(h, op);
	op_to(a, op, OP_READ);
}

static int submit(struct gkv *h, const struct gkv_request *requests, size_t count)
{
	struct async *a;
	uint64_t now;
	size_t taken = 0;
	int rc;

	if (!requests && count)
		return error_set(&h->error, -EINVAL, "the requests are NULL, %zu of them", count);
	rc = h->async ? 0 : async_create(h);
	if (rc || !count)
		return rc;
	a = h->async;
	a->polls++;
	now = time_now_ns();
	while (taken < count && a->free)
		take(a, &requests[taken++], now);
	if (!taken)
		return error_set(&h->error, -EAGAIN,
				 "%u operations are in flight, the handle's depth (poll first)",
				 a->depth);
	if (handle_current(h)) { /* in this order: a look-up may end as a request */
		lanes_step(a);
		asks_step(a);
	}
	return (int)taken;
}

int gkv_submit(struct gkv *h, const struct gkv_request *requests, size_t count)
{
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, submit(h, requests, count));
}

void async_lost(struct async *a)
{
	a->quiet_ns = 0;
	wait_unwatch(a);
	async_close_lanes(a, true);
	window_again(&a->asks);
}

static bool in_flight(const struct async *a)
{
	return a->reads || a->asks.count;
}

/* Nothing came for a while: is the server there still? */
static void look_around(struct async *a, uint64_t now)
{
	struct gkv *h = a->h;

	if (!h->link.live) {
		a->quiet_ns = 0;
		return;
	}
	if (!in_flight(a)) /* the life line must not wake its sleeper for ever */
		a->quiet_ns = 0;
	else if (!a->quiet_ns)
		a->quiet_ns = a->looked_ns = now;
	if (now - a->quiet_ns >= channel_patience(h, a->reads * (uint64_t)LANE_ARENA_BYTES) &&
	    (a->reads || window_sending(&a->asks))) {
		channel_fail(h, "the transport got no answer for %llu ms",
			     (unsigned long long)((now - a->quiet_ns) / NS_PER_MS));
		return;
	}
	if (now - a->looked_ns < QUIET_NS)
		return;
	a->looked_ns = now;
	channel_look(h);
}

bool async_step(struct async *a)
{
	struct gkv *h = a->h;
	uint64_t now;
	int n = 0;

	a->polls++;
	if (a->armed)
		wait_awake(a);
	if (h->link.live)
		n = channel_poll(h);
	if (handle_current(h)) { /* in this order: a look-up may end as a request */
		lanes_step(a);
		asks_step(a);
	}
	if (n > 0) {
		a->quiet_ns = 0;
		if (++a->busy % CLOCK_STEPS) /* a count of these alone: it meets 0 */
			return true;
	}
	now = time_now_ns();
	look_around(a, now);
	if (now >= a->next_ns)
		ops_expire(a, now);
	return (!handle_current(h) && async_reconnect(a)) || n > 0;
}

static size_t take_done(struct async *a, struct gkv_completion *out, size_t max)
{
	size_t n = 0;

	while (n < max && a->done.first) {
		struct op *op = a->done.first;

		out[n++] = op->result;
		ops_remove(&a->done, op);
		op_free(a, op);
	}
	return n;
}

int async_poll(struct gkv *h, struct gkv_completion *out, size_t max)
{
	struct async *a = h->async;
	size_t n;

	if (!out && max)
		return error_set(&h->error, -EINVAL, "the place for %zu completions is NULL", max);
	if (!a)
		return 0;
	if (max > INT_MAX)
		max = INT_MAX;
	n = take_done(a, out, max);
	a->out = max ? out + n : NULL;
	a->room = max - n;
	async_step(a);
	n = max - a->room;
	a->room = 0;
	return (int)n;
}

int gkv_poll(struct gkv *h, struct gkv_completion *out, size_t max)
{
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, async_poll(h, out, max));
}

size_t gkv_pending(const struct gkv *h)
{
	return h && h->async ? h->async->pending : 0;
}

uint64_t async_due(const struct async *a)
{
	unsigned paused;
	uint64_t due = window_due(&a->asks, &paused), connect = reconnect_due(a);

	if (a->next_ns < due)
		due = a->next_ns;
	return connect < due ? connect : due;
}

void flights_init(struct flights *f)
{
	pthread_mutex_init(&f->lock, NULL);
	pthread_mutex_init(&f->thread_lock, NULL);
	bell_init(&f->bell);
}

void flights_destroy(struct flights *f)
{
	bell_destroy(&f->bell);
	pthread_mutex_destroy(&f->thread_lock);
	pthread_mutex_destroy(&f->lock);
}

void flights_remove(struct gkv *h)
{
	struct flights *f = h->session->flights;

	set(f, h->link.number, NULL);
	connector_end(h);
	pthread_mutex_lock(&f->lock); /* whoever has served it is gone now */
	pthread_mutex_unlock(&f->lock);
}

void flights_signal(struct flights *f)
{
	pthread_mutex_lock(&f->lock);
	for (unsigned i = 0; i < SESSION_HANDLES_MAX; i++) {
		if (f->async[i])
			wait_signal(f->async[i]);
	}
	pthread_mutex_unlock(&f->lock);
}
