/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Unreliable datagrams. A message to a UD queue pair comes from anybody, so the initiator does not
 * execute here: it has no connection, and no arena of the responder. It sends the message to the
 * socket of the responder's number (datagram.c), and the responder's process receives, in any of
 * its threads (seat.c). The kernel keeps the order of each sender, copes with senders that stop or
 * die, and finds nobody where a queue pair is gone.
 *
 * A message is lost, as on hardware, when no receive is posted, the state is not one that receives,
 * or the Q_Key is another; so the socket is emptied always. One that is longer than the receive is
 * lost too and the receive stays (IBTA 9.9.3, class D), but from an SRQ the receive is gone by then
 * and completes with an error (class E); neither touches the QP. A receive whose own memory may not
 * be written completes with an error and takes the QP to ERR (class A).
 *
 * The socket of a stopped or slow process takes net.unix.max_dgram_qlen messages (10 by default),
 * and no more: EXECUTE_ROOM, for a second at most (wait.c), then the message is lost. To a number
 * that nobody has, it is lost at once.
 */
#include "common/softrdma/datagram/ud.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "common/softrdma/objects/ah.h"
#include "common/softrdma/path/copy.h"
#include "common/softrdma/path/execute.h"
#include "common/softrdma/path/progress.h"
#include "common/softrdma/objects/qp.h"
#include "common/softrdma/datagram/seat.h"

#define QKEY_OWN    0x80000000u /* in a request: the Q_Key of the sending QP counts */
#define GRH_HEADERS 20u /* BTH and DETH */
#define GRH_IMM	    4u
#define GRH_ICRC    4u

void soft_ud_qkey(struct soft_qp *qp, uint32_t qkey)
{
	atomic_store_explicit(&qp->ud->qkey, qkey, memory_order_relaxed);
}

static void header_fill(struct datagram_header *header, const struct soft_qp *qp,
			const struct ibv_send_wr *wr, uint32_t length)
{
	const struct ibv_ah_attr *path = &soft_ah(wr->wr.ud.ah)->attr;
	uint32_t qkey = wr->wr.ud.remote_qkey;

	*header = (struct datagram_header){ .magic = DATAGRAM_MAGIC,
					    .source = qp->base.qp_num,
					    .length = length,
					    .slid = path->dlid, /* of the only port: ours too */
					    .sl = path->sl,
					    .path_bits = path->src_path_bits };
	header->qkey =
		qkey & QKEY_OWN ? atomic_load_explicit(&qp->ud->qkey, memory_order_relaxed) : qkey;
	if (wr->opcode == IBV_WR_SEND_WITH_IMM) {
		header->flags |= DATAGRAM_IMM;
		header->imm = wr->imm_data;
	}
	if (wr->send_flags & IBV_SEND_SOLICITED)
		header->flags |= DATAGRAM_SOLICITED;
	if (path->is_global) {
		header->flags |= DATAGRAM_GLOBAL;
		header->flow_label = path->grh.flow_label;
		header->traffic_class = path->grh.traffic_class;
		header->hop_limit = path->grh.hop_limit;
		header->sgid = *soft_gid(path->grh.sgid_index);
		header->dgid = path->grh.dgid;
	}
}

int soft_ud_send(struct soft_qp *qp, const struct ibv_send_wr *wr, struct soft_local *local)
{
	struct iovec pieces[DATAGRAM_PIECES];
	struct datagram_header header;

	if (wr->wr.ud.ah->pd != qp->base.pd)
		return IBV_WC_LOC_QP_OP_ERR;
	if (local->total > DATAGRAM_MTU)
		return IBV_WC_LOC_LEN_ERR;
	header_fill(&header, qp, wr, local->total);
	pieces[0] = (struct iovec){ &header, sizeof(header) };
	memcpy(&pieces[1], local->piece, local->pieces * sizeof(pieces[0]));
	switch (soft_datagram_send(qp->ud->fd, wr->wr.ud.remote_qpn, pieces, local->pieces + 1)) {
	case -EAGAIN:
		return EXECUTE_ROOM;
	case -EFAULT:
		return IBV_WC_LOC_PROT_ERR;
	default:
		return IBV_WC_SUCCESS;
	}
}

/* A receive cannot be used: ERR, which the service thread attends to. */
static void ud_fail(struct soft_qp *qp)
{
	struct shared_arena *arena = own_arena();
	uint64_t word = atomic_load(&qp->shared->word);

	do {
		if (!qp_receives(qp_word_state(word)))
			return;
		/* release: pairs with qp_state() */
	} while (!atomic_compare_exchange_weak(&qp->shared->word, &word,
					       (word & ~(uint64_t)0xff) | IBV_QPS_ERR));
	atomic_fetch_or(&arena->qp_bits[qp->index / 64], 1ull << qp->index % 64);
	atomic_store(&arena->qp_attention, 1);
	soft_kick(soft_process.kick_fd);
}

/* Take the receive for @size bytes. Returns false when the message is lost. */
static bool ud_take(struct soft_qp *qp, uint64_t size, struct soft_recv *recv)
{
	struct shared_rq *rq = qp_rq(qp)->shared;

	if (!qp->srq)
		return soft_rq_peek(own_arena(), rq, recv) && size <= recv_size(recv) &&
		       soft_rq_take(own_arena(), rq, recv);
	if (!soft_rq_take(own_arena(), rq, recv))
		return false;
	if (atomic_load_explicit(&rq->limit, memory_order_relaxed))
		soft_progress_srq_limit(qp->srq);
	return true;
}

/* Copy @size bytes of @from into the buffers of @recv, which are long enough. */
static bool ud_scatter(struct soft_qp *qp, const struct soft_recv *recv, const unsigned char *from,
		       uint64_t size)
{
	uint32_t pd = atomic_load_explicit(&qp_rq(qp)->shared->pd, memory_order_relaxed);

	for (uint32_t i = 0; i < recv->sges && size; i++) {
		const struct ibv_sge *sge = &recv->sge[i];
		const struct shared_mr *mr = own_mr(sge->lkey);
		uint64_t length = sge->length < size ? sge->length : size;
		uint64_t at = sge->addr;

		if (!length)
			continue;
		if (!mr_covers(mr, sge->lkey, at, length, IBV_ACCESS_LOCAL_WRITE, pd))
			return false;
		at += atomic_load_explicit(&mr->shift, memory_order_relaxed);
		soft_copy_to((void *)(uintptr_t)at, from, (size_t)length);
		from += length;
		size -= length;
	}
	return true;
}

/* The route, as it stands in front of the message in the receive. */
static void grh_fill(struct datagram *datagram)
{
	const struct datagram_header *header = &datagram->header;
	uint32_t length = GRH_HEADERS + ((header->length + 3) & ~3u) + GRH_ICRC;

	memset(&datagram->grh, 0, sizeof(datagram->grh));
	if (!(header->flags & DATAGRAM_GLOBAL))
		return;
	if (header->flags & DATAGRAM_IMM)
		length += GRH_IMM;
	datagram->grh.version_tclass_flow =
		htobe32(GRH_VERSION << 28 | (uint32_t)header->traffic_class << 20 |
			(header->flow_label & 0xfffff));
	datagram->grh.paylen = htobe16((uint16_t)length);
	datagram->grh.next_hdr = GRH_NEXT;
	datagram->grh.hop_limit = header->hop_limit;
	datagram->grh.sgid = header->sgid;
	datagram->grh.dgid = header->dgid;
}

/* A message has come. Under the lock of the seat. */
static void ud_deliver(struct soft_qp *qp, struct datagram *datagram)
{
	const struct datagram_header *header = &datagram->header;
	uint32_t size = (uint32_t)sizeof(datagram->grh) + header->length;
	struct ibv_wc wc = { .opcode = IBV_WC_RECV,
			     .byte_len = size,
			     .qp_num = qp->base.qp_num,
			     .src_qp = header->source,
			     .slid = header->slid,
			     .sl = header->sl,
			     .dlid_path_bits = header->path_bits };
	struct soft_recv recv;

	if (!qp_receives(qp_state(qp)) ||
	    header->qkey != atomic_load_explicit(&qp->ud->qkey, memory_order_relaxed) ||
	    !ud_take(qp, size, &recv))
		return;
	wc.wr_id = recv.wr_id;
	if (header->flags & DATAGRAM_GLOBAL)
		wc.wc_flags |= IBV_WC_GRH;
	if (header->flags & DATAGRAM_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = header->imm;
	}
	grh_fill(datagram);
	if (size > recv_size(&recv))
		wc.status = IBV_WC_LOC_LEN_ERR;
	else if (!ud_scatter(qp, &recv, (const unsigned char *)&datagram->grh, size))
		wc.status = IBV_WC_LOC_PROT_ERR;
	soft_cq_push_receive(qp->recv_cq, qp, &wc, header->flags & DATAGRAM_SOLICITED);
	if (wc.status == IBV_WC_LOC_PROT_ERR)
		ud_fail(qp);
}

void soft_ud_receive(struct soft_qp *qp, unsigned count)
{
	struct soft_ud *ud = qp->ud;

	while (count--) {
		int rc = soft_datagram_receive(ud->fd, &ud->datagram);

		if (rc == -EAGAIN)
			return;
		if (rc == 0)
			ud_deliver(qp, &ud->datagram);
	}
}
