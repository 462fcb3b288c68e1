/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The floor of PUTs: PINGs as long as a PUT's request, which the server answers with a reply as
 * long as a PUT's, and does nothing else for. Frames are posted past the library's requests, one
 * for each of the handle's slots, which bound how many are on their way: a slot is free again when
 * its reply and its SEND's completion have come. All slots are idle before and after a round.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/rdma/post.h"
#include "tools/kv-bw-lat/raw.h"

#define SLOT_IS_OURS (1ull << 63) /* in the wr_id of a SEND: the slot's number is the rest */

static const char what[] = "a raw SEND";

static int begin_sends(struct perf_thread *t, struct perf_raw *x)
{
	const struct perf *p = t->p;
	struct gkv *kv = x->f->kv;

	x->depth = p->depth < kv->link.credits ? p->depth : kv->link.credits;
	x->replied = x->sent = (1u << x->depth) - 1;
	for (unsigned i = 0; i < x->depth; i++) {
		struct rpc_request *q = handle_request_at(kv, i);

		*q = (struct rpc_request){
			.magic = RPC_REQUEST_MAGIC,
			.op = RPC_PING,
			.flags = RPC_INLINE_VALUE,
			.slot = (uint16_t)i,
			.client_id = { kv->session->client_id[0], kv->session->client_id[1] },
			.generation = kv->link.generation,
			.value_len = p->round.bytes - RPC_REQUEST_BYTES,
		};
		memset(q + 1, 'v', q->value_len);
	}
	return 0;
}

static int chain(struct perf_thread *t, struct perf_raw *x, unsigned count)
{
	struct ibv_send_wr wr[HANDLE_CREDITS], *bad;
	struct ibv_sge sge[HANDLE_CREDITS];
	const uint64_t now = ticks_now();
	struct gkv *kv = x->f->kv;
	int rc;

	for (unsigned i = 0; i < count; i++) {
		unsigned slot = (unsigned)__builtin_ctz(x->replied & x->sent);
		struct rpc_request *q = handle_request_at(kv, slot);

		/* relaxed: the number is all that counts */
		q->sequence = atomic_fetch_add_explicit(&kv->session->next_sequence, 1,
							memory_order_relaxed);
		x->sequence[slot] = q->sequence;
		x->since[slot] = now;
		x->replied &= ~(1u << slot);
		x->sent &= ~(1u << slot);
		sge[i] =
			(struct ibv_sge){ (uintptr_t)q, t->p->round.bytes, kv->frames.region.lkey };
		wr[i] = (struct ibv_send_wr){
			.wr_id = SLOT_IS_OURS | slot,
			.next = i + 1 < count ? &wr[i + 1] : NULL,
			.sg_list = &sge[i],
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags =
				IBV_SEND_SIGNALED |
				(sge[i].length <= kv->link.qp.inline_max ? IBV_SEND_INLINE : 0),
		};
	}
	x->posted += count;
	x->todo -= count;
	rc = rdma_post_send(kv->link.qp.qp, wr, &bad);
	return rc ? perf_fail(t, rc, what, error_name(rc)) : 0;
}

static int post_sends(struct perf_thread *t, struct perf_raw *x)
{
	unsigned list = t->p->o.post_list < x->depth ? (unsigned)t->p->o.post_list : x->depth;
	int rc = 0;

	while (x->todo && rc == 0) {
		unsigned room = (unsigned)__builtin_popcount(x->replied & x->sent);
		unsigned n = x->todo < list ? (unsigned)x->todo : list;

		if (n > room)
			break;
		rc = chain(t, x, n);
	}
	return rc;
}

/* A slot is done with when both have come: whichever is the later counts it as over. */
static void came(struct perf_raw *x, unsigned slot)
{
	if (x->replied & x->sent & 1u << slot)
		x->done++;
}

static int reply(struct perf_thread *t, struct perf_raw *x, unsigned number, uint32_t len,
		 uint64_t now)
{
	struct gkv *kv = x->f->kv;
	const struct rpc_reply *q;
	const uint8_t *value;

	if (rpc_reply_decode(link_reply_at(&kv->link, number), len, &q, &value) ||
	    q->slot >= x->depth || q->sequence != x->sequence[q->slot] ||
	    x->replied & 1u << q->slot)
		return perf_fail(t, -EPROTO, what, "the server answered what nobody asked");
	if (q->status)
		return perf_fail(t, q->status, what,
				 q->status == -EINVAL
					 ? "the server takes no PINGs with a payload (it is older)"
					 : error_name(q->status));
	perf_count(t, x->since[q->slot], now);
	x->replied |= 1u << q->slot;
	came(x, q->slot);
	return link_receive(&kv->link, number, &kv->error)
		       ? perf_fail(t, -ECONNRESET, what, gkv_error(kv))
		       : 0;
}

static int completed_send(struct perf_thread *t, struct perf_raw *x, const struct ibv_wc *wc,
			  uint64_t now)
{
	unsigned slot = (uint32_t)wc->wr_id;

	if (!(wc->wr_id & SLOT_IS_OURS))
		return reply(t, x, slot, wc->byte_len, now);
	x->sent |= 1u << slot;
	came(x, slot);
	return 0;
}

int perf_raw_sends(struct perf_thread *t)
{
	static const struct perf_raw_ops ops = { what, begin_sends, post_sends, completed_send };

	return perf_raw_run(t, &ops);
}
