/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Atomics are one atomic instruction of a processor on the word itself, seq_cst. So they are atomic
 * with those of other queue pairs, of other processes, and with what the owner's threads do to the
 * word: IBV_ATOMIC_GLOB.
 *
 * Where the word is mapped here, the initiator executes the instruction, marked busy like other
 * writers (fence.c). Where it lies in private memory of the peer no system call can do it, so the
 * initiator asks, and the peer's process executes. The ask is in the arena of the initiator, the
 * answer in that of the responder, both with the queue pair that they belong to:
 *
 *	initiator				responder
 *	fields of the ask, number = odd		number, fields, number again: the same
 *	    (release)				    (acquire)
 *	bit in the responder's arena, kick	number not answered: check, execute
 *						answer, answered = number    (release)
 *	answered == number: take the answer	kick
 *	    (acquire)
 *	number = even				a failure: ERR
 *
 * 1. Once: the responder executes a number when it differs from the one answered last, holding the
 *    sq lock of its queue pair, and calls it answered before it drops the lock. The number names
 *    the life of the responder's queue pair too: a RESET there voids it.
 * 2. No wrong answer: numbers grow as long as the initiator's arena exists, whoever has the queue
 *    pair's place. An answer counts only if after it was read the responder's queue pair is still
 *    in the life that was asked, so nobody else was answered there in between.
 * 3. What is given up (patience has ended, RESET, destruction) is not executed later, because its
 *    number becomes even; a responder that was stopped after it had read the number may still
 *    execute it. The initiator then tells of an error or of nothing, as when a reply is lost.
 * 4. Taking memory back: the responder reads state and key under its own sq lock and under walk.
 *    dereg_mr takes the key back and then waits for both (soft_fence_all()); ERR, RESET and destroy
 *    hold the sq lock.
 * 5. Progress: nobody waits. The initiator's request stays at the head of its send queue, others
 *    after it, and is tried again until the transport's patience ends, as with silent hardware.
 */
#include "common/softrdma/path/atomic.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/softrdma/path/copy.h"
#include "common/softrdma/path/progress.h"

#define WORD sizeof(uint64_t)

static bool aligned(uint64_t addr)
{
	return addr % WORD == 0;
}

/*
 * Returns the value before. Not seen by ThreadSanitizer, as those of hardware are not: what orders
 * it with the owner's threads is in another process.
 */
static uint64_t operate(void *word, bool add, uint64_t compare_add, uint64_t swap)
	__attribute__((no_sanitize("thread")));

static uint64_t operate(void *word, bool add, uint64_t compare_add, uint64_t swap)
{
	uint64_t *at = word;

	/* seq_cst, as a program's own atomics are by default: it may build any protocol on them */
	if (add)
		return __atomic_fetch_add(at, compare_add, __ATOMIC_SEQ_CST);
	__atomic_compare_exchange_n(at, &compare_add, swap, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return compare_add;
}

/* The initiator. */

static void ask(struct soft_qp *qp, const struct ibv_send_wr *wr, uint64_t word)
{
	struct shared_ask *ask = &qp->shared->ask;
	uint64_t number = atomic_load_explicit(&ask->number, memory_order_relaxed);

	/* release: a reader of one of these sees that the number before was withdrawn */
	atomic_store_explicit(&ask->word, word, memory_order_release);
	atomic_store_explicit(&ask->addr, wr->wr.atomic.remote_addr, memory_order_release);
	atomic_store_explicit(&ask->compare_add, wr->wr.atomic.compare_add, memory_order_release);
	atomic_store_explicit(&ask->swap, wr->wr.atomic.swap, memory_order_release);
	atomic_store_explicit(&ask->rkey, wr->wr.atomic.rkey, memory_order_release);
	atomic_store_explicit(&ask->opcode, wr->opcode, memory_order_release);
	/* release: pairs with the acquire in asked(): the fields */
	atomic_store_explicit(&ask->number, number + 1, memory_order_release);
	qp->asked = word;
	soft_remote_attention(qp);
}

void soft_atomic_withdraw(struct soft_qp *qp)
{
	struct shared_ask *ask = &qp->shared->ask;

	if (!qp->asked)
		return;
	qp->asked = 0;
	atomic_store_explicit(&ask->number,
			      atomic_load_explicit(&ask->number, memory_order_relaxed) + 1,
			      memory_order_release);
}

/* The life and number of a queue pair: all of its word but the state. */
static bool same_life(uint64_t a, uint64_t b)
{
	return (a ^ b) < 0x100;
}

/* A status out of a peer's arena. */
static int answer_status(uint32_t status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		return (int)status;
	default:
		return IBV_WC_REM_OP_ERR;
	}
}

/* The peer was asked: what does it say? Returns a status or EXECUTE_ASKED. */
static int answer(struct soft_qp *qp, uint64_t *before)
{
	uint64_t number = atomic_load_explicit(&qp->shared->ask.number, memory_order_relaxed);
	uint64_t word = 0;
	/* First: a responder that fails a request answers before it goes to ERR. */
	int rc = soft_responder(qp, &word), status;

	/* acquire: pairs with the release in soft_atomic_attend(): the answer and what it is
	 * from */
	if (atomic_load_explicit(&qp->remote->answered, memory_order_acquire) != number)
		return rc == IBV_WC_SUCCESS && same_life(word, qp->asked) ? EXECUTE_ASKED
									  : IBV_WC_RETRY_EXC_ERR;
	*before = atomic_load_explicit(&qp->remote->answer, memory_order_relaxed);
	status = answer_status(
		atomic_load_explicit(&qp->remote->answer_status, memory_order_relaxed));
	/* acquire: pairs with the release of an answer that is given in another life */
	fence_loads();
	word = atomic_load_explicit(&qp->remote->word, memory_order_relaxed);
	return same_life(word, qp->asked) ? status : IBV_WC_RETRY_EXC_ERR;
}

/* Check, and execute where the word is mapped here. Marked busy. Status or EXECUTE_ASKED. */
static int atomic_execute(struct soft_qp *qp, const struct ibv_send_wr *wr, uint64_t *before,
			  struct soft_found *found)
{
	uint32_t pd = atomic_load_explicit(&qp->remote->pd, memory_order_relaxed);
	struct soft_remote remote;

	if (!(atomic_load_explicit(&qp->remote->access, memory_order_relaxed) &
	      IBV_ACCESS_REMOTE_ATOMIC) ||
	    !atomic_load_explicit(&qp->remote->rd_atomic, memory_order_relaxed) ||
	    !aligned(wr->wr.atomic.remote_addr)) {
		soft_remote_fail(qp, IBV_EVENT_QP_REQ_ERR);
		return IBV_WC_REM_INV_REQ_ERR;
	}
	if (!soft_remote_resolve(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, WORD,
				 IBV_ACCESS_REMOTE_ATOMIC, pd, &remote)) {
		soft_remote_fail(qp, IBV_EVENT_QP_ACCESS_ERR);
		return IBV_WC_REM_ACCESS_ERR;
	}
	if (!remote.mapped)
		return EXECUTE_ASKED;
	if (!aligned((uintptr_t)remote.mapped)) { /* a region at an odd address of its own */
		soft_remote_fail(qp, IBV_EVENT_QP_REQ_ERR);
		return IBV_WC_REM_INV_REQ_ERR;
	}
	found_add(found, remote.mr, remote.word);
	*before = operate(remote.mapped, wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD,
			  wr->wr.atomic.compare_add, wr->wr.atomic.swap);
	return IBV_WC_SUCCESS;
}

static int atomic_begin(struct soft_qp *qp, const struct ibv_send_wr *wr, uint64_t *before)
{
	uint64_t busy = soft_busy_begin(qp);
	struct soft_found found;
	int rc;

	found.regions = 0;
	found.refused = IBV_WC_REM_ACCESS_ERR;
	rc = soft_responder(qp, &found.qp);
	if (rc == IBV_WC_SUCCESS)
		rc = atomic_execute(qp, wr, before, &found);
	rc = soft_busy_end(qp, busy, &found, rc);
	if (rc == IBV_WC_SUCCESS && peer_dead(qp->peer)) /* which gives nothing up */
		rc = IBV_WC_RETRY_EXC_ERR;
	if (rc == EXECUTE_ASKED)
		ask(qp, wr, found.qp);
	return rc;
}

int soft_atomic(struct soft_qp *qp, const struct ibv_send_wr *wr, struct soft_local *local)
{
	uint64_t before = 0;
	size_t at = 0;
	int rc;

	if (local->total != WORD)
		return IBV_WC_LOC_LEN_ERR;
	if (!qp->rd_atomic)
		return IBV_WC_LOC_QP_OP_ERR;
	rc = qp->asked ? answer(qp, &before) : atomic_begin(qp, wr, &before);
	if (rc != EXECUTE_ASKED)
		soft_atomic_withdraw(qp); /* it is over: the next one asks again */
	if (rc != IBV_WC_SUCCESS)
		return rc;
	for (unsigned i = 0; i < local->pieces; i++) {
		soft_copy_to(local->piece[i].iov_base, (unsigned char *)&before + at,
			     local->piece[i].iov_len);
		at += local->piece[i].iov_len;
	}
	return IBV_WC_SUCCESS;
}

/* The responder. */

struct asked {
	uint64_t number, word, addr, compare_add, swap;
	uint32_t rkey, opcode;
};

/* Read what the peer asks of @qp. Returns false where there is nothing to do. */
static bool asked(struct soft_qp *qp, struct asked *out)
{
	struct shared_ask *ask = &qp->remote->ask;

	/* acquire: pairs with the release of the number in ask(): the fields */
	out->number = atomic_load_explicit(&ask->number, memory_order_acquire);
	if (out->number % 2 == 0 ||
	    out->number == atomic_load_explicit(&qp->shared->answered, memory_order_relaxed))
		return false;
	out->word = atomic_load_explicit(&ask->word, memory_order_relaxed);
	out->addr = atomic_load_explicit(&ask->addr, memory_order_relaxed);
	out->compare_add = atomic_load_explicit(&ask->compare_add, memory_order_relaxed);
	out->swap = atomic_load_explicit(&ask->swap, memory_order_relaxed);
	out->rkey = atomic_load_explicit(&ask->rkey, memory_order_relaxed);
	out->opcode = atomic_load_explicit(&ask->opcode, memory_order_relaxed);
	/*
	 * acquire: pairs with the release of the fields in ask(): none is of a later ask. It is
	 * ours if it names our queue pair: the asker has seen that both are connected.
	 */
	fence_loads();
	return atomic_load_explicit(&ask->number, memory_order_relaxed) == out->number &&
	       same_life(out->word, atomic_load(&qp->shared->word));
}

/*
 * Is there memory still, and may it be written? Hardware would hold on to it; here a
 * process that unmapped it too early at least survives. Adds 0 to half of the word, through the
 * kernel, which gets no signal; where that half holds 2047, a futex waiter on it may wake for
 * nothing.
 */
static bool writable(uint64_t addr)
{
	static uint32_t nobody;

	return syscall(SYS_futex, &nobody, FUTEX_WAKE_OP_PRIVATE, 0, NULL, (uintptr_t)addr,
		       FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 2047)) >= 0 ||
	       errno != EFAULT;
}

/* Check and execute. Returns a status; *@event: of a failure, or -1. */
static int serve(struct soft_qp *qp, const struct asked *a, uint64_t *before, int *event)
{
	struct shared_mr *mr = own_mr(a->rkey);
	uint64_t mr_word;
	bool add = a->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	uint64_t at;

	*event = IBV_EVENT_QP_REQ_ERR;
	if ((!add && a->opcode != IBV_WR_ATOMIC_CMP_AND_SWP) || !aligned(a->addr) ||
	    !(atomic_load(&qp->shared->access) & IBV_ACCESS_REMOTE_ATOMIC) ||
	    !atomic_load(&qp->shared->rd_atomic))
		return IBV_WC_REM_INV_REQ_ERR;
	*event = IBV_EVENT_QP_ACCESS_ERR;
	mr_word = mr_covers(mr, a->rkey, a->addr, WORD, IBV_ACCESS_REMOTE_ATOMIC, qp->pd);
	if (!mr_word)
		return IBV_WC_REM_ACCESS_ERR;
	at = a->addr + atomic_load_explicit(&mr->shift, memory_order_relaxed);
	/* The fields count if the entry has not changed hands. seq_cst: pairs with dereg_mr. */
	fence_loads();
	if (atomic_load(&mr->word) != mr_word)
		return IBV_WC_REM_ACCESS_ERR;
	*event = IBV_EVENT_QP_REQ_ERR;
	if (!aligned(at))
		return IBV_WC_REM_INV_REQ_ERR;
	*event = -1;
	if (!writable(at))
		return IBV_WC_REM_OP_ERR;
	*before = operate((void *)(uintptr_t)at, add, a->compare_add, a->swap);
	return IBV_WC_SUCCESS;
}

void soft_atomic_attend(struct soft_qp *qp)
{
	uint64_t before = 0;
	int status, event;
	struct asked a;

	if (!qp->peer || peer_dead(qp->peer) || !qp_receives(qp_state(qp)) || !asked(qp, &a))
		return;
	status = serve(qp, &a, &before, &event);
	/* release: pairs with the fence in answer(), of whoever was answered in a life before */
	atomic_store_explicit(&qp->shared->answer, before, memory_order_release);
	atomic_store_explicit(&qp->shared->answer_status, (uint32_t)status, memory_order_release);
	/* release: pairs with the acquire in answer() */
	atomic_store_explicit(&qp->shared->answered, a.number, memory_order_release);
	soft_kick(qp->peer->kick_fd);
	if (status == IBV_WC_SUCCESS)
		return;
	if (event >= 0)
		atomic_store(&qp->shared->async_event, (uint32_t)event + 1);
	soft_qp_error(qp);
}
