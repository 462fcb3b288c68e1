/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * soft0: a software RDMA device, for machines without RDMA hardware.
 *
 * Works between processes of one machine, without kernel modules and without privileges. It is a
 * stand-in for development and tests: what it measures is memory copies, not RDMA, and since the
 * processes share memory its rkey checks catch bugs and are no security.
 *
 * Objects are the public structs of <infiniband/verbs.h>; ibv_post_send(), ibv_post_recv(),
 * ibv_post_srq_recv(), ibv_poll_cq() and ibv_req_notify_cq() work on them as they are, through
 * context->ops. The functions below stand for the control functions of libibverbs, with its
 * conventions: a pointer or NULL with errno set; 0 or a positive errno; -1 where verbs says so.
 * Their meaning is that of the man page of the same name. Any thread may call any of them.
 */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <sys/types.h>

#define SOFTRDMA_DEVICE_NAME "soft0"

/* softrdma_device - the device, static. Never NULL. */
struct ibv_device *softrdma_device(void);

/* softrdma_device_guid - node GUID, in network byte order. The same on every machine. */
__be64 softrdma_device_guid(void);

/* softrdma_owns - does the context belong to soft0? Of any process state; @context not NULL. */
static inline bool softrdma_owns(const struct ibv_context *context)
{
	return context->device == softrdma_device();
}

struct ibv_context *softrdma_open_device(struct ibv_device *device);
int softrdma_close_device(struct ibv_context *context);

int softrdma_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
/* softrdma_query_device_ex - @input may be NULL; fills the first @size bytes of @attr. */
int softrdma_query_device_ex(struct ibv_context *context,
			     const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t size);
int softrdma_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
int softrdma_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
/* softrdma_query_gid_ex - ENODATA past the end of the table. */
int softrdma_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
			  struct ibv_gid_entry *entry, uint32_t flags);
/* softrdma_query_gid_table - returns the number of entries, or a negative errno. */
ssize_t softrdma_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
				 size_t max, uint32_t flags, size_t entry_size);
int softrdma_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
int softrdma_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey);

struct ibv_pd *softrdma_alloc_pd(struct ibv_context *context);
int softrdma_dealloc_pd(struct ibv_pd *pd);

struct ibv_mr *softrdma_reg_mr(struct ibv_pd *pd, void *addr, size_t length, unsigned int access);
struct ibv_mr *softrdma_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				    unsigned int access);
/*
 * softrdma_rereg_mr - returns 0, and the keys are others; or IBV_REREG_MR_ERR_INPUT with errno set,
 * and the region is as it was.
 */
int softrdma_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		      int access);
int softrdma_dereg_mr(struct ibv_mr *mr);

struct ibv_ah *softrdma_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int softrdma_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
			     struct ibv_grh *grh, struct ibv_ah_attr *attr);
struct ibv_ah *softrdma_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
					  uint8_t port);
int softrdma_destroy_ah(struct ibv_ah *ah);

struct ibv_comp_channel *softrdma_create_comp_channel(struct ibv_context *context);
int softrdma_destroy_comp_channel(struct ibv_comp_channel *channel);
int softrdma_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void softrdma_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

struct ibv_cq *softrdma_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				  struct ibv_comp_channel *channel, int comp_vector);
struct ibv_cq_ex *softrdma_create_cq_ex(struct ibv_context *context,
					struct ibv_cq_init_attr_ex *attr);
/* softrdma_resize_cq - to exactly @cqe. EINVAL where more than that are in it. */
int softrdma_resize_cq(struct ibv_cq *cq, int cqe);
int softrdma_destroy_cq(struct ibv_cq *cq);

struct ibv_srq *softrdma_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
struct ibv_srq *softrdma_create_srq_ex(struct ibv_context *context,
				       struct ibv_srq_init_attr_ex *attr);
int softrdma_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int softrdma_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int softrdma_destroy_srq(struct ibv_srq *srq);

struct ibv_qp *softrdma_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *softrdma_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
/* softrdma_qp_to_qp_ex - NULL where the QP was created without send_ops_flags. */
struct ibv_qp_ex *softrdma_qp_to_qp_ex(struct ibv_qp *qp);
int softrdma_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int softrdma_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		      struct ibv_qp_init_attr *init_attr);
int softrdma_destroy_qp(struct ibv_qp *qp);

int softrdma_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void softrdma_ack_async_event(struct ibv_async_event *event);
