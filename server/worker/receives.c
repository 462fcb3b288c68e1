/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Receive buffers that dead queue pairs keep.
 *
 * A queue pair on a shared receive queue takes a buffer out of it when a message begins, and a
 * completion gives it back when the message ends. One that goes to the error state in between owes
 * a completion with a flush error, which the device may still be making. Destroying the queue pair
 * before it has come drops it, and the buffer is neither in the queue nor with us. So the order is
 * (ibv_modify_qp(3), ibv_get_async_event(3), InfiniBand 11.5.2.5, "Last WQE Reached"):
 *
 *	1. the queue pair goes to ERR: it takes no receive any more;
 *	2. IBV_EVENT_QP_LAST_WQE_REACHED: every completion that it owes stands in the completion
 *	   queue. The queue-pair thread waits for it, for a bounded time (session/apart.c);
 *	3. the completion queue is drained (apart.c): first in, first out, so that they were
 *	   polled;
 *	4. it is destroyed.
 *
 * Some devices never send the event (rdma_rxe of Linux 6.1), any may be late, and some forget the
 * completions of a queue pair that is destroyed, polled or not. So whether it kept anything is
 * found out by accounts, after every queue pair that was destroyed. Their time is the number of
 * receives completed so far, `now`.
 *
 *	G1. A shared receive queue is first in, first out: what is posted later stands after. Of n
 *	    buffers, at most n had been taken out and not completed at time t. So of 2n completions
 *	    after t at least n are of buffers that were taken out after t, and every buffer that
 *	    stood in the queue at t is among those that were taken out.
 *	G2. So a buffer that was posted before a death at time t and is not here at t + 2n is held
 *	    by a queue pair that is in the middle of a message, or lost.
 *	    Likewise with its own time of posting, s, for t. The clock has counted audits as well,
 *	    fewer than n, so that it has left the queue at s + 3n.
 *	G3. A queue pair that was attached after that holds none of G2: they were gone when it came.
 *	    One that was there may: a device may take receives ahead of messages, complete others of
 *	    the same queue pair first, and never send the event. Nothing that it completes tells.
 *	G4. soft0 takes a buffer when a message begins, and messages of a connection come one after
 *	    another. So there one that completed a receive after t + 2n holds none of G2 either: it
 *	    would have completed that one first.
 *	G5. Where G3 or G4 holds for all that live, nobody can write to the buffer any more, and it
 *	    is posted again. So the audit is n receives later, at t + 3n, for those that talk to
 *	    have been heard. Otherwise it is not posted, and counts as held; the next audit, which
 *	    begins at once, looks at it again.
 *
 * Until then the queue is kept full by others: `held` is added to the credits given out, so that
 * fresh buffers are posted for those that may be missing. Before an audit has counted them that is
 * one for each queue pair without the event, at most a chunk; after it, what it counted. A queue
 * pair takes no more than its credits along, so that until others are given out there are enough.
 * There are no more buffers than the queue has places, held ones among them: those that an audit
 * has counted leave fewer credits to be given out. A buffer that comes back late after all is here
 * again, whatever was thought of it.
 *
 * What is posted after an audit was opened is none of its business, however soon: fresh buffers may
 * stand after more than G1 counts. So opening one moves the clock on.
 *
 * The data path counts `now`, notes it for each buffer that it posts, and compares it with the
 * audit's time once for each batch of completions.
 */
#include "server/worker/receives.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/rdma/post.h"

int receives_create(struct receives *r, const struct rdma_device *dev, unsigned max,
		    struct error *err)
{
	int rc;

	if (max > (unsigned)dev->attr.max_srq_wr)
		max = (unsigned)dev->attr.max_srq_wr;
	if (max > RECEIVE_CHUNKS * RECEIVE_CHUNK)
		max = RECEIVE_CHUNKS * RECEIVE_CHUNK;
	r->max = max - max % RECEIVE_CHUNK;
	r->since = calloc(r->max, sizeof(*r->since));
	if (!r->since)
		return error_set(err, -ENOMEM, "out of memory for the accounts of %u receives",
				 r->max);
	rc = rdma_srq_create(dev, r->max, &r->srq, err);
	if (rc) {
		free(r->since);
		r->since = NULL;
	}
	return rc;
}

void receives_destroy(struct receives *r)
{
	rdma_srq_destroy(&r->srq);
	for (unsigned i = 0; i < r->chunks; i++)
		rdma_buffer_destroy(&r->chunk[i]);
	r->chunks = 0;
	free(r->since);
	r->since = NULL;
}

static unsigned absent_of(const struct receives *r)
{
	/* relaxed: a number to go by */
	return atomic_load_explicit(&r->absent, memory_order_relaxed);
}

unsigned receives_credits(const struct receives *r)
{
	unsigned taken = RECEIVE_CHAIN + absent_of(r);

	return taken < r->max ? r->max - taken : 0;
}

int receives_room(struct receives *r, const struct rdma_device *dev, unsigned credits,
		  struct error *err)
{
	/* relaxed: a number to go by; it is asked again for the next queue pair */
	unsigned want =
		credits + RECEIVE_CHAIN + atomic_load_explicit(&r->held, memory_order_relaxed);

	if (credits > receives_credits(r))
		return error_set(err, -EUSERS,
				 "the server has no room for more queue pairs: %u receives of one "
				 "worker are given out, or kept by queue pairs that have died "
				 "(start it with more --workers)",
				 r->max);
	if (want > r->max)
		want = r->max;
	while (r->chunks * RECEIVE_CHUNK < want) {
		int rc = rdma_buffer_create(dev, RECEIVE_CHUNK * RECEIVE_STRIDE,
					    IBV_ACCESS_LOCAL_WRITE, "receive buffers",
					    &r->chunk[r->chunks], err);

		if (rc)
			return rc;
		r->chunks++;
	}
	return 0;
}

static struct ibv_sge buffer_sge(const struct receives *r, uint32_t number)
{
	const struct rdma_buffer *chunk = &r->chunk[number / RECEIVE_CHUNK];

	return (struct ibv_sge){
		.addr = (uintptr_t)chunk->addr + number % RECEIVE_CHUNK * RECEIVE_STRIDE,
		.length = RPC_REQUEST_MAX,
		.lkey = chunk->region.lkey,
	};
}

static int post(struct receives *r, const uint32_t *numbers, unsigned count)
{
	struct ibv_recv_wr wr[RECEIVE_CHAIN];
	struct ibv_sge sge[RECEIVE_CHAIN];
	int rc;

	assert(count <= RECEIVE_CHAIN);
	for (unsigned i = 0; i < count; i++) {
		sge[i] = buffer_sge(r, numbers[i]);
		wr[i] = (struct ibv_recv_wr){
			.wr_id = RECEIVE_WR | numbers[i],
			.next = i + 1 < count ? &wr[i + 1] : NULL,
			.sg_list = &sge[i],
			.num_sge = 1,
		};
	}
	rc = count ? rdma_post_srq_recv(r->srq.srq, wr) : 0;
	for (unsigned i = 0; i < count && rc == 0; i++)
		r->since[numbers[i]] = r->now;
	return rc;
}

int receives_post_more(struct receives *r)
{
	uint32_t numbers[RECEIVE_CHAIN];
	int rc;

	for (unsigned i = 0; i < RECEIVE_CHAIN; i++)
		numbers[i] = r->posted + i;
	rc = post(r, numbers, RECEIVE_CHAIN);
	if (rc == 0)
		r->posted += RECEIVE_CHAIN;
	return rc;
}

void *receives_frame(const struct receives *r, uint64_t wr_id)
{
	return (void *)(uintptr_t)buffer_sge(r, (uint32_t)wr_id).addr;
}

void receives_flush(struct receives *r)
{
	int rc = post(r, r->taken, r->pending);

	assert(rc == 0); /* every buffer that came back left a place, and its sizes are ours */
	r->pending = 0;
}

void receives_again(struct receives *r, uint64_t wr_id)
{
	r->now++;
	r->taken[r->pending++] = (uint32_t)wr_id;
	if (r->pending == RECEIVE_CHAIN)
		receives_flush(r);
}

static void publish_held(struct receives *r)
{
	unsigned doubts = r->untold + r->untold_next;

	if (doubts > RECEIVE_CHUNK)
		doubts = RECEIVE_CHUNK;
	/* relaxed: see receives_room() */
	atomic_store_explicit(&r->held, absent_of(r) + doubts, memory_order_relaxed);
}

static void audit_open(struct receives *r)
{
	r->audit_open = r->deaths_next || absent_of(r);
	r->deaths_next = 0;
	r->untold = r->untold_next;
	r->untold_next = 0;
	r->audit_from = r->now++;
	r->audit_sure = r->now + 2 * (receives_time)r->posted;
	r->audit_at = r->audit_sure + r->posted;
}

void receives_death(struct receives *r, bool told)
{
	r->deaths_next++;
	r->untold_next += !told;
	if (!r->audit_open)
		audit_open(r);
	publish_held(r);
}

/* When the audited buffer had left the queue, by G2. */
static receives_time gone_at(const struct receives *r, uint32_t number)
{
	receives_time own = r->since[number] + 3 * (receives_time)r->posted;

	return own < r->audit_sure ? own : r->audit_sure;
}

unsigned receives_audit(struct receives *r, receives_time silent)
{
	unsigned again = 0, absent = 0;

	assert(r->pending == 0); /* every buffer that is here is in the queue */
	for (uint32_t i = 0; i < r->posted; i++) {
		if (r->since[i] > r->audit_from)
			continue;
		if (silent >= gone_at(r, i) && post(r, &i, 1) == 0)
			again++;
		else
			absent++;
	}
	atomic_store_explicit(&r->absent, absent, memory_order_relaxed);
	if (again) {
		log_warn("worker", "%u receives that dead queue pairs had kept are posted again",
			 again);
		/* relaxed: a counter */
		atomic_fetch_add_explicit(&r->lost, again, memory_order_relaxed);
	}
	audit_open(r);
	publish_held(r);
	return again;
}
