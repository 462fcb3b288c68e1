/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Functions that are exported and that no installed header of libibverbs declares, and those of
 * librdmacm, whose headers are not needed for more than this. An enum has the size of an int.
 */
#include <infiniband/verbs.h>
#include <stddef.h>

struct rdma_addrinfo;
struct rdma_cm_id;
struct rdma_event_channel;

/* What /sys calls "IB/RoCE v1" is 0, "RoCE v2" is 1. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

struct rdma_event_channel *rdma_create_event_channel(void);
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   int port_space);
int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr);
