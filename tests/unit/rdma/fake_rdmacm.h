/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * librdmacm's functions, acted by a test: events come from a list, calls fail where the test says
 * so, attributes are what the test set. What must not be is asserted: an id destroyed with an event
 * that was not acknowledged, a channel destroyed with an id on it, an event looked at after its
 * acknowledgement (its memory is overwritten).
 */
#include <rdma/rdma_cma.h>

#include "common/rdma/cm.h"

#define FAKE_EVENTS_MAX 8

struct fake_event {
	enum rdma_cm_event_type type;
	int status;
	const void *data;
	uint8_t data_len;
	uint8_t initiator_depth, responder_resources;
	struct rdma_cm_id *id; /* NULL: the newest */
};

struct fake_rdmacm {
	const char *fails; /* the call that fails */
	int fails_with; /* errno */
	const char *device; /* that routes lead through; NULL: none */
	int mtu; /* enum ibv_mtu of the path */
	int extra_bits; /* in the masks */

	int channels, ids, unacknowledged; /* there are */
	unsigned connects, establishes, disconnects, accepts, rejects;
	struct rdma_conn_param param; /* of the last connect or accept */
	uint8_t private_data[256];
	struct rdma_cm_id *newest; /* id */

	struct ibv_qp_attr attr[8]; /* what modify_qp was given */
	int mask[8];
	unsigned modifies;
	int modify_fails_at; /* call; -1: none */
};

extern struct fake_rdmacm fake;

void fake_reset(void);

/* fake_push - an event that will come; resolving pushes its two by itself. */
void fake_push(struct fake_event event);

/* fake_pending - events that were not taken yet. */
unsigned fake_pending(void);

/* A queue pair in INIT on a device whose modify_qp records: MTU 4096, READ depth 16 and 12. */
void fake_qp(struct rdma_qp *out);
