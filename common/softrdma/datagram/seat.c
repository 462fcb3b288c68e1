/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Which thread receives datagrams, and when. Each index of a QP has a seat with a lock that lasts
 * as long as the process. A receiver holds it from before it takes a message out of the socket
 * until the completion is in the CQ, so messages complete in the order in which they came. Under
 * the lock the receiver checks the state, then the Q_Key, takes a receive, checks its keys, and
 * writes the memory. An owner that takes one of these back (ERR, RESET, destroy, dereg_mr) first
 * changes the state or key, then takes and drops the lock: soft_ud_fence(). An earlier receiver has
 * dropped the lock and is done; a later one sees the change, by the lock. After the fence,
 * therefore, nothing writes to the memory, and no completion comes that belongs before those of the
 * flush that follows. No holder of the lock waits for anything, so taking it takes little time.
 *
 * The service thread receives, and so does a thread that polls the CQ and finds it empty, which is
 * faster. While a CQ is polled all the time, each message would wake the service thread only to be
 * gone already. So the service thread lets the socket rest: it looks every millisecond whether the
 * polling goes on, and at once when the CQ is armed. The service thread first counts the resting
 * seat in the CQ and then looks whether the CQ is armed; arming comes first and then looks at the
 * count. Both are seq_cst, so that one sees the other.
 *
 * RTR empties the socket, so that what was sent to a former life of the QP does not arrive in this.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/softrdma/objects/qp.h"
#include "common/softrdma/datagram/seat.h"
#include "common/softrdma/process/service.h"

#define SERVICE_BATCH 16 /* messages of one QP, before the service thread looks further */
#define POLL_SOCKETS  4 /* QPs that one poll asks */
#define POLL_BATCH    8 /* messages of each */
#define POLLS_BUSY    64 /* empty polls, of each socket, in REST_NS: all the time */
#define REST_NS	      NS_PER_MS
#define DRAIN_MAX     65536 /* more than any socket holds */

static struct seat {
	struct lock lock; /* protects the rest, and receiving */
	struct soft_qp *qp;
	bool resting;
	uint32_t polls; /* of the CQ, when they were looked at last */
	uint64_t looked_ns; /* and when that was */
} seats[SHARED_QPS];

static struct {
	_Atomic uint32_t count;
	_Atomic uint64_t bits[SHARED_QPS / 64];
	uint64_t looked_ns; /* service thread */
} resting;

/* Held while a socket is opened or closed, and around fork(): the child must know all of them. */
static pthread_mutex_t sockets = PTHREAD_MUTEX_INITIALIZER;

/* Count a seat as resting or not any more. Under its lock. */
static void seat_count(struct seat *seat, bool rests)
{
	uint32_t index = seat->qp->index, one = rests ? 1 : UINT32_MAX;
	uint64_t bit = 1ull << index % 64;

	seat->resting = rests;
	if (rests)
		atomic_fetch_or(&resting.bits[index / 64], bit);
	else
		atomic_fetch_and(&resting.bits[index / 64], ~bit);
	atomic_fetch_add(&resting.count, one);
	/* seq_cst: see above */
	atomic_fetch_add(&seat->qp->recv_cq->datagrams_resting, one);
}

static void seat_wake(struct seat *seat)
{
	soft_service_datagrams_watch(seat->qp->ud->fd, seat->qp->index, true);
	seat_count(seat, false);
}

/* Is the CQ polled all the time? As it was before, if that is not long ago. Under the lock. */
static bool seat_polled(struct seat *seat, uint64_t now)
{
	uint64_t rests = (now - seat->looked_ns) / REST_NS;
	struct soft_cq *cq = seat->qp->recv_cq;
	uint32_t polls, since, turns;

	if (!rests)
		return seat->resting;
	polls = atomic_load_explicit(&cq->datagram_polls, memory_order_relaxed);
	since = polls - seat->polls;
	turns = atomic_load_explicit(&cq->datagrams, memory_order_relaxed) / POLL_SOCKETS + 1;
	seat->polls = polls;
	seat->looked_ns = now;
	return since / turns / POLLS_BUSY >= rests;
}

/* Under the lock. */
static void seat_rest(struct seat *seat)
{
	struct soft_cq *cq = seat->qp->recv_cq;

	if (!seat_polled(seat, time_now_ns()) || seat->resting)
		return;
	seat_count(seat, true);
	/* seq_cst: pairs with soft_req_notify_cq() */
	if ((atomic_load(&cq->shared->notify) & NOTIFY_ARMED) ||
	    soft_service_datagrams_watch(seat->qp->ud->fd, seat->qp->index, false) < 0)
		seat_count(seat, false);
}

static void seat_set(struct seat *seat, struct soft_qp *qp)
{
	lock_take(&seat->lock);
	if (seat->qp && seat->resting)
		seat_count(seat, false);
	seat->qp = qp;
	if (qp) {
		seat->polls = atomic_load(&qp->recv_cq->datagram_polls);
		seat->looked_ns = time_now_ns();
	}
	lock_drop(&seat->lock);
}

int soft_ud_open(struct soft_qp *qp, uint32_t qpn)
{
	struct seat *seat = &seats[qp->index];
	struct soft_ud *ud = calloc(1, sizeof(*ud));
	int rc;

	if (!ud)
		return -ENOMEM;
	qp->ud = ud;
	pthread_mutex_lock(&sockets);
	rc = ud->fd = soft_datagram_open(qpn);
	if (rc >= 0) {
		seat_set(seat, qp);
		rc = soft_service_datagrams(ud->fd, qp->index);
		if (rc < 0) {
			seat_set(seat, NULL);
			close(ud->fd);
		}
	}
	pthread_mutex_unlock(&sockets);
	if (rc < 0) {
		free(ud);
		qp->ud = NULL;
		return rc;
	}
	atomic_fetch_or(&qp->recv_cq->datagram_bits[qp->index / 64], 1ull << qp->index % 64);
	atomic_fetch_add(&qp->recv_cq->datagrams, 1);
	return 0;
}

void soft_ud_close(struct soft_qp *qp)
{
	atomic_fetch_sub(&qp->recv_cq->datagrams, 1);
	atomic_fetch_and(&qp->recv_cq->datagram_bits[qp->index / 64], ~(1ull << qp->index % 64));
	pthread_mutex_lock(&sockets);
	soft_service_forget(qp->ud->fd);
	seat_set(&seats[qp->index], NULL);
	close(qp->ud->fd);
	pthread_mutex_unlock(&sockets);
	free(qp->ud);
	qp->ud = NULL;
}

void soft_ud_fence(struct soft_qp *qp)
{
	struct seat *seat = &seats[qp->index];

	lock_take(&seat->lock);
	lock_drop(&seat->lock);
}

void soft_ud_drain(struct soft_qp *qp)
{
	struct seat *seat = &seats[qp->index];

	lock_take(&seat->lock);
	/* The oldest come first: after as many as it can hold, none is left of those from
	 * before. */
	for (unsigned i = 0; i < DRAIN_MAX; i++) {
		if (soft_datagram_receive(qp->ud->fd, &qp->ud->datagram) == -EAGAIN)
			break;
	}
	lock_drop(&seat->lock);
}

void soft_ud_service(uint32_t index)
{
	struct seat *seat = &seats[index % SHARED_QPS];

	lock_take(&seat->lock);
	if (seat->qp) {
		soft_ud_receive(seat->qp, SERVICE_BATCH);
		seat_rest(seat);
	}
	lock_drop(&seat->lock);
}

bool soft_ud_tick(void)
{
	uint64_t now;

	if (!atomic_load_explicit(&resting.count, memory_order_relaxed))
		return false;
	now = time_now_ns();
	if (now - resting.looked_ns < REST_NS)
		return true;
	resting.looked_ns = now;
	for (uint32_t word = 0; word < SHARED_QPS / 64; word++) {
		uint64_t bits = atomic_load_explicit(&resting.bits[word], memory_order_relaxed);

		for (; bits; bits &= bits - 1) {
			struct seat *seat = &seats[word * 64 + (uint32_t)__builtin_ctzll(bits)];

			lock_take(&seat->lock);
			if (seat->qp && seat->resting && !seat_polled(seat, now))
				seat_wake(seat);
			lock_drop(&seat->lock);
		}
	}
	return true;
}

/* The next QP of the CQ at or after @at, or SHARED_NONE. */
static uint32_t seat_next(struct soft_cq *cq, uint32_t at)
{
	uint64_t mask = ~0ull << at % 64;

	for (uint32_t word = at / 64; word < SHARED_QPS / 64; word++, mask = ~0ull) {
		uint64_t bits =
			atomic_load_explicit(&cq->datagram_bits[word], memory_order_relaxed) & mask;

		if (bits)
			return word * 64 + (uint32_t)__builtin_ctzll(bits);
	}
	return SHARED_NONE;
}

void soft_ud_poll(struct soft_cq *cq)
{
	uint32_t at = atomic_load_explicit(&cq->datagram_next, memory_order_relaxed) % SHARED_QPS;
	uint32_t count = atomic_load_explicit(&cq->datagrams, memory_order_relaxed);

	atomic_fetch_add_explicit(&cq->datagram_polls, 1, memory_order_relaxed);
	for (unsigned i = 0; i < POLL_SOCKETS && i < count; i++) {
		uint32_t index = seat_next(cq, at);
		struct seat *seat;

		if (index == SHARED_NONE)
			index = seat_next(cq, 0);
		if (index == SHARED_NONE)
			return;
		at = (index + 1) % SHARED_QPS;
		seat = &seats[index];
		if (!lock_try(&seat->lock))
			continue; /* somebody receives just now */
		if (seat->qp && seat->qp->recv_cq == cq)
			soft_ud_receive(seat->qp, POLL_BATCH);
		lock_drop(&seat->lock);
	}
	atomic_store_explicit(&cq->datagram_next, at, memory_order_relaxed);
}

void soft_ud_armed(struct soft_cq *cq)
{
	uint32_t index;

	for (uint32_t at = 0; at < SHARED_QPS; at = index + 1) {
		struct seat *seat;

		index = seat_next(cq, at);
		if (index == SHARED_NONE)
			return;
		seat = &seats[index];
		lock_take(&seat->lock);
		if (seat->qp && seat->qp->recv_cq == cq && seat->resting)
			seat_wake(seat);
		lock_drop(&seat->lock);
	}
}

void soft_ud_fork_lock(void)
{
	pthread_mutex_lock(&sockets);
}

void soft_ud_fork_unlock(void)
{
	pthread_mutex_unlock(&sockets);
}

void soft_ud_fork_child(void)
{
	/* A copy in the child would take messages of the parent's, and keep its names. */
	for (uint32_t i = 0; i < SHARED_QPS; i++) {
		if (seats[i].qp)
			close(seats[i].qp->ud->fd);
	}
	memset(seats, 0, sizeof(seats));
	memset(&resting, 0, sizeof(resting));
	soft_ud_fork_unlock();
}
