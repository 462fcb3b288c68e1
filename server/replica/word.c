/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/replica/word.h"

#include <stdatomic.h>

#include "common/rdma/post.h"

int word_write(const struct rdma_qp *qp, const struct rdma_buffer *from, _Atomic uint64_t *word,
	       uint64_t value, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = { .addr = (uintptr_t)word,
			       .length = sizeof(*word),
			       .lkey = from->region.lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};

	/* relaxed: the device reads it after the post */
	atomic_store_explicit(word, value, memory_order_relaxed);
	return rdma_post_send(qp->qp, &wr, &bad);
}
