/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * READs of private memory cost a system call each, most of which is the call and the permission to
 * look into the peer, not the copy. Those that are posted in one list share it: all are checked as
 * in execute.c, then process_vm_readv() copies them in order, then all are checked again. Ranges
 * that touch are one range, which saves the kernel the walk to its page.
 *
 * Nothing is decided here. A READ that could end in anything but success is not done and ends the
 * chain, for execute.c to execute it again alone. When a check after the copy fails, that holds for
 * all of them: READs may be repeated, and a buffer that an earlier READ of the list was to fill
 * does not keep the data of a later one that is then flushed.
 *
 * qp->chains says that the last READ went through the kernel. Without it nobody comes here.
 */
#include "common/softrdma/path/chain.h"

#include "common/softrdma/path/execute.h"
#include "common/softrdma/path/request.h"

enum {
	CHAIN_PIECES = 256, /* of buffers; the kernel takes 1024 */
	CHAIN_BYTES = 256 << 10, /* more gain nothing, and keep others from the queue pair */
};

struct chain {
	unsigned reads, nears, fars;
	uint64_t bytes;
	struct shared_mr *mr[CHAIN_MAX];
	uint64_t word[CHAIN_MAX];
	struct iovec far[CHAIN_MAX], near[CHAIN_PIECES];
};

/* One more range, or more of the last one. */
static void range_add(struct iovec *ranges, unsigned *count, void *base, size_t length)
{
	struct iovec *last = *count ? &ranges[*count - 1] : NULL;

	if (last && (unsigned char *)last->iov_base + last->iov_len == base)
		last->iov_len += length;
	else
		ranges[(*count)++] = (struct iovec){ .iov_base = base, .iov_len = length };
}

/* Add a READ. Returns false where it has to be executed alone. */
static bool chain_add(struct chain *chain, struct soft_qp *qp, const struct ibv_send_wr *wr,
		      uint32_t pd)
{
	struct soft_remote remote;
	struct soft_local local;

	if (wr->opcode != IBV_WR_RDMA_READ || soft_request_check(qp, wr) ||
	    soft_local_gather(qp, wr, IBV_ACCESS_LOCAL_WRITE, &local) != IBV_WC_SUCCESS)
		return false;
	if (!local.total || chain->bytes + local.total > CHAIN_BYTES ||
	    chain->nears + local.pieces > CHAIN_PIECES)
		return false;
	if (!soft_remote_resolve(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, local.total,
				 IBV_ACCESS_REMOTE_READ, pd, &remote))
		return false;
	if (remote.mapped) {
		qp->chains = false;
		return false;
	}
	chain->mr[chain->reads] = remote.mr;
	chain->word[chain->reads++] = remote.word;
	chain->bytes += local.total;
	range_add(chain->far, &chain->fars, (void *)(uintptr_t)remote.addr, local.total);
	for (unsigned i = 0; i < local.pieces; i++)
		range_add(chain->near, &chain->nears, local.piece[i].iov_base,
			  local.piece[i].iov_len);
	return true;
}

/* Are all of them as they were found before the copy? */
static bool chain_same(const struct chain *chain, struct soft_qp *qp, uint64_t word)
{
	/* acquire: pairs with the owner's full fence, see fence.c */
	fence_loads();
	if (!soft_responder_same(qp, word) || peer_dead(qp->peer))
		return false;
	for (unsigned i = 0; i < chain->reads; i++) {
		if (atomic_load_explicit(&chain->mr[i]->word, memory_order_relaxed) !=
		    chain->word[i])
			return false;
	}
	return true;
}

unsigned soft_execute_chain(struct soft_qp *qp, const struct ibv_send_wr *wr, uint64_t max,
			    uint32_t *length)
{
	struct chain chain; /* large: not all of it is used */
	unsigned done = 0;
	ssize_t copied;
	uint64_t word;
	uint32_t pd;

	chain.reads = chain.nears = chain.fars = 0;
	chain.bytes = 0;
	if (!qp->rd_atomic || soft_responder(qp, &word) != IBV_WC_SUCCESS ||
	    !(atomic_load_explicit(&qp->remote->access, memory_order_relaxed) &
	      IBV_ACCESS_REMOTE_READ) ||
	    !atomic_load_explicit(&qp->remote->rd_atomic, memory_order_relaxed))
		return 0;
	pd = atomic_load_explicit(&qp->remote->pd, memory_order_relaxed);
	for (; wr && chain.reads < CHAIN_MAX && chain.reads < max; wr = wr->next) {
		uint64_t before = chain.bytes;

		if (!chain_add(&chain, qp, wr, pd))
			break;
		length[chain.reads - 1] = (uint32_t)(chain.bytes - before);
	}
	if (chain.reads < 2)
		return 0;
	copied = soft_peer_read(qp->peer, chain.near, chain.nears, chain.far, chain.fars);
	if (copied < 0 || !chain_same(&chain, qp, word))
		return 0;
	while (done < chain.reads && copied >= (ssize_t)length[done])
		copied -= length[done++];
	return done;
}
