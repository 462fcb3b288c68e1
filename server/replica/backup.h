/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A backup's end: the ring that it offers to the primary of one term, what comes in it, and how
 * that primary loses it. backup.c has the argument. One thread at a time.
 */
#include <stdbool.h>

#include "common/base/error.h"
#include "common/rdma/device.h"
#include "common/rdma/region.h"
#include "server/replica/ends.h"
#include "server/replica/ring.h"

struct backup;

/*
 * backup_spare - a ring's memory in advance, as that takes longer than all else; nobody has its
 * rkey until it is offered. rdma_buffer_destroy(). Returns 0 or a negative errno with @err.
 * backup_open - a ring of @ring_bytes (RING_BYTES_MIN at least, a multiple of the page) for the
 * primary of @ring_term. @dev: a device of its own, whose protection domain reaches nothing but
 * rings; it outlives the ring. @spare: of as many bytes, and empty then; or empty, or NULL: it
 * takes memory. Returns 0 and what the primary must know, or a negative errno with @err.
 * backup_connect - with what the primary answers. Then it may WRITE.
 */
int backup_spare(const struct rdma_device *dev, uint64_t ring_bytes, struct rdma_buffer *out,
		 struct error *err);
int backup_open(struct backup **out, const struct rdma_device *dev, uint64_t ring_bytes,
		struct rdma_buffer *spare, uint64_t ring_term, struct replica_ring_offer *offer,
		struct error *err);
int backup_connect(struct backup *b, const struct replica_flow_offer *primary, struct error *err);

/*
 * backup_take - the next batch that has come, whole: what ring_receive() has taken, until the next
 * call; NULL: there is none. The primary is not told yet.
 * backup_tell - tell the primary that the ring is free up to there, and what is applied: @applied,
 * a position. Where its queue pair is busy, or was told a moment ago, a later call tells it: call
 * it again and again. Never sleeps.
 */
const struct ring_receiver *backup_take(struct backup *b);
void backup_tell(struct backup *b, uint64_t applied);

/*
 * backup_revoke - the primary loses the ring: nothing of what it WRITEs from now on completes
 * there, or lands here. Then backup_take() takes what had come before, and no more comes. Returns
 * 0; a negative errno: its rights could not be taken away, and the server must end, without taking
 * over.
 * backup_close - it is of no use any more. Where the rights cannot be taken away its memory stays.
 */
int backup_revoke(struct backup *b, struct error *err);
void backup_close(struct backup *b);
