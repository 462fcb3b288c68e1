/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/rdma/provider.h"

#include <errno.h>
#include <stdlib.h>

#include "common/softrdma/softrdma.h"

static struct ibv_device **soft_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(struct ibv_device *));

	if (!list) {
		errno = ENOMEM;
		return NULL;
	}
	list[0] = softrdma_device();
	if (count)
		*count = 1;
	return list;
}

static void soft_free_device_list(struct ibv_device **list)
{
	free(list);
}

static const char *soft_get_device_name(struct ibv_device *device)
{
	return device->name;
}

static int soft_numa_node(struct ibv_device *device)
{
	return -1; /* memory of all nodes is alike to it */
}

static ssize_t soft_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
				    size_t max, uint32_t flags)
{
	return softrdma_query_gid_table(context, entries, max, flags, sizeof(*entries));
}

const struct rdma_provider rdma_provider_soft = {
	.name = "soft",
	.get_device_list = soft_get_device_list,
	.free_device_list = soft_free_device_list,
	.get_device_name = soft_get_device_name,
	.numa_node = soft_numa_node,
	.open_device = softrdma_open_device,
	.close_device = softrdma_close_device,
	.query_device = softrdma_query_device,
	.query_port = softrdma_query_port,
	.query_pkey = softrdma_query_pkey,
	.query_gid_ex = softrdma_query_gid_ex,
	.query_gid_table = soft_query_gid_table,
	.alloc_pd = softrdma_alloc_pd,
	.dealloc_pd = softrdma_dealloc_pd,
	.reg_mr = softrdma_reg_mr,
	.dereg_mr = softrdma_dereg_mr,
	.create_comp_channel = softrdma_create_comp_channel,
	.destroy_comp_channel = softrdma_destroy_comp_channel,
	.get_cq_event = softrdma_get_cq_event,
	.ack_cq_events = softrdma_ack_cq_events,
	.create_cq = softrdma_create_cq,
	.destroy_cq = softrdma_destroy_cq,
	.create_srq = softrdma_create_srq,
	.destroy_srq = softrdma_destroy_srq,
	.create_qp = softrdma_create_qp,
	.modify_qp = softrdma_modify_qp,
	.destroy_qp = softrdma_destroy_qp,
	.get_async_event = softrdma_get_async_event,
	.ack_async_event = softrdma_ack_async_event,
};
