/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The device soft0: one port, Ethernet, and two GIDs that are the same on every machine, since a
 * QP on soft0 reaches nothing but this machine.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/softrdma/context.h"
#include "common/softrdma/cq.h"
#include "common/softrdma/process.h"
#include "common/softrdma/qp.h"
#include "common/softrdma/softrdma.h"
#include "common/softrdma/srq.h"

#define PORT 1

/*
 * The drivers of libibverbs tell by private members behind the public ones whether a device is
 * theirs (mlx5dv_is_supported, efadv_query_device): there they find zeros.
 */
static struct {
	struct ibv_device base;
	uint64_t private_of_drivers[32];
} soft_device = { .base = {
			  .node_type = IBV_NODE_CA,
			  .transport_type = IBV_TRANSPORT_IB,
			  .name = SOFTRDMA_DEVICE_NAME,
			  .dev_name = "uverbs-" SOFTRDMA_DEVICE_NAME,
			  .dev_path = "/sys/class/infiniband_verbs/uverbs-" SOFTRDMA_DEVICE_NAME,
			  .ibdev_path = "/sys/class/infiniband/" SOFTRDMA_DEVICE_NAME,
		  } };

static const union ibv_gid gids[SOFT_GIDS] = {
	/* ::ffff:127.0.0.1 */
	{ .raw = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1 } },
	/* fe80::ff:fe00:1, from the address 02:00:00:00:00:01 */
	{ .raw = { 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1 } },
};

static const enum ibv_gid_type gid_types[SOFT_GIDS] = { IBV_GID_TYPE_ROCE_V2,
							IBV_GID_TYPE_ROCE_V1 };

const union ibv_gid *soft_gid(unsigned index)
{
	return &gids[index];
}

bool soft_gid_known(const union ibv_gid *gid)
{
	for (unsigned i = 0; i < SOFT_GIDS; i++) {
		if (memcmp(gid, &gids[i], sizeof(*gid)) == 0)
			return true;
	}
	return false;
}

struct ibv_device *softrdma_device(void)
{
	return &soft_device.base;
}

static void context_ops(struct verbs_context *ex)
{
	ex->sz = sizeof(*ex);
	ex->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	ex->context.ops.poll_cq = soft_poll_cq;
	ex->context.ops.req_notify_cq = soft_req_notify_cq;
	ex->context.ops.post_srq_recv = soft_post_srq_recv;
	ex->context.ops.post_send = soft_post_send;
	ex->context.ops.post_recv = soft_post_recv;
}

struct ibv_context *softrdma_open_device(struct ibv_device *device)
{
	struct soft_context *context;
	struct ibv_context *base;
	int rc;

	if (device != &soft_device.base) {
		errno = ENODEV;
		return NULL;
	}
	context = calloc(1, sizeof(*context));
	if (!context)
		return NULL;
	rc = soft_process_get();
	if (rc < 0)
		goto err_context;
	base = &context->ex.context;
	base->async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (base->async_fd < 0) {
		rc = -errno;
		goto err_process;
	}
	context->epoch = soft_process.epoch;
	context->last = &context->first;
	base->device = device;
	base->cmd_fd = -1;
	base->num_comp_vectors = 1;
	pthread_mutex_init(&base->mutex, NULL);
	context_ops(&context->ex);
	return base;

err_process:
	soft_process_put();
err_context:
	free(context);
	errno = -rc;
	return NULL;
}

int softrdma_close_device(struct ibv_context *base)
{
	struct soft_context *context = soft_context(base);

	if (!process_alive(context->epoch))
		return EINVAL;
	if (atomic_load(&context->objects))
		return EBUSY;
	soft_process_put();
	close(base->async_fd);
	pthread_mutex_destroy(&base->mutex);
	free(context);
	return 0;
}

int softrdma_query_device(struct ibv_context *base, struct ibv_device_attr *attr)
{
	if (!process_alive(soft_context(base)->epoch))
		return EINVAL;
	*attr = (struct ibv_device_attr){
		.fw_ver = "0.1",
		.node_guid = gids[1].global.interface_id,
		.sys_image_guid = gids[1].global.interface_id,
		.max_mr_size = UINT64_MAX,
		.page_size_cap = ~(uint64_t)4095,
		.max_qp = SOFT_QP_MAX,
		.max_qp_wr = SOFT_WR_MAX,
		.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN,
		.max_sge = SHARED_SGES,
		.max_sge_rd = SHARED_SGES,
		.max_cq = SHARED_CQS,
		.max_cqe = SOFT_CQE_MAX,
		.max_mr = SHARED_MRS - 1,
		.max_pd = INT32_MAX,
		.max_qp_rd_atom = SOFT_RD_ATOMIC_MAX,
		.max_res_rd_atom = SOFT_RD_ATOMIC_MAX * SOFT_QP_MAX,
		.max_qp_init_rd_atom = SOFT_RD_ATOMIC_MAX,
		.atomic_cap = IBV_ATOMIC_NONE,
		.max_srq = SHARED_SRQS,
		.max_srq_wr = SOFT_WR_MAX,
		.max_srq_sge = SHARED_SGES,
		.max_pkeys = 1,
		.phys_port_cnt = 1,
	};
	return 0;
}

int softrdma_query_port(struct ibv_context *base, uint8_t port, struct ibv_port_attr *attr)
{
	if (port != PORT || !process_alive(soft_context(base)->epoch))
		return EINVAL;
	*attr = (struct ibv_port_attr){
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = SOFT_GIDS,
		.port_cap_flags = IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = SOFT_MSG_MAX,
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.active_width = 1, /* 1X */
		.active_speed = 1, /* the slowest: no promise */
		.phys_state = 5, /* LinkUp */
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};
	return 0;
}

int softrdma_query_gid(struct ibv_context *base, uint8_t port, int index, union ibv_gid *gid)
{
	if (port != PORT || index < 0 || index >= SOFT_GIDS ||
	    !process_alive(soft_context(base)->epoch)) {
		errno = EINVAL;
		return -1;
	}
	*gid = gids[index];
	return 0;
}

int softrdma_query_gid_ex(struct ibv_context *base, uint32_t port, uint32_t index,
			  struct ibv_gid_entry *entry, uint32_t flags)
{
	if (port != PORT || flags || !process_alive(soft_context(base)->epoch))
		return EINVAL;
	if (index >= SOFT_GIDS)
		return ENODATA;
	*entry = (struct ibv_gid_entry){ .gid = gids[index],
					 .gid_index = index,
					 .port_num = port,
					 .gid_type = gid_types[index] };
	return 0;
}

int softrdma_query_pkey(struct ibv_context *base, uint8_t port, int index, __be16 *pkey)
{
	if (port != PORT || index != 0 || !process_alive(soft_context(base)->epoch)) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htons(0xffff);
	return 0;
}
