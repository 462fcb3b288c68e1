/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The inside of the send queue, between send.c, wait.c and fated.c. All of it holds qp->sq. */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/softrdma/faults/fate.h"
#include "common/softrdma/objects/qp.h"

#define RNR_FOR_EVER 7 /* as rnr_retry, IBTA */

/* A request in the queue's ring; its SGEs and its inline data follow. */
struct soft_send {
	struct ibv_send_wr wr;
	struct soft_ah ah; /* of a UD QP: the address handle itself need not live on */
	struct soft_fate fate; /* where soft_fates */
	/* executed, out of turn perhaps, and not yet completed; fated.c only */
	bool done;
	enum ibv_wc_status status;
	uint32_t length;
	_Alignas(struct ibv_sge) unsigned char rest[];
};

static inline struct soft_send *send_slot(struct soft_qp *qp, uint64_t at)
{
	return (struct soft_send *)(void *)(qp->sends +
					    (at & (qp->send_slots - 1)) * qp->send_size);
}

/* soft_send_done - the oldest request is over: complete it, if that was asked for. */
void soft_send_done(struct soft_qp *qp, const struct ibv_send_wr *wr, enum ibv_wc_status status,
		    uint32_t length);

/* soft_send_failed - a request failed: ERR, or SQE where the service is not reliable. Flushes. */
void soft_send_failed(struct soft_qp *qp);

/* soft_send_runs - may the oldest request be executed in the present state? */
bool soft_send_runs(struct soft_qp *qp);

/* soft_send_stall - begin, change or (STALL_NONE) end what the oldest request waits for. */
void soft_send_stall(struct soft_qp *qp, enum soft_stall stall);

/*
 * soft_wait_over - the oldest request could not be executed: @result is EXECUTE_*. Begin to wait or
 * go on waiting. Returns false to wait; otherwise *@status is that with which patience ends.
 */
bool soft_wait_over(struct soft_qp *qp, int result, enum ibv_wc_status *status);

/* soft_rnr_interval - nanoseconds between tries at a peer without receives. */
uint64_t soft_rnr_interval(struct soft_qp *qp);

/* soft_timeout - nanoseconds after which a lost request is sent again; UINT64_MAX: never. */
uint64_t soft_timeout(const struct soft_qp *qp);

/*
 * soft_fated_progress - soft_send_progress() where requests have fates. Everything that is posted
 * lies in the ring.
 */
void soft_fated_progress(struct soft_qp *qp);
