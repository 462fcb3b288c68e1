/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The receive buffers of one worker: registered in chunks, posted to its shared receive queue.
 * Chunks are made by the control thread before the credits that need them are given out; the
 * worker posts them, and posts a buffer again soon after its request was taken: up to a chain of
 * them wait meanwhile, and a reply may have left before. So there is a chain more of buffers than
 * credits, and a sender that keeps to its credits never meets "receiver not ready".
 */
#include <stdint.h>

#include "common/layout/wire_rpc.h"
#include "common/rdma/queue.h"
#include "common/rdma/region.h"

#define RECEIVE_CHUNK  256u
#define RECEIVE_STRIDE ((RPC_REQUEST_MAX + 63u) & ~63u)
#define RECEIVE_CHAIN  16u /* buffers posted again at once */

/* wr_id of a receive: this bit and the buffer's number. */
#define RECEIVE_WR (1ull << 63)

struct receives {
	struct rdma_srq srq;
	unsigned max; /* of the queue */
	unsigned chunks; /* made. Control thread */
	struct rdma_buffer chunk[64];
	unsigned posted; /* buffers that entered the queue. Worker */
	unsigned pending; /* taken and not yet posted again. Worker */
	uint32_t taken[RECEIVE_CHAIN];
};

int receives_create(struct receives *r, const struct rdma_device *dev, unsigned max,
		    struct error *err);
void receives_destroy(struct receives *r);

/* receives_room - make sure of chunks for @credits in all. -EUSERS: beyond the queue. */
int receives_room(struct receives *r, const struct rdma_device *dev, unsigned credits,
		  struct error *err);

/* receives_post_more - worker: post the next chain of buffers that never were. */
int receives_post_more(struct receives *r);

/* receives_frame - worker: the bytes of a received buffer. */
void *receives_frame(const struct receives *r, uint64_t wr_id);

/* receives_again - worker: the buffer is free; it is posted with the next full chain or flush. */
void receives_again(struct receives *r, uint64_t wr_id);
void receives_flush(struct receives *r);
