/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/worker/receives.h"

#include <assert.h>
#include <errno.h>

#include "common/rdma/post.h"

int receives_create(struct receives *r, const struct rdma_device *dev, unsigned max,
		    struct error *err)
{
	if (max > (unsigned)dev->attr.max_srq_wr)
		max = (unsigned)dev->attr.max_srq_wr;
	r->max = max - max % RECEIVE_CHUNK;
	return rdma_srq_create(dev, r->max, &r->srq, err);
}

void receives_destroy(struct receives *r)
{
	rdma_srq_destroy(&r->srq);
	for (unsigned i = 0; i < r->chunks; i++)
		rdma_buffer_destroy(&r->chunk[i]);
	r->chunks = 0;
}

int receives_room(struct receives *r, const struct rdma_device *dev, unsigned credits,
		  struct error *err)
{
	if (credits + RECEIVE_CHAIN > r->max)
		return error_set(err, -EUSERS,
				 "the server has no room for more queue pairs: %u receives of one "
				 "worker are given out (start it with more --workers)",
				 r->max);
	while (r->chunks * RECEIVE_CHUNK < credits + RECEIVE_CHAIN) {
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
	return count ? rdma_post_srq_recv(r->srq.srq, wr) : 0;
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

	assert(rc == 0); /* every buffer has a place in the queue, and its sizes are ours */
	r->pending = 0;
}

void receives_again(struct receives *r, uint64_t wr_id)
{
	r->taken[r->pending++] = (uint32_t)wr_id;
	if (r->pending == RECEIVE_CHAIN)
		receives_flush(r);
}
