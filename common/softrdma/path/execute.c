/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The initiator executes. Its post_send checks all that the responder's hardware would check, in
 * the responder's arena, and copies: with plain loads and stores where the region lies in a file
 * that is mapped here, else through the kernel (peer_memory.c). Nobody at the responder takes part,
 * so a stopped responder serves; only an atomic on memory that is not mapped asks it (atomic.c).
 * Requests of a queue pair are executed one after the other, in order, each whole before the next.
 *
 * Checks come before the copy and again after it; fence.c says why both, and why that is enough.
 */
#include "common/softrdma/path/execute.h"

#include <errno.h>
#include <stdio.h>

#include "common/softrdma/path/atomic.h"
#include "common/softrdma/path/copy.h"
#include "common/softrdma/faults/fate.h"
#include "common/softrdma/path/progress.h"
#include "common/softrdma/faults/weak_copy.h"

int soft_responder(struct soft_qp *qp, uint64_t *out)
{
	uint64_t word;

	if (!qp->peer || peer_dead(qp->peer))
		return IBV_WC_RETRY_EXC_ERR;
	/* seq_cst: pairs with the owner taking the state back, see fence.c */
	*out = word = atomic_load(&qp->remote->word);
	if (qp_word_qpn(word) != qp->dest_qpn)
		return IBV_WC_RETRY_EXC_ERR;
	switch (qp_word_state(word)) {
	case IBV_QPS_RTR:
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
		if (atomic_load_explicit(&qp->remote->dest_qpn, memory_order_relaxed) ==
			    qp->base.qp_num &&
		    atomic_load_explicit(&qp->remote->dest_incarnation, memory_order_relaxed) ==
			    soft_process.incarnation)
			return IBV_WC_SUCCESS;
		return IBV_WC_RETRY_EXC_ERR;
	case IBV_QPS_RESET:
	case IBV_QPS_INIT:
		return EXECUTE_NOT_READY;
	default:
		return IBV_WC_RETRY_EXC_ERR;
	}
}

bool soft_responder_same(struct soft_qp *qp, uint64_t word)
{
	uint64_t now = atomic_load_explicit(&qp->remote->word, memory_order_acquire);

	return now == word || ((now ^ word) < 0x100 && qp_receives(qp_word_state(now)));
}

bool soft_remote_resolve(struct soft_qp *qp, uint32_t key, uint64_t addr, uint64_t length,
			 uint32_t access, uint32_t pd, struct soft_remote *out)
{
	struct soft_peer *peer = qp->peer;
	struct shared_mr *mr = &peer->mrs[mr_key_index(key)];
	uint64_t id, offset;
	uint32_t index;

	out->word = mr_covers(mr, key, addr, length, access, pd);
	if (!out->word)
		return false;
	out->mr = mr;
	out->addr = addr + atomic_load_explicit(&mr->shift, memory_order_relaxed);
	out->length = length;
	id = atomic_load_explicit(&mr->map_id, memory_order_relaxed);
	offset = atomic_load_explicit(&mr->map_offset, memory_order_relaxed);
	offset += addr - atomic_load_explicit(&mr->addr, memory_order_relaxed);
	index = atomic_load_explicit(&mr->map_index, memory_order_relaxed);
	/*
	 * All of this counts only if the entry has not changed hands. seq_cst: pairs with
	 * softrdma_dereg_mr(), see fence.c
	 */
	fence_loads();
	if (atomic_load(&mr->word) != out->word)
		return false;
	if (peer->self)
		out->mapped = (unsigned char *)(uintptr_t)out->addr;
	else
		out->mapped = id ? peer_map(peer, index, id, offset, length) : NULL;
	return true;
}

void soft_remote_attention(struct soft_qp *qp)
{
	struct shared_arena *arena = qp->peer->arena;
	uint32_t index = qpn_index(qp->dest_qpn);

	atomic_fetch_or(&arena->qp_bits[index / 64], 1ull << index % 64);
	atomic_store(&arena->qp_attention, 1);
	soft_kick(qp->peer->kick_fd);
}

void soft_remote_fail(struct soft_qp *qp, int event)
{
	uint64_t word = atomic_load(&qp->remote->word);

	/* IBTA 9.9.3: what UC may not do is dropped (class D); only a receive that fails is an
	 * error */
	if (event >= 0 && qp->base.qp_type == IBV_QPT_UC)
		return;
	do {
		if (qp_word_qpn(word) != qp->dest_qpn || !qp_receives(qp_word_state(word)))
			return;
		if (event >= 0)
			atomic_store(&qp->remote->async_event, (uint32_t)event + 1);
		/* release: pairs with qp_state() */
	} while (!atomic_compare_exchange_weak(&qp->remote->word, &word,
					       (word & ~(uint64_t)0xff) | IBV_QPS_ERR));
	soft_remote_attention(qp);
}

/* Is the peer's QP of the same service? A request of another one is not understood there. */
static bool service_same(const struct soft_qp *qp)
{
	return atomic_load_explicit(&qp->remote->type, memory_order_relaxed) == qp->base.qp_type;
}

unsigned soft_local_rest(const struct soft_local *local, uint64_t length, struct iovec *out)
{
	unsigned n = 0;

	for (unsigned i = local->at; i < local->pieces && length; i++) {
		size_t skip = i == local->at ? local->at_offset : 0;
		size_t size = local->piece[i].iov_len - skip;

		if (size > length)
			size = (size_t)length;
		out[n].iov_base = (unsigned char *)local->piece[i].iov_base + skip;
		out[n++].iov_len = size;
		length -= size;
	}
	return n;
}

void soft_local_advance(struct soft_local *local, uint64_t length)
{
	while (length) {
		size_t left = local->piece[local->at].iov_len - local->at_offset;

		if (length < left) {
			local->at_offset += (size_t)length;
			return;
		}
		length -= left;
		local->at++;
		local->at_offset = 0;
	}
}

static int copy_failed(struct soft_qp *qp, int code)
{
	static _Atomic bool told;

	if (code == ESRCH || peer_dead(qp->peer))
		return IBV_WC_RETRY_EXC_ERR;
	if (code == EPERM && !atomic_exchange(&told, true))
		fprintf(stderr,
			"softrdma: copying from or to memory of process %d is not permitted: run "
			"both as one user, allow ptrace between them (kernel.yama.ptrace_scope, "
			"CAP_SYS_PTRACE), or register shared memory (memfd)\n",
			(int)qp->peer->pid);
	return IBV_WC_REM_OP_ERR;
}

static int copy_kernel(struct soft_qp *qp, const struct soft_remote *remote,
		       struct soft_local *local, bool write)
{
	struct iovec far = { .iov_base = (void *)(uintptr_t)remote->addr,
			     .iov_len = (size_t)remote->length };
	struct iovec near[SHARED_SGES];

	while (far.iov_len) {
		unsigned n = soft_local_rest(local, far.iov_len, near);
		ssize_t done = write ? soft_peer_write(qp->peer, near, n, &far)
				     : soft_peer_read(qp->peer, near, n, &far, 1);

		if (done < 0)
			return copy_failed(qp, (int)-done);
		soft_local_advance(local, (uint64_t)done);
		far.iov_base = (unsigned char *)far.iov_base + done;
		far.iov_len -= (size_t)done;
	}
	return IBV_WC_SUCCESS;
}

static int copy_out(struct soft_qp *qp, const struct soft_remote *remote, struct soft_local *local)
{
	struct iovec near[SHARED_SGES];
	unsigned char *to = remote->mapped;
	unsigned n;

	if (!to)
		return copy_kernel(qp, remote, local, true);
	n = soft_local_rest(local, remote->length, near);
	for (unsigned i = 0; i < n; i++) {
		soft_copy_to(to, near[i].iov_base, near[i].iov_len);
		to += near[i].iov_len;
	}
	soft_local_advance(local, remote->length);
	return IBV_WC_SUCCESS;
}

int soft_copy_out(struct soft_qp *qp, const struct soft_remote *remote, struct soft_local *local)
{
	if (__builtin_expect(soft_weak & (WEAK_LINES | WEAK_DELAY), 0))
		return soft_weak_copy(qp, remote, local, copy_out);
	return copy_out(qp, remote, local);
}

static int copy_in(struct soft_qp *qp, const struct soft_remote *remote, struct soft_local *local)
{
	const unsigned char *from = remote->mapped;

	if (!from) {
		qp->chains = true;
		return copy_kernel(qp, remote, local, false);
	}
	for (unsigned i = 0; i < local->pieces; i++) {
		soft_copy_from(local->piece[i].iov_base, from, local->piece[i].iov_len);
		from += local->piece[i].iov_len;
	}
	return IBV_WC_SUCCESS;
}

int soft_local_gather(struct soft_qp *qp, const struct ibv_send_wr *wr, uint32_t access,
		      struct soft_local *local)
{
	uint64_t total = 0;

	local->pieces = local->at = 0;
	local->at_offset = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];
		uint64_t addr = sge->addr;

		if (!sge->length)
			continue;
		if (!(wr->send_flags & IBV_SEND_INLINE)) {
			struct shared_mr *mr = own_mr(sge->lkey);

			if (!mr_covers(mr, sge->lkey, addr, sge->length, access, qp->pd))
				return IBV_WC_LOC_PROT_ERR;
			addr += atomic_load_explicit(&mr->shift, memory_order_relaxed);
		}
		local->piece[local->pieces].iov_base = (void *)(uintptr_t)addr;
		local->piece[local->pieces++].iov_len = sge->length;
		total += sge->length;
	}
	local->total = (uint32_t)total;
	return total > SOFT_MSG_MAX ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

static int execute_read(struct soft_qp *qp, const struct ibv_send_wr *wr, struct soft_local *local)
{
	struct soft_remote remote;
	uint64_t word;
	int rc;

	if (!qp->rd_atomic)
		return IBV_WC_LOC_QP_OP_ERR;
	rc = soft_responder(qp, &word);
	if (rc != IBV_WC_SUCCESS)
		return rc;
	if (!(atomic_load_explicit(&qp->remote->access, memory_order_relaxed) &
	      IBV_ACCESS_REMOTE_READ) ||
	    !atomic_load_explicit(&qp->remote->rd_atomic, memory_order_relaxed)) {
		if (!service_same(qp)) /* rd_atomic of others is 0 */
			return IBV_WC_RETRY_EXC_ERR;
		soft_remote_fail(qp, IBV_EVENT_QP_REQ_ERR);
		return IBV_WC_REM_INV_REQ_ERR;
	}
	if (!local->total)
		return IBV_WC_SUCCESS; /* checks no key, says IBTA */
	if (!soft_remote_resolve(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, local->total,
				 IBV_ACCESS_REMOTE_READ,
				 atomic_load_explicit(&qp->remote->pd, memory_order_relaxed),
				 &remote)) {
		soft_remote_fail(qp, IBV_EVENT_QP_ACCESS_ERR);
		return IBV_WC_REM_ACCESS_ERR;
	}
	if (__builtin_expect(soft_weak & (WEAK_LINES | WEAK_DELAY), 0))
		rc = soft_weak_copy(qp, &remote, local, copy_in);
	else
		rc = copy_in(qp, &remote, local);
	/* acquire: pairs with the owner's full fence, see fence.c */
	fence_loads();
	if (!soft_responder_same(qp, word) || peer_dead(qp->peer)) {
		rc = soft_responder(qp, &word);
		return rc == IBV_WC_SUCCESS ? IBV_WC_RETRY_EXC_ERR : rc;
	}
	if (atomic_load_explicit(&remote.mr->word, memory_order_relaxed) != remote.word) {
		soft_remote_fail(qp, IBV_EVENT_QP_ACCESS_ERR);
		return IBV_WC_REM_ACCESS_ERR;
	}
	return rc;
}

static int execute_write(struct soft_qp *qp, const struct ibv_send_wr *wr, struct soft_local *local,
			 struct soft_found *found)
{
	struct soft_remote remote;

	if (!(atomic_load_explicit(&qp->remote->access, memory_order_relaxed) &
	      IBV_ACCESS_REMOTE_WRITE)) {
		soft_remote_fail(qp, IBV_EVENT_QP_REQ_ERR);
		return IBV_WC_REM_INV_REQ_ERR;
	}
	if (!local->total)
		return IBV_WC_SUCCESS;
	if (!soft_remote_resolve(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, local->total,
				 IBV_ACCESS_REMOTE_WRITE,
				 atomic_load_explicit(&qp->remote->pd, memory_order_relaxed),
				 &remote)) {
		soft_remote_fail(qp, IBV_EVENT_QP_ACCESS_ERR);
		return IBV_WC_REM_ACCESS_ERR;
	}
	found_add(found, remote.mr, remote.word);
	return soft_copy_out(qp, &remote, local);
}

/* What changes memory of the peer, between the two marks that announce it. */
static int execute_busy(struct soft_qp *qp, const struct ibv_send_wr *wr, struct soft_local *local)
{
	bool write = wr->opcode == IBV_WR_RDMA_WRITE;
	uint64_t busy = soft_busy_begin(qp);
	struct soft_found found; /* large: not all of it is used */
	int rc;

	found.regions = 0;
	found.refused = write || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_REM_ACCESS_ERR
									  : IBV_WC_REM_OP_ERR;
	rc = soft_responder(qp, &found.qp);
	if (rc == IBV_WC_SUCCESS && !service_same(qp))
		rc = IBV_WC_RETRY_EXC_ERR;
	if (rc == IBV_WC_SUCCESS)
		rc = write ? execute_write(qp, wr, local, &found)
			   : soft_deliver(qp, wr, local, &found);
	rc = soft_busy_end(qp, busy, &found, rc);
	/* A dead owner gives nothing up. Of a message it was told, and may have ended since. */
	if (write && rc == IBV_WC_SUCCESS && peer_dead(qp->peer))
		rc = IBV_WC_RETRY_EXC_ERR;
	/* UC: whatever became of it there, it was sent. */
	return qp->base.qp_type == IBV_QPT_UC ? IBV_WC_SUCCESS : rc;
}

int soft_execute(struct soft_qp *qp, const struct ibv_send_wr *wr, uint32_t *length)
{
	bool read = wr->opcode == IBV_WR_RDMA_READ;
	bool atomic = !read && (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
				wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD);
	struct soft_local local;
	int rc;

	rc = soft_local_gather(qp, wr, read || atomic ? IBV_ACCESS_LOCAL_WRITE : 0, &local);
	if (rc != IBV_WC_SUCCESS)
		return rc;
	*length = local.total;
	if (read)
		return execute_read(qp, wr, &local);
	if (atomic)
		return soft_atomic(qp, wr, &local);
	if (qp->base.qp_type == IBV_QPT_UD)
		return soft_ud_send(qp, wr, &local);
	return execute_busy(qp, wr, &local);
}

void soft_prefetch(struct soft_qp *qp, const struct ibv_send_wr *wr, unsigned count)
{
	if (!qp->peer)
		return;
	for (; wr && count; wr = wr->next, count--) {
		struct shared_mr *mr = &qp->peer->mrs[mr_key_index(wr->wr.rdma.rkey)];
		uintptr_t at = wr->wr.rdma.remote_addr;
		struct soft_peer_map *map;
		uint32_t index;

		if (wr->opcode != IBV_WR_RDMA_READ)
			continue;
		index = atomic_load_explicit(&mr->map_index, memory_order_relaxed) % SHARED_MAPS;
		/* acquire: pairs with the release in soft_peer_map_slow() */
		map = atomic_load_explicit(&qp->peer->maps[index], memory_order_acquire);
		if (map)
			at += (uintptr_t)map->base -
			      atomic_load_explicit(&mr->addr, memory_order_relaxed) +
			      atomic_load_explicit(&mr->map_offset, memory_order_relaxed);
		else
			at += atomic_load_explicit(&mr->shift, memory_order_relaxed);
		if (map || qp->peer->self)
			__builtin_prefetch((const void *)at);
	}
}
