/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/rdma/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rdma/choose.h"
#include "common/rdma/traffic.h"

struct rdma_options rdma_options_default(void)
{
	return (struct rdma_options){
		.gid_index = RDMA_GID_AUTO,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 6,
	};
}

static const char *port_state_words(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_DOWN:
		return "DOWN";
	case IBV_PORT_INIT:
		return "INIT (no subnet manager has brought it up)";
	case IBV_PORT_ARMED:
		return "ARMED";
	case IBV_PORT_ACTIVE:
		return "ACTIVE";
	default:
		return "in an unknown state";
	}
}

int rdma_port_check(const char *name, unsigned count, unsigned port, struct error *err)
{
	if (port <= count)
		return 0;
	return error_set(err, -ERANGE, "device %s has ports 1 to %u, not %u", name, count, port);
}

int rdma_port_query(struct rdma_device *dev, unsigned port, struct error *err)
{
	int rc = dev->ops->query_port(dev->context, (uint8_t)port, &dev->port_attr);

	if (rc)
		return error_set(err, -rc, "ibv_query_port %u of %s failed: %s", port, dev->name,
				 error_name(rc));
	if (dev->port != port) /* a refresh writes nothing that other threads read */
		dev->port = (uint8_t)port;
	return 0;
}

int rdma_context_open(struct rdma_device *dev, struct ibv_device *ibdev, struct error *err)
{
	int rc;

	snprintf(dev->name, sizeof(dev->name), "%s", dev->ops->get_device_name(ibdev));
	dev->software = dev->ops == &rdma_provider_soft;
	dev->numa_node = dev->ops->numa_node(ibdev);
	errno = 0;
	dev->context = dev->ops->open_device(ibdev);
	if (!dev->context) {
		rc = errno ? -errno : -EIO;
		return error_set(err, rc, "ibv_open_device of %s failed: %s (%s)", dev->name,
				 error_name(rc),
				 rc == -EMFILE	 ? "raise the limit of open files with ulimit -n"
				 : dev->software ? "at most 256 processes of a machine can use it; "
						   "SOFTRDMA_* in the environment?"
						 : "is /dev/infiniband readable for this user?");
	}
	rc = dev->ops->query_device(dev->context, &dev->attr);
	if (rc == 0)
		return 0;
	dev->ops->close_device(dev->context);
	dev->context = NULL;
	return error_set(err, -rc, "ibv_query_device of %s failed: %s", dev->name, error_name(rc));
}

int rdma_port_down(const struct rdma_device *dev, struct error *err)
{
	return error_set(err, -ENETDOWN,
			 "port %u of device %s is %s (bring its link up, or choose another with "
			 "--device and --ib-port)",
			 dev->port, dev->name, port_state_words(dev->port_attr.state));
}

static int choose_mtu(struct rdma_device *dev, struct error *err)
{
	unsigned want = dev->options.mtu_bytes;

	dev->mtu = dev->port_attr.active_mtu;
	if (!want)
		return 0;
	for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= dev->port_attr.active_mtu; mtu++) {
		if (rdma_mtu_bytes(mtu) == want) {
			dev->mtu = mtu;
			return 0;
		}
	}
	return error_set(err, -ERANGE,
			 "an MTU of %u does not fit port %u of %s (give 256, 512, 1024, 2048 or "
			 "4096, and at most its active MTU, %u)",
			 want, dev->port, dev->name, rdma_mtu_bytes(dev->mtu));
}

int rdma_port_refresh(struct rdma_device *dev, struct error *err)
{
	int rc = rdma_port_query(dev, dev->port, err);

	if (rc)
		return rc;
	if (dev->port_attr.state != IBV_PORT_ACTIVE)
		return rdma_port_down(dev, err);
	rc = choose_mtu(dev, err);
	return rc ? rc : rdma_traffic_check(dev, err);
}

int rdma_device_open(struct rdma_device **out, const struct rdma_options *options,
		     const char *address, struct error *err)
{
	struct rdma_device *dev = calloc(1, sizeof(*dev));
	int rc;

	if (!dev)
		return error_set(err, -ENOMEM, "out of memory for a device");
	dev->options = *options;
	rc = rdma_device_choose(dev, address, err);
	if (rc)
		goto err_free;
	rc = choose_mtu(dev, err);
	if (rc == 0)
		rc = rdma_traffic_check(dev, err);
	if (rc)
		goto err_close;
	fcntl(dev->context->async_fd, F_SETFL, fcntl(dev->context->async_fd, F_GETFL) | O_NONBLOCK);
	dev->pd = dev->ops->alloc_pd(dev->context);
	if (!dev->pd) {
		rc = errno ? -errno : -ENOMEM;
		error_set(err, rc, "ibv_alloc_pd on %s failed: %s", dev->name, error_name(rc));
		goto err_close;
	}
	*out = dev;
	return 0;

err_close:
	dev->ops->close_device(dev->context);
err_free:
	free(dev);
	return rc;
}

/* What may come, of all that ibv_get_async_event(3) lists. */
static const struct {
	enum ibv_event_type type;
	struct rdma_event event;
} event_words[] = {
	{ IBV_EVENT_DEVICE_FATAL, { .text = "the device has failed", .fatal = true } },
	{ IBV_EVENT_CQ_ERR, { .text = "a completion queue has overrun", .fatal = true } },
	{ IBV_EVENT_SRQ_ERR, { .text = "a shared receive queue has failed", .fatal = true } },
	{ IBV_EVENT_PORT_ERR,
	  { .text = "the port has gone down; what is sent meanwhile is lost, and life lines "
		    "decide which sessions stay",
	    .port = true } },
	{ IBV_EVENT_PORT_ACTIVE, { .text = "the port has become ACTIVE", .port = true } },
	{ IBV_EVENT_QP_FATAL, { .text = "a queue pair has failed" } },
	{ IBV_EVENT_QP_REQ_ERR, { .text = "a queue pair got a request that it does not serve" } },
	{ IBV_EVENT_QP_ACCESS_ERR,
	  { .text = "a queue pair got a request for memory that it may not touch" } },
	{ IBV_EVENT_QP_LAST_WQE_REACHED,
	  { .text = "a failed queue pair has taken its last receive", .last_receive = true } },
	{ IBV_EVENT_GID_CHANGE, { .text = "the GID table has changed", .port = true } },
	{ IBV_EVENT_LID_CHANGE, { .text = "the LID has changed", .port = true } },
	{ IBV_EVENT_PKEY_CHANGE, { .text = "the P_Key table has changed", .port = true } },
	{ IBV_EVENT_SM_CHANGE, { .text = "there is another subnet manager", .port = true } },
	{ IBV_EVENT_CLIENT_REREGISTER,
	  { .text = "the subnet manager asks for registrations again", .port = true } },
};

int rdma_device_event(const struct rdma_device *dev, struct rdma_event *out)
{
	struct ibv_async_event event;

	if (dev->ops->get_async_event(dev->context, &event))
		return -EAGAIN;
	*out = (struct rdma_event){ .text = "an event that this version has no words for" };
	for (unsigned i = 0; i < sizeof(event_words) / sizeof(event_words[0]); i++) {
		if (event_words[i].type == event.event_type)
			*out = event_words[i].event;
	}
	if (out->last_receive)
		out->context = event.element.qp->qp_context;
	dev->ops->ack_async_event(&event);
	return 0;
}

void rdma_device_close(struct rdma_device *dev)
{
	if (!dev)
		return;
	dev->ops->dealloc_pd(dev->pd);
	dev->ops->close_device(dev->context);
	free(dev);
}
