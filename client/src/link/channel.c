/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A handle's queue pair at work: posting, polling, waiting.
 *
 * The send queue carries the chain of READs of the call under way, which waits for it, those of
 * operations that were submitted, reads_max READs at most, and one signalled SEND for each request
 * slot. The last READ of a chain is signalled. So the queue never wraps over something unpolled,
 * and the completion queue never overflows.
 *
 * Waiting: spin, since a READ takes microseconds; then yield, since on a small machine the server
 * may need this core, and at once where there is no other core, or where the device is software,
 * whose bytes are there when the post returns: what is waited for then is a thread of the server.
 * For what takes longer than HANDLE_SPIN_NS, sleep on the completion channel and on the life line.
 * Where yielding is dear (time.c) it spins on instead, but only where that was not in vain the time
 * before, and not on a software device: if the server needs this core, it gets it by our sleep. The
 * clock is read only once spinning was in vain.
 *
 * Ordering: rdma_poll() acquires; what a READ or a SEND brought is visible after it.
 */
#include "client/src/link/handle.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/src/link/clock.h"
#include "common/base/cores.h"
#include "common/rdma/post.h"

#define POLL_ENTRIES	    8
#define SPIN_POLLS	    1000u
#define SOFTWARE_POLLS	    32u /* instead, on a software device */
#define ALONE_POLLS	    4u /* where the server shares our only core */
#define CLOCK_POLLS	    16u /* a look at the clock for so many yields */
#define SLOWEST_NS_PER_BYTE 250u /* 4 MB a second: less is taken for stuck */
#define QUIET_NS	    (10 * NS_PER_MS)
#define SLEEP_MS_MAX	    20 /* polled again then, whether there was an event or not */
#define CHECK_NS	    (2 * NS_PER_MS) /* for a lock that is held while connecting */

/* wr_id: what it was in the upper half, its number in the lower. */
enum wr_kind { WR_READS = 1, WR_SEND = 2, WR_RECEIVE = 3, WR_WRITE = 4 };

static uint64_t wr_id_make(enum wr_kind kind, unsigned number)
{
	return (uint64_t)kind << 32 | number;
}

/* The first reason counts: others follow from it. */
static int lost(struct gkv *h, const struct error *why)
{
	h->link.live = false;
	if (!h->link.lost.code)
		h->link.lost = *why;
	if (!h->call.tended)
		h->error = *why;
	return why->code;
}

int channel_fail(struct gkv *h, const char *fmt, ...)
{
	char text[ERROR_TEXT_MAX];
	struct error why;
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	error_set(&why, -ECONNRESET, "the queue pair to %s:%s was lost: %s",
		  session_server(h->session)->host, session_server(h->session)->port, text);
	return lost(h, &why);
}

int link_receive(struct link *l, unsigned number, struct error *err)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)link_reply_at(l, number),
		.length = RPC_REPLY_MAX,
		.lkey = l->fetch->region.lkey,
	};
	struct ibv_recv_wr wr = {
		.wr_id = wr_id_make(WR_RECEIVE, number),
		.sg_list = &sge,
		.num_sge = 1,
	};
	int rc = rdma_post_recv(l->qp.qp, &wr);

	return rc ? error_set(err, -ECONNRESET,
			      "the queue pair to %s:%s was lost: posting a receive failed: %s",
			      session_server(l->session)->host, session_server(l->session)->port,
			      error_name(rc))
		  : 0;
}

/* A reply frame: into the slot that waits for it; the buffer goes back at once. */
static int received(struct gkv *h, unsigned number, uint32_t len)
{
	const struct rpc_reply *reply;
	const uint8_t *value;
	struct rpc_slot *slot;
	struct error why;

	if (rpc_reply_decode(link_reply_at(&h->link, number), len, &reply, &value) ||
	    reply->slot >= h->link.credits)
		return channel_fail(h, "the server sent %u bytes that are no reply", len);
	slot = &h->slot[reply->slot];
	if (!slot->reply_due || slot->sequence != reply->sequence)
		return channel_fail(h, "the server answered request %llu, which nobody sent",
				    (unsigned long long)reply->sequence);
	memcpy(slot->reply_bytes, reply, len);
	slot->reply_due = false;
	h->link.worked = true;
	h->call.heard_ns = time_now_ns();
	clock_reply(h, reply->clock_ms, slot->posted_ns);
	return link_receive(&h->link, number, &why) ? lost(h, &why) : 0;
}

static int completed(struct gkv *h, const struct ibv_wc *wc)
{
	unsigned number = (uint32_t)wc->wr_id;

	if (wc->status != IBV_WC_SUCCESS)
		return channel_fail(h, "%s ended with %s (status %d, vendor 0x%x)",
				    wc->wr_id >> 32 == WR_READS	  ? "an RDMA READ"
				    : wc->wr_id >> 32 == WR_WRITE ? "an RDMA WRITE"
				    : wc->wr_id >> 32 == WR_SEND  ? "a request's SEND"
								  : "a receive",
				    ibv_wc_status_str(wc->status), wc->status, wc->vendor_err);
	switch (wc->wr_id >> 32) {
	case WR_READS:
	case WR_WRITE:
		h->link.chains_done++;
		return 0;
	case WR_SEND:
		h->slot[number].send_due = false;
		return 0;
	case WR_RECEIVE:
		return received(h, number, wc->byte_len);
	}
	return channel_fail(h, "a completion of nothing that was posted");
}

int channel_poll(struct gkv *h)
{
	struct ibv_wc wc[POLL_ENTRIES];
	int n = rdma_poll(h->link.cq.cq, POLL_ENTRIES, wc);

	if (n < 0)
		return channel_fail(h, "polling its completion queue failed");
	for (int i = 0; i < n; i++) {
		int rc = completed(h, &wc[i]);

		if (rc)
			return rc;
	}
	return n;
}

/* The server's end of the queue pair broke: what is in flight is not answered any more. */
static bool lost_at_server(const struct gkv *h)
{
	/* relaxed: looked at again and again, and nothing else depends on it */
	return atomic_load_explicit(&h->session->qp_lost[h->link.number], memory_order_relaxed) ==
	       h->link.qp.qp->qp_num;
}

/*
 * Is the session still there? Connecting may hold its lock for long: then we go on with ours, and
 * the housekeeper, whose beat is not to wait for others, at once.
 */
static int check_session(struct gkv *h)
{
	uint64_t until_ns = time_now_ns() + (h->link.number == HOUSEKEEPER_QP ? 0 : CHECK_NS);
	struct error why;

	if (until_ns > handle_deadline(h))
		until_ns = handle_deadline(h);
	return session_check(h->session, h->link.session_number, until_ns, &why) ? lost(h, &why)
										 : 0;
}

static int channel_sleep(struct gkv *h, uint64_t now)
{
	uint64_t left_ms = (h->call.deadline_ns - now) / NS_PER_MS + 1;
	struct pollfd p[2] = {
		{ .fd = rdma_cq_fd(&h->link.cq), .events = POLLIN },
		{ .fd = h->link.lifeline, .events = POLLIN },
	};
	int n = rdma_cq_arm(&h->link.cq);

	if (n)
		return channel_fail(h, "arming its completion queue failed: %s", error_name(n));
	n = channel_poll(h); /* what came before the arming makes no event */
	if (n)
		return n < 0 ? n : 0;
	n = poll(p, 2, left_ms < SLEEP_MS_MAX ? (int)left_ms : SLEEP_MS_MAX);
	if (n > 0 && p[0].revents)
		rdma_cq_drain_events(&h->link.cq);
	if (n > 0 && p[1].revents && check_session(h))
		return -ECONNRESET;
	return lost_at_server(h) ? channel_fail(h, "the server's end of it broke") : 0;
}

void channel_look(struct gkv *h)
{
	struct pollfd p = { .fd = h->link.lifeline, .events = POLLIN };

	if (poll(&p, 1, 0) > 0)
		check_session(h);
	if (h->link.live && lost_at_server(h))
		channel_fail(h, "the server's end of it broke");
}

void channel_probe(struct gkv *h)
{
	if (handle_current(h) && time_now_ns() - h->call.heard_ns >= QUIET_NS)
		channel_look(h);
}

unsigned channel_spin_polls(const struct rdma_device *dev)
{
	return cores_alone() ? ALONE_POLLS : dev->software ? SOFTWARE_POLLS : SPIN_POLLS;
}

int channel_progress(struct gkv *h, struct waiter *w)
{
	int n = channel_poll(h);
	uint64_t now;
	bool yielded;

	if (n) {
		h->call.spun_in_vain &= !w->empty || w->slept;
		return n < 0 ? n : 0;
	}
	if (++w->empty <= handle_spin_polls(h)) {
		time_relax();
		return 0;
	}
	yielded = time_yield();
	if (yielded && w->empty % CLOCK_POLLS)
		return 0;
	now = time_now_ns();
	if (!w->since_ns)
		w->since_ns = now;
	if (now >= handle_deadline(h))
		return -ETIMEDOUT;
	if (w->patience_ns && now - w->since_ns >= w->patience_ns)
		return channel_fail(h, "the transport got no answer for %llu ms",
				    (unsigned long long)(w->patience_ns / NS_PER_MS));
	if (now - w->since_ns < HANDLE_SPIN_NS && (yielded || handle_spins_on(h)))
		return 0;
	w->slept = h->call.spun_in_vain = true;
	return channel_sleep(h, now);
}

uint64_t channel_patience(const struct gkv *h, uint64_t bytes)
{
	return h->session->settings.lifeline_ms * NS_PER_MS + bytes * SLOWEST_NS_PER_BYTE;
}

/* The chain that was posted last, of @bytes, to its end. */
static int chain_wait(struct gkv *h, const char *what, uint64_t bytes)
{
	const uint64_t chain = h->link.chains_posted;
	struct waiter w = { .patience_ns = channel_patience(h, bytes) };
	int rc;

	while (h->link.chains_done < chain) {
		rc = channel_progress(h, &w);
		if (rc == -ETIMEDOUT) { /* it still names our memory: only its end frees that */
			channel_fail(h, "an RDMA %s took longer than %u ms", what,
				     h->session->settings.timeout_ms);
			return -ETIMEDOUT;
		}
		if (rc)
			return rc;
	}
	return 0;
}

/* Where a READ goes. Returns the entries of @sge that it takes; none is empty. */
static int scatter(const struct read_op *op, struct ibv_sge *sge)
{
	int n = 1;

	sge[0] = (struct ibv_sge){ (uintptr_t)op->local, read_op_first(op), op->lkey };
	for (unsigned i = 0; op->more && i < READ_PIECES - 1; i++) {
		const struct read_piece *p = &op->more[i];

		if (p->len)
			sge[n++] = (struct ibv_sge){ (uintptr_t)p->local, p->len, p->lkey };
	}
	return n;
}

int channel_post(struct gkv *h, const struct read_op *ops, unsigned count)
{
	struct ibv_send_wr *bad;
	int rc;

	assert(h->sections && count >= 1 && count <= READER_BATCH);
	if (!h->link.live)
		return -ECONNRESET; /* lost earlier in this section */
	for (unsigned i = 0; i < count; i++) {
		h->wr[i].wr_id = wr_id_make(WR_READS, 0);
		h->wr[i].next = &h->wr[i + 1];
		h->wr[i].sg_list = h->sge[i];
		h->wr[i].num_sge = scatter(&ops[i], h->sge[i]);
		h->wr[i].opcode = IBV_WR_RDMA_READ;
		h->wr[i].send_flags = 0;
		h->wr[i].wr.rdma.remote_addr = ops[i].remote;
		h->wr[i].wr.rdma.rkey = ops[i].rkey;
	}
	h->wr[count - 1].next = NULL;
	h->wr[count - 1].send_flags = IBV_SEND_SIGNALED;
	rc = rdma_post_send(h->link.qp.qp, h->wr, &bad);
	if (rc)
		return channel_fail(h, "posting %u READs failed: %s", count, error_name(rc));
	h->link.chains_posted++;
	return 0;
}

int channel_read(void *ctx, const struct read_op *ops, unsigned count)
{
	struct gkv *h = ctx;
	uint64_t bytes = 0;
	int rc = channel_post(h, ops, count);

	for (unsigned i = 0; i < count; i++)
		bytes += ops[i].len;
	return rc ? rc : chain_wait(h, "READ", bytes);
}

int channel_write(struct gkv *h, uint64_t remote, uint32_t rkey, const void *bytes, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)bytes, len, h->fetch.region.lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id_make(WR_WRITE, 0),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags =
			IBV_SEND_SIGNALED | (len <= h->link.qp.inline_max ? IBV_SEND_INLINE : 0),
		.wr.rdma = { .remote_addr = remote, .rkey = rkey },
	};
	struct ibv_send_wr *bad;
	int rc;

	if (!h->link.live)
		return -ECONNRESET;
	rc = rdma_post_send(h->link.qp.qp, &wr, &bad);
	if (rc)
		return channel_fail(h, "posting an RDMA WRITE failed: %s", error_name(rc));
	h->link.chains_posted++;
	return chain_wait(h, "WRITE", len);
}

int channel_send(struct gkv *h, unsigned slot, uint32_t len)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)handle_request_at(h, slot),
		.length = len,
		.lkey = h->frames.region.lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = wr_id_make(WR_SEND, slot),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags =
			IBV_SEND_SIGNALED | (len <= h->link.qp.inline_max ? IBV_SEND_INLINE : 0),
	};
	struct ibv_send_wr *bad;
	int rc;

	h->slot[slot].posted_ns = time_now_ns();
	rc = rdma_post_send(h->link.qp.qp, &wr, &bad);
	return rc ? channel_fail(h, "posting a request failed: %s", error_name(rc)) : 0;
}
