/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Completion queues: see cq.c. */
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/softrdma/device/context.h"
#include "common/softrdma/shared/lock.h"
#include "common/softrdma/shared/shared.h"

struct soft_qp;

/* A completion in the ring of the CQ itself. */
struct soft_cqe {
	struct ibv_wc wc;
	struct soft_qp *qp;
	uint64_t sent; /* of a send: this many sends of the QP are done; 0: a receive */
};

struct soft_cq {
	union {
		struct ibv_cq base;
		struct ibv_cq_ex ex;
	};
	uint32_t epoch, index;
	bool serial; /* constant: polling takes `poll`, before any other lock; see cq_ex.c */
	struct shared_cq *shared;
	struct lock lock; /* protects the ring, and base.cqe; see resize.c */
	_Atomic uint32_t head, tail; /* written under the lock */
	uint32_t mask; /* at least base.cqe places */
	struct soft_cqe *ring;
	bool passed_over; /* under the lock: receives found no room after own completions */
	_Atomic uint32_t stalled; /* QPs that send to it and wait for their peer */
	_Atomic uint32_t users; /* queues of QPs */
	_Atomic uint32_t vain; /* polls that found nothing; roughly */
	_Atomic bool overrun;
	struct soft_async_count async;
	/* UD QPs that receive to it: how many, which, whose turn it is; polls; see seat.c */
	_Atomic uint32_t datagrams, datagram_next, datagram_polls;
	_Atomic uint32_t datagrams_resting;
	_Atomic uint64_t datagram_bits[SHARED_QPS / 64];
	struct soft_cq *channel_next; /* lock of the channel */
	uint32_t comp_delivered; /* lock of the channel */
	/* extended ones, see cq_ex.c */
	struct lock poll; /* protects what ibv_cq_ex shows of the current completion */
	struct ibv_wc current;
};

static inline struct soft_cq *soft_cq(struct ibv_cq *base)
{
	return (struct soft_cq *)base;
}

/* cq_count_own - tell peers how many completions the ring holds. Under the lock. */
static inline void cq_count_own(struct soft_cq *cq, uint32_t count)
{
	/* relaxed: a limit; an old one costs a completion that came too close to it */
	atomic_store_explicit(&cq->shared->own, count, memory_order_relaxed);
}

/* What soft_cq_push() adds. */
struct soft_done {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t byte_len;
	uint64_t sent; /* see struct soft_cqe */
};

/* soft_cq_push - add a completion of @qp. An overrun loses it and raises IBV_EVENT_CQ_ERR. */
void soft_cq_push(struct soft_cq *cq, struct soft_qp *qp, const struct soft_done *done);

/* soft_cq_push_receive - add @wc, of a receive of @qp, as it is. @solicited: it or an error. */
void soft_cq_push_receive(struct soft_cq *cq, struct soft_qp *qp, const struct ibv_wc *wc,
			  bool solicited);

/* soft_cq_inbound - take the next completion of the ring of @qp. Holds cq->lock. False: none. */
bool soft_cq_inbound(struct soft_cq *cq, struct soft_qp *qp, struct ibv_wc *wc);

/* soft_cq_collect - move what stands in the ring of @qp into the ring of the CQ. */
void soft_cq_collect(struct soft_cq *cq, struct soft_qp *qp);

/* soft_cq_forget - drop all completions of @qp. */
void soft_cq_forget(struct soft_cq *cq, struct soft_qp *qp);

/* soft_cq_overrun - raise the event, once. */
void soft_cq_overrun(struct soft_cq *cq);

/* soft_cq_notify_slow - see cq_notify(). */
void soft_cq_notify_slow(struct shared_cq *cq, int fd, bool solicited);

/*
 * cq_notify - after a completion became visible: if the CQ is armed, fire. Of our own CQ or a
 * peer's. @fd: eventfd of its channel. @solicited: a solicited one or an error.
 */
static inline void cq_notify(struct shared_cq *cq, int fd, bool solicited)
{
	/* seq_cst: pairs with soft_req_notify_cq(), either side sees the other */
	if (atomic_load(&cq->notify) & NOTIFY_ARMED)
		soft_cq_notify_slow(cq, fd, solicited);
}

/* soft_cq_poll - as ibv_poll_cq(), but takes no `poll`. The CQ is of this process. */
int soft_cq_poll(struct soft_cq *cq, int count, struct ibv_wc *wc);

int soft_poll_cq(struct ibv_cq *base, int count, struct ibv_wc *wc);
int soft_req_notify_cq(struct ibv_cq *base, int solicited_only);
