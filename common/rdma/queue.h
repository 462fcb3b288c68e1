/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Completion queues with their channels, and shared receive queues. */
#include "common/rdma/device.h"

struct rdma_cq {
	const struct rdma_device *dev;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel; /* NULL: polled only */
};

/*
 * rdma_cq_create - @entries: at most the device's max_cqe. @vector: any number; those of the device
 * are taken in turn, so that neighbours have their interrupts on different cores. @sleeping: with a
 * channel, whose fd (rdma_cq_fd()) becomes readable after rdma_cq_arm() and a completion; it never
 * blocks.
 */
int rdma_cq_create(const struct rdma_device *dev, unsigned entries, unsigned vector, bool sleeping,
		   struct rdma_cq *out, struct error *err);
/* rdma_cq_destroy - after its queue pairs. A zeroed one is fine. */
void rdma_cq_destroy(struct rdma_cq *cq);

int rdma_cq_fd(const struct rdma_cq *cq);

/* rdma_cq_arm - one event for the next completion; poll once more after it, before sleeping. */
int rdma_cq_arm(struct rdma_cq *cq);

/* rdma_cq_drain_events - take and acknowledge the events that wait in the channel. */
void rdma_cq_drain_events(struct rdma_cq *cq);

struct rdma_srq {
	const struct rdma_device *dev;
	struct ibv_srq *srq;
};

int rdma_srq_create(const struct rdma_device *dev, unsigned receives, struct rdma_srq *out,
		    struct error *err);
void rdma_srq_destroy(struct rdma_srq *srq);
