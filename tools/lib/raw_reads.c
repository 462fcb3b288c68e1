/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/raw_reads.h"

#include <errno.h>

#include "common/base/hash.h"
#include "common/layout/slot.h"
#include "common/rdma/post.h"

static int post_and_wait(const struct raw_reads *r, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n, rc = rdma_post_send(r->qp, wr, &bad);

	while (rc == 0 && (n = rdma_poll(r->cq, 1, &wc)) <= 0)
		rc = n;
	return rc ? rc : wc.status == IBV_WC_SUCCESS ? 0 : -EIO;
}

int raw_read(const struct raw_reads *r, uint64_t addr, uint32_t rkey, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)r->to, len, r->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};

	return post_and_wait(r, &wr);
}

int raw_read_chain(const struct raw_reads *r, const struct raw_place *at, unsigned count,
		   uint32_t len)
{
	struct ibv_send_wr wr[RAW_READS_MAX];
	struct ibv_sge sge[RAW_READS_MAX];

	if (count == 0 || count > RAW_READS_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < count; i++) {
		sge[i] = (struct ibv_sge){ (uintptr_t)r->to + (size_t)i * len, len, r->lkey };
		wr[i].wr_id = 1;
		wr[i].next = &wr[i + 1];
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].opcode = IBV_WR_RDMA_READ;
		wr[i].send_flags = 0;
		wr[i].wr.rdma.remote_addr = at[i].addr;
		wr[i].wr.rdma.rkey = at[i].rkey;
	}
	wr[count - 1].next = NULL;
	wr[count - 1].send_flags = IBV_SEND_SIGNALED;
	return post_and_wait(r, wr);
}

bool raw_place_of(const struct gkv *kv, const void *key, uint32_t len, struct raw_place *out)
{
	const struct reader *r = &kv->reader;
	uint64_t hash = hash_key(r->world->hash_seed, key, len);
	const struct extent *x;
	struct hint hint;

	if (!hints_find(r->hints, hash, hints_age(r->hints), &hint))
		return false;
	x = world_find_extent(r->world, slot_extent(hint.slot));
	if (!x)
		return false;
	*out = (struct raw_place){ x->addr + slot_offset(hint.slot), x->rkey };
	return true;
}
