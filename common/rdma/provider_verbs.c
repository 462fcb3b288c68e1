/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/rdma/provider.h"

#include <stdio.h>

/* These are macros over inline functions: give them an address. */

static int verbs_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	return ibv_query_port(context, port, attr);
}

static int verbs_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
			      struct ibv_gid_entry *entry, uint32_t flags)
{
	return ibv_query_gid_ex(context, port, index, entry, flags);
}

static ssize_t verbs_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
				     size_t max, uint32_t flags)
{
	return ibv_query_gid_table(context, entries, max, flags);
}

static struct ibv_mr *verbs_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
				   unsigned int access)
{
	return ibv_reg_mr(pd, addr, length, (int)access);
}

static struct ibv_device **verbs_get_device_list(int *count)
{
	return ibv_get_device_list(count);
}

/* The kernel's answer; it says -1 as well, where the machine has one node. */
static int verbs_numa_node(struct ibv_device *device)
{
	char path[sizeof(device->ibdev_path) + 32];
	int node = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/device/numa_node", device->ibdev_path);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &node) != 1 || node < 0)
		node = -1;
	fclose(file);
	return node;
}

const struct rdma_provider rdma_provider_verbs = {
	.name = "verbs",
	.get_device_list = verbs_get_device_list,
	.free_device_list = ibv_free_device_list,
	.get_device_name = ibv_get_device_name,
	.numa_node = verbs_numa_node,
	.open_device = ibv_open_device,
	.close_device = ibv_close_device,
	.query_device = ibv_query_device,
	.query_port = verbs_query_port,
	.query_pkey = ibv_query_pkey,
	.query_gid_ex = verbs_query_gid_ex,
	.query_gid_table = verbs_query_gid_table,
	.alloc_pd = ibv_alloc_pd,
	.dealloc_pd = ibv_dealloc_pd,
	.reg_mr = verbs_reg_mr,
	.dereg_mr = ibv_dereg_mr,
	.create_comp_channel = ibv_create_comp_channel,
	.destroy_comp_channel = ibv_destroy_comp_channel,
	.get_cq_event = ibv_get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.create_cq = ibv_create_cq,
	.destroy_cq = ibv_destroy_cq,
	.create_srq = ibv_create_srq,
	.destroy_srq = ibv_destroy_srq,
	.create_qp = ibv_create_qp,
	.modify_qp = ibv_modify_qp,
	.destroy_qp = ibv_destroy_qp,
	.get_async_event = ibv_get_async_event,
	.ack_async_event = ibv_ack_async_event,
};
