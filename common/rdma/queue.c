/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/rdma/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/base/log.h"

static int failed(const struct rdma_device *dev, const char *call, unsigned entries,
		  struct error *err)
{
	int rc = errno ? -errno : -ENOMEM;

	return error_set(err, rc, "%s (%u entries) on %s failed: %s", call, entries, dev->name,
			 error_name(rc));
}

int rdma_cq_create(const struct rdma_device *dev, unsigned entries, unsigned vector, bool sleeping,
		   struct rdma_cq *out, struct error *err)
{
	const int count = dev->context->num_comp_vectors;
	const unsigned vectors = count > 0 ? (unsigned)count : 1;
	struct rdma_cq cq = { .dev = dev };
	int rc;

	if (entries > (unsigned)dev->attr.max_cqe)
		entries = (unsigned)dev->attr.max_cqe;
	errno = 0;
	if (sleeping) {
		cq.channel = dev->ops->create_comp_channel(dev->context);
		if (!cq.channel)
			return failed(dev, "ibv_create_comp_channel", 1, err);
		if (fcntl(cq.channel->fd, F_SETFL, fcntl(cq.channel->fd, F_GETFL) | O_NONBLOCK)) {
			rc = failed(dev, "fcntl of a completion channel", 1, err);
			goto err_channel;
		}
	}
	cq.cq = dev->ops->create_cq(dev->context, (int)entries, NULL, cq.channel,
				    (int)(vector % vectors));
	if (!cq.cq) {
		rc = failed(dev, "ibv_create_cq", entries, err);
		goto err_channel;
	}
	*out = cq;
	return 0;

err_channel:
	if (cq.channel)
		dev->ops->destroy_comp_channel(cq.channel);
	return rc;
}

void rdma_cq_destroy(struct rdma_cq *cq)
{
	int rc;

	if (!cq->cq)
		return;
	rdma_cq_drain_events(cq);
	rc = cq->dev->ops->destroy_cq(cq->cq);
	if (rc == 0 && cq->channel)
		rc = cq->dev->ops->destroy_comp_channel(cq->channel);
	if (rc) /* of a queue pair that stays as well: what it writes to is the device's own */
		log_error("rdma", "a completion queue on %s could not be destroyed and stays: %s",
			  cq->dev->name, error_name(rc));
	memset(cq, 0, sizeof(*cq));
}

int rdma_cq_fd(const struct rdma_cq *cq)
{
	return cq->channel ? cq->channel->fd : -1;
}

int rdma_cq_arm(struct rdma_cq *cq)
{
	return -ibv_req_notify_cq(cq->cq, 0);
}

void rdma_cq_drain_events(struct rdma_cq *cq)
{
	struct ibv_cq *which;
	void *context;
	unsigned events = 0;

	if (!cq->channel)
		return;
	while (cq->dev->ops->get_cq_event(cq->channel, &which, &context) == 0)
		events++;
	if (events)
		cq->dev->ops->ack_cq_events(cq->cq, events);
}

int rdma_srq_create(const struct rdma_device *dev, unsigned receives, struct rdma_srq *out,
		    struct error *err)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = receives, .max_sge = 1 } };

	if (receives > (unsigned)dev->attr.max_srq_wr)
		return error_set(err, -ERANGE,
				 "a shared receive queue of %u does not fit device %s, at most %d",
				 receives, dev->name, dev->attr.max_srq_wr);
	errno = 0;
	out->srq = dev->ops->create_srq(dev->pd, &attr);
	if (!out->srq)
		return failed(dev, "ibv_create_srq", receives, err);
	out->dev = dev;
	return 0;
}

void rdma_srq_destroy(struct rdma_srq *srq)
{
	if (srq->srq)
		srq->dev->ops->destroy_srq(srq->srq);
	memset(srq, 0, sizeof(*srq));
}
