/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The floor: verbs on the queue pairs of the library's handles, past the library. No call on a
 * handle is under way then, and the handle is taken from the housekeeper (handle_begin()), so that
 * all completions are ours. A round ends when all that was posted has completed: the library finds
 * its queue pair as it was.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "client/src/link/memory.h"
#include "common/base/hash.h"
#include "common/rdma/post.h"
#include "tools/kv-bw-lat/raw.h"

#define ENTRIES	    16
#define CLOCK_TURNS 64u
#define SLEEP_MS    100

static int lost(struct perf_thread *t, const struct perf_raw_ops *ops, const struct ibv_wc *wc)
{
	char why[128];

	snprintf(why, sizeof(why), "it ended with %s (status %d, vendor 0x%x)",
		 ibv_wc_status_str(wc->status), wc->status, wc->vendor_err);
	return perf_fail(t, -ECONNRESET, ops->what, why);
}

/* What has come. Returns how many completions, or a negative errno. */
static int collect(struct perf_thread *t, const struct perf_raw_ops *ops, struct perf_raw *x)
{
	struct ibv_wc wc[ENTRIES];
	const uint64_t before = x->done;
	int n = rdma_poll(x->f->kv->link.cq.cq, ENTRIES, wc), rc;
	uint64_t now;

	if (n <= 0)
		return n ? perf_fail(t, n, ops->what, "polling failed") : 0;
	now = ticks_now();
	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			return lost(t, ops, &wc[i]);
		rc = ops->completed(t, x, &wc[i], now);
		if (rc)
			return rc;
	}
	perf_slice(t, now, (unsigned)(x->done - before));
	return n;
}

/* -e: until one of them has an event. */
static int sleep_on(struct perf_thread *t, const struct perf_raw_ops *ops, struct perf_raw *x,
		    unsigned count)
{
	struct pollfd fd[PERF_QPS_MAX];
	int n = 0;

	for (unsigned i = 0; i < count; i++) {
		struct rdma_cq *cq = &x[i].f->kv->link.cq;

		if (rdma_cq_arm(cq))
			return perf_fail(t, -EIO, ops->what, "arming a completion queue failed");
		fd[i] = (struct pollfd){ .fd = rdma_cq_fd(cq), .events = POLLIN };
	}
	for (unsigned i = 0; i < count && n == 0; i++) /* what came before makes no event */
		n = collect(t, ops, &x[i]);
	if (n == 0)
		poll(fd, count, SLEEP_MS);
	for (unsigned i = 0; i < count && n >= 0; i++)
		rdma_cq_drain_events(&x[i].f->kv->link.cq);
	return n < 0 ? n : 0;
}

static bool busy(const struct perf_raw *x, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (x[i].todo || x[i].done < x[i].posted)
			return true;
	}
	return false;
}

/* Handles side by side, until @end. */
static int run(struct perf_thread *t, const struct perf_raw_ops *ops, struct perf_raw *x,
	       unsigned count, uint64_t end)
{
	uint64_t now = ticks_now(), heard = now;
	unsigned empty = 0;
	int sum = 0, n;

	while (busy(x, count)) {
		if (sum || empty % CLOCK_TURNS == 0 || t->p->o.events)
			now = ticks_now();
		if (now >= end || perf_halted(t->p)) {
			for (unsigned i = 0; i < count; i++)
				x[i].todo = 0; /* what was posted last is signalled */
			end = UINT64_MAX;
		}
		sum = 0;
		for (unsigned i = 0; i < count; i++, sum += n) {
			n = x[i].todo ? ops->post(t, &x[i]) : 0;
			if (n == 0)
				n = collect(t, ops, &x[i]);
			if (n < 0)
				return n;
		}
		empty = sum ? 0 : empty + 1;
		if (sum)
			heard = now;
		else if (ticks_ns(now - heard) > PERF_RAW_WAIT)
			return perf_fail(t, -ETIMEDOUT, ops->what, "it had no answer for 5 s");
		else if (t->p->o.events && (n = sleep_on(t, ops, x, count)))
			return n;
		else if (!t->p->o.events)
			perf_idle(t->p, empty);
	}
	return 0;
}

static bool idle(const struct gkv *kv)
{
	for (unsigned i = 0; i < kv->link.credits; i++) {
		if (kv->slot[i].reply_due || kv->slot[i].send_due)
			return false;
	}
	return kv->link.chains_done == kv->link.chains_posted;
}

/* A reply may come before the completion of the SEND that asked for it: what the library has not
 * taken yet is not for us. */
static int settle(struct gkv *kv)
{
	uint64_t until = time_now_ns() + PERF_RAW_WAIT;
	int n = 0;

	while (!idle(kv) && n >= 0)
		n = time_now_ns() < until ? channel_poll(kv) : -ETIMEDOUT;
	return n < 0 ? n : 0;
}

/* One handle, with nothing on its way. It is ours until handle_end(). */
static int take_one(struct perf_thread *t, const struct perf_raw_ops *ops, struct perf_raw *x)
{
	struct gkv *kv = x->f->kv;
	int rc = handle_current(kv) ? 0 : gkv_ping(kv, NULL);

	if (rc == 0)
		rc = handle_begin(kv);
	if (rc)
		return perf_fail(t, rc, ops->what, gkv_error(kv));
	rc = handle_current(kv) ? settle(kv) : -ECONNRESET;
	rc = rc ? perf_fail(t, rc, ops->what, gkv_error(kv)) : ops->begin(t, x);
	return rc ? handle_end(kv, rc) : 0;
}

static int take(struct perf_thread *t, const struct perf_raw_ops *ops, struct perf_raw *x,
		unsigned *taken)
{
	for (; *taken < t->count; ++*taken) {
		int rc;

		x[*taken] = (struct perf_raw){ .f = &t->p->handle[t->first + *taken],
					       .todo = t->p->round.ops };
		rc = take_one(t, ops, &x[*taken]);
		if (rc)
			return rc;
	}
	return 0;
}

int perf_raw_run(struct perf_thread *t, const struct perf_raw_ops *ops)
{
	static _Thread_local struct perf_raw x[PERF_QPS_MAX];
	const uint64_t start = t->tally.begun;
	uint64_t span = t->end == UINT64_MAX ? 0 : (t->end - start) / t->count;
	unsigned taken = 0;
	int rc = take(t, ops, x, &taken);

	if (rc == 0 && !t->p->o.latency)
		rc = run(t, ops, x, t->count, t->end);
	for (unsigned i = 0; i < t->count && t->p->o.latency && rc == 0; i++)
		rc = run(t, ops, &x[i], 1, span ? start + (i + 1) * span : UINT64_MAX);
	for (unsigned i = 0; i < taken; i++)
		handle_end(x[i].f->kv, 0);
	return rc;
}

/* Where there are no hints an operation is two READs, of a bucket and of a block. */
static int begin_reads(struct perf_thread *t, struct perf_raw *x)
{
	const struct gkv *kv = x->f->kv;
	unsigned most = kv->link.reads_max;

	if (t->p->keys.bucket) /* the queue pair has room for a batch besides */
		most = (most + READER_BATCH) / 2;
	x->depth = t->p->depth < most ? t->p->depth : most;
	return 0;
}

/*
 * One of a chain of @list at most, as of the library's own and as of perftest's. Where no chain has
 * room after it the last is signalled: all that is posted will be told.
 */
static bool signalled(const struct perf_thread *t, struct perf_raw *x, unsigned list)
{
	uint64_t room = x->depth - (x->posted - x->done), every = t->p->o.moderation;

	x->unsignalled++;
	if (x->unsignalled < (every > list ? every : list) && room >= list && x->todo)
		return false;
	x->unsignalled = 0;
	return true;
}

/* A chain of READs that is not posted yet: large, and never zeroed. */
struct reads {
	struct ibv_send_wr wr[2 * READER_BATCH];
	struct ibv_sge sge[2 * READER_BATCH];
	unsigned count;
};

/* One more, of operation @id. */
static void add(struct reads *c, const struct perf_thread *t, const struct perf_raw *x, uint64_t id,
		const struct raw_place *at, uint32_t bytes, bool told)
{
	unsigned n = c->count++;

	c->sge[n] = (struct ibv_sge){
		.addr = (uintptr_t)x->f->memory + id % x->depth * t->p->stride,
		.length = bytes,
		.lkey = x->f->registered->region.lkey,
	};
	c->wr[n].wr_id = id;
	c->wr[n].next = NULL;
	c->wr[n].sg_list = &c->sge[n];
	c->wr[n].num_sge = 1;
	c->wr[n].opcode = IBV_WR_RDMA_READ;
	c->wr[n].send_flags = told ? IBV_SEND_SIGNALED : 0;
	c->wr[n].wr.rdma.remote_addr = at->addr;
	c->wr[n].wr.rdma.rkey = at->rkey;
	if (n)
		c->wr[n - 1].next = &c->wr[n];
}

static int post(struct perf_thread *t, struct perf_raw *x, struct reads *c)
{
	struct ibv_send_wr *bad;
	int rc = rdma_post_send(x->f->kv->link.qp.qp, c->wr, &bad);

	return rc ? perf_fail(t, rc, "a raw READ", error_name(rc)) : 0;
}

static void add_block(struct reads *c, struct perf_thread *t, const struct perf_raw *x, uint64_t id,
		      const struct raw_place *at, bool told)
{
	uint32_t before = t->p->keys.bucket ? BUCKET_BYTES : 0;

	add(c, t, x, id, at, t->p->round.bytes - before, told);
}

/* Of a pair, kv-lat posts the second READ when the first has come, as a look-up does; of many in
 * flight kv-bw posts both at once. */
static int chain(struct perf_thread *t, struct perf_raw *x, unsigned count, unsigned list)
{
	const struct perf_keys *k = &t->p->keys;
	const uint64_t first = x->posted;
	struct reads c;
	uint64_t now;

	c.count = 0;
	for (unsigned i = 0; i < count; i++) {
		uint64_t key = perf_draw(t, bench_random(&t->random)), id = x->posted++;

		x->todo--;
		if (k->bucket)
			add(&c, t, x, id, &k->bucket[key], BUCKET_BYTES, t->p->o.latency);
		if (k->bucket && t->p->o.latency)
			x->next = k->place[key];
		else
			add_block(&c, t, x, id, &k->place[key], signalled(t, x, list));
	}
	now = ticks_now();
	for (uint64_t id = first; id < x->posted; id++)
		x->f->since[id % x->depth] = now;
	return post(t, x, &c);
}

static int post_reads(struct perf_thread *t, struct perf_raw *x)
{
	unsigned list =
		t->p->o.post_list < READER_BATCH ? (unsigned)t->p->o.post_list : READER_BATCH;
	int rc = 0;

	if (list > x->depth)
		list = x->depth;
	while (x->todo && rc == 0) {
		unsigned n = x->todo < list ? (unsigned)x->todo : list;

		if (x->posted - x->done + n > x->depth)
			break;
		rc = chain(t, x, n, list);
	}
	return rc;
}

/* --raw-checksum: what a look-up computes of a block. */
static void check(const struct perf_thread *t, const struct perf_raw *x, uint64_t id)
{
	const uint8_t *block = x->f->memory + id % x->depth * t->p->stride;
	uint64_t sum = hash_bytes(block, t->p->keys.block_bytes);

	__asm__ __volatile__("" ::"r"(sum));
}

static int completed_read(struct perf_thread *t, struct perf_raw *x, const struct ibv_wc *wc,
			  uint64_t now)
{
	if (wc->wr_id < x->done || wc->wr_id >= x->posted)
		return perf_fail(t, -EPROTO, "a raw READ",
				 "a completion of nothing that was posted");
	if (x->next.addr) {
		struct reads c;

		c.count = 0;
		add_block(&c, t, x, wc->wr_id, &x->next, true);
		x->next.addr = 0;
		return post(t, x, &c);
	}
	for (; x->done <= wc->wr_id; x->done++) {
		if (t->p->o.raw_checksum)
			check(t, x, x->done);
		perf_count(t, x->f->since[x->done % x->depth], now);
	}
	return 0;
}

int perf_raw_reads(struct perf_thread *t)
{
	static const struct perf_raw_ops ops = { "a raw READ", begin_reads, post_reads,
						 completed_read };

	return perf_raw_run(t, &ops);
}
