/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * rdma_cm connects through the kernel, which knows nothing of soft0. The functions with which its
 * use begins go to librdmacm; where that fails for want of the kernel's device, the error is one
 * that says so. librdmacm calls some of them itself: the sentence is said once.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "common/softrdma/preload/real.h"
#include "common/softrdma/preload/undeclared.h"

#define CM_DEVICE "/dev/infiniband/rdma_cm"

static atomic_flag said = ATOMIC_FLAG_INIT;

static void explain(void)
{
	int error = errno;

	/* ENOSYS: there is no librdmacm, and that was said. */
	if (error == ENOSYS || access(CM_DEVICE, F_OK) == 0) {
		errno = error;
		return;
	}
	/* relaxed: nothing but the sentence depends on it */
	if (!atomic_flag_test_and_set_explicit(&said, memory_order_relaxed))
		fprintf(stderr, "softrdma: rdma_cm failed: this machine has no " CM_DEVICE
				", and soft0 does not know rdma_cm (connect by an exchange over "
				"TCP; perftest does that without -R)\n");
	errno = EOPNOTSUPP;
}

SOFT_EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *channel = SOFT_FORWARD(NULL, rdma_create_event_channel, );

	if (!channel)
		explain();
	return channel;
}

SOFT_EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
			       void *context, int port_space)
{
	int rc = SOFT_FORWARD(-1, rdma_create_id, channel, id, context, port_space);

	if (rc)
		explain();
	return rc;
}

SOFT_EXPORT int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			       struct ibv_qp_init_attr *attr)
{
	int rc = SOFT_FORWARD(-1, rdma_create_ep, id, res, pd, attr);

	if (rc)
		explain();
	return rc;
}
