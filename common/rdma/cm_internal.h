/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What both sides of the CM share: cm.h says how they work together. */
#include <rdma/rdma_cma.h>

#include "common/rdma/cm.h"

/* cm_channel - an event channel that does not block, or why there is none. */
int cm_channel(struct rdma_event_channel **out, struct error *err);

/* cm_errno - errno of a call of librdmacm that failed, as a negative value; never 0. */
int cm_errno(void);

/* cm_address_text - without the port; "?" where it has no text. */
void cm_address_text(const struct sockaddr *address, char *text, size_t cap);

/* cm_bound - read from the id which device and port it is bound to, and its peer. */
void cm_bound(struct cm *cm);
void cm_route_of(const struct rdma_cm_id *id, struct cm_route *out);

/* cm_param - the connection's parameters, as REQ and REP carry them. */
struct rdma_conn_param cm_param(const struct rdma_qp *qp, const void *data, size_t len);
