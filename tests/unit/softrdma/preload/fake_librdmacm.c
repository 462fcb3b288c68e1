/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* A librdmacm whose functions fail as on a machine without rdma_cm, or work where FAKE_CM_WORKS. */
#include <errno.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void *rdma_create_event_channel(void);
EXPORT int rdma_create_id(void *channel, void **id, void *context, int port_space);
EXPORT int rdma_create_ep(void **id, void *res, void *pd, void *attr);

static int channel_of_fake;

static int result(void)
{
	errno = ENODEV;
	return getenv("FAKE_CM_WORKS") ? 0 : -1;
}

void *rdma_create_event_channel(void)
{
	return result() ? NULL : &channel_of_fake;
}

int rdma_create_id(void *channel, void **id, void *context, int port_space)
{
	*id = channel;
	return result();
}

int rdma_create_ep(void **id, void *res, void *pd, void *attr)
{
	*id = res;
	return result();
}
