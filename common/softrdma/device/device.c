/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The device soft0: opening it, and what it says of itself. Its port is in port.c. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/softrdma/device/context.h"
#include "common/softrdma/device/operations.h"
#include "common/softrdma/path/progress.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/softrdma.h"

/*
 * The drivers of libibverbs tell by private members after the public ones whether a device is
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

/* 02:00:00:00:00:01 as an EUI-64, as the kernel makes it */
static const uint8_t node_guid[8] = { 0, 0, 0, 0xff, 0xfe, 0, 0, 1 };

static struct lock contexts_lock; /* protects the list */
static struct soft_context *contexts; /* open ones */

void soft_contexts_raise(enum ibv_event_type type)
{
	struct ibv_async_event event = { .element.port_num = SOFT_PORT, .event_type = type };

	lock_take(&contexts_lock);
	for (struct soft_context *c = contexts; c; c = c->next) {
		if (type == IBV_EVENT_DEVICE_FATAL) {
			atomic_store(&c->lost, true);
			soft_progress_break(&c->ex.context);
		}
		soft_async_raise(&c->ex.context, &event, NULL);
	}
	lock_drop(&contexts_lock);
}

void soft_contexts_fork_child(void)
{
	contexts_lock = (struct lock){ 0 };
	contexts = NULL;
}

static void context_forget(struct soft_context *context)
{
	struct soft_context **link = &contexts;

	lock_take(&contexts_lock);
	while (*link != context)
		link = &(*link)->next;
	*link = context->next;
	lock_drop(&contexts_lock);
}

struct ibv_device *softrdma_device(void)
{
	return &soft_device.base;
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
	soft_operations(&context->ex);
	lock_take(&contexts_lock);
	context->next = contexts;
	contexts = context;
	lock_drop(&contexts_lock);
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
	context_forget(context);
	soft_async_retire(base, NULL); /* what the program was told of the device, and never read */
	soft_process_put();
	close(base->async_fd);
	pthread_mutex_destroy(&base->mutex);
	free(context);
	return 0;
}

/* What is zero, soft0 has not. */
__be64 softrdma_device_guid(void)
{
	__be64 guid;

	memcpy(&guid, node_guid, sizeof(guid));
	return guid;
}

static void device_fill(struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){
		.fw_ver = "0.1",
		.max_mr_size = UINT64_MAX,
		.page_size_cap = ~(uint64_t)4095,
		.max_qp = SOFT_QP_MAX,
		.max_qp_wr = SOFT_WR_MAX,
		.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_CURR_QP_STATE_MOD |
				    IBV_DEVICE_SYS_IMAGE_GUID,
		.max_sge = SHARED_SGES,
		.max_sge_rd = SHARED_SGES,
		.max_cq = SHARED_CQS,
		.max_cqe = SOFT_CQE_MAX,
		.max_mr = SHARED_MRS - 1,
		.max_pd = INT32_MAX,
		.max_qp_rd_atom = SOFT_RD_ATOMIC_MAX,
		.max_res_rd_atom = SOFT_RD_ATOMIC_MAX * SOFT_QP_MAX,
		.max_qp_init_rd_atom = SOFT_RD_ATOMIC_MAX,
		.atomic_cap = IBV_ATOMIC_GLOB,
		.max_ah = INT32_MAX,
		.max_srq = SHARED_SRQS,
		.max_srq_wr = SOFT_WR_MAX,
		.max_srq_sge = SHARED_SGES,
		.max_pkeys = 1,
		.phys_port_cnt = 1,
	};
	attr->node_guid = softrdma_device_guid();
	attr->sys_image_guid = attr->node_guid;
}

int softrdma_query_device(struct ibv_context *base, struct ibv_device_attr *attr)
{
	if (!process_alive(soft_context(base)->epoch))
		return EINVAL;
	device_fill(attr);
	return 0;
}

int softrdma_query_device_ex(struct ibv_context *base,
			     const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex full = { .phys_port_cnt_ex = 1 };

	if (!process_alive(soft_context(base)->epoch) || (input && input->comp_mask) ||
	    size < offsetof(struct ibv_device_attr_ex, odp_caps))
		return EINVAL;
	device_fill(&full.orig_attr);
	full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
	memset(attr, 0, size);
	memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
	return 0;
}
