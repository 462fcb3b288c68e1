/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What the process that is asked for an atomic checks before it obeys: all that the initiator has
 * checked, since it may have changed, and that the initiator may be broken. Changes what it finds
 * while nobody attends to its queue pair.
 */
#include <assert.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/softrdma/objects/qp.h"
#include "ends.h"
#include "words.h"

#define PATIENT	 20 /* timeout: 4 seconds, 8 times */
#define EVENT_MS 2000
#define PAGE	 4096

/* What the far end does when called. */
enum deed {
	DEED_HOLD, /* from now on nobody attends to the QP */
	DEED_WORD, /* the word at 0 comes back, in wr_id */
	DEED_EVENT, /* type of the next event and 1, in byte_len, or 0 */
	/* then attend to the QP again */
	DEED_GO,
	DEED_QP_ACCESS,
	DEED_QP_RD_ATOMIC,
	DEED_MR_KEY,
	DEED_MR_LENGTH,
	DEED_MR_ACCESS,
	DEED_MR_PD,
	DEED_MR_SHIFT,
	DEED_UNMAP,
	DEED_PROTECT,
};

static void deed_spoil(struct end *end, enum deed deed)
{
	struct shared_qp *qp = soft_qp(end->qp)->shared;
	struct shared_mr *mr = own_mr(end->mr->rkey);

	switch (deed) {
	case DEED_QP_ACCESS:
		atomic_store(&qp->access, END_ALL & ~IBV_ACCESS_REMOTE_ATOMIC);
		break;
	case DEED_QP_RD_ATOMIC:
		atomic_store(&qp->rd_atomic, 0);
		break;
	case DEED_MR_KEY:
		atomic_fetch_xor(&mr->word, 1);
		break;
	case DEED_MR_LENGTH:
		atomic_store(&mr->length, 7);
		break;
	case DEED_MR_ACCESS:
		atomic_store(&mr->access, END_ALL & ~IBV_ACCESS_REMOTE_ATOMIC);
		break;
	case DEED_MR_PD:
		atomic_fetch_add(&mr->pd, 1);
		break;
	case DEED_MR_SHIFT:
		atomic_store(&mr->shift, 4);
		break;
	case DEED_UNMAP:
		assert(munmap(end->mem, PAGE) == 0);
		break;
	case DEED_PROTECT:
		assert(mprotect(end->mem, PAGE, PROT_READ) == 0);
		break;
	default:
		break;
	}
}

static uint32_t deed_event(struct end *end)
{
	struct pollfd look = { .fd = end->context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&look, 1, EVENT_MS) != 1)
		return 0;
	assert(softrdma_get_async_event(end->context, &event) == 0);
	softrdma_ack_async_event(&event);
	return (uint32_t)event.event_type + 1;
}

static struct ibv_wc deed_do(struct end *end, uint64_t deed)
{
	struct soft_qp *qp = soft_qp(end->qp);

	switch (deed) {
	case DEED_HOLD:
		lock_take(&qp->sq);
		break;
	case DEED_WORD:
		return peek_word(end, 0);
	case DEED_EVENT:
		return (struct ibv_wc){ .byte_len = deed_event(end) };
	default:
		deed_spoil(end, (enum deed)deed);
		lock_drop(&qp->sq); /* the service thread tries each millisecond */
		break;
	}
	return (struct ibv_wc){ .byte_len = 0 };
}

static void ask_held(struct end *a, struct far *far)
{
	struct end_options near = { .timeout = PATIENT }, other = { .call = deed_do };

	far_start(far, &other);
	end_open(a, &near);
	far_connect(far, a);
	far_do(far, FAR_CALL, DEED_HOLD);
	assert_ok(end_atomic(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8, far->info.addr, far->info.rkey,
			     1, 0));
}

static uint64_t far_word(struct far *far)
{
	return far_do(far, FAR_CALL, DEED_WORD).wr_id;
}

/* What the responder checks itself, since it may have changed since the initiator looked. */
UNIT_TEST(test_checks)
{
	const struct {
		enum deed deed;
		enum ibv_wc_status status;
		uint32_t event; /* and 1 */
	} runs[] = {
		{ DEED_GO, IBV_WC_SUCCESS, 0 },
		{ DEED_QP_ACCESS, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR + 1 },
		{ DEED_QP_RD_ATOMIC, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR + 1 },
		{ DEED_MR_KEY, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR + 1 },
		{ DEED_MR_LENGTH, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR + 1 },
		{ DEED_MR_ACCESS, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR + 1 },
		{ DEED_MR_PD, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR + 1 },
		{ DEED_MR_SHIFT, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR + 1 },
		{ DEED_UNMAP, IBV_WC_REM_OP_ERR, 0 },
		{ DEED_PROTECT, IBV_WC_REM_OP_ERR, 0 },
	};

	for (unsigned i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		bool good = runs[i].status == IBV_WC_SUCCESS;
		struct far far;
		struct end a;

		ask_held(&a, &far);
		far_do(&far, FAR_CALL, runs[i].deed);
		end_expect(a.send_cq, 1, runs[i].status);
		assert_int_equal(far_do(&far, FAR_QUERY, 0).byte_len,
				 good ? IBV_QPS_RTS : IBV_QPS_ERR);
		if (runs[i].event)
			assert_int_equal(far_do(&far, FAR_CALL, DEED_EVENT).byte_len,
					 runs[i].event);
		if (runs[i].deed != DEED_UNMAP)
			assert_int_equal(far_word(&far), good);
		far_pair_close(&far, &a);
	}
}

/* An ask that no initiator of this build would make. */
UNIT_TEST(test_nonsense)
{
	for (unsigned run = 0; run < 3; run++) {
		struct shared_ask *ask;
		struct far far;
		struct end a;

		ask_held(&a, &far);
		ask = &soft_qp(a.qp)->shared->ask;
		if (run == 0)
			atomic_store(&ask->opcode, IBV_WR_RDMA_READ);
		else if (run == 1)
			atomic_store(&ask->addr, far.info.addr + 4);
		else
			atomic_store(&ask->rkey, UINT32_MAX);
		far_do(&far, FAR_CALL, DEED_GO);
		end_expect(a.send_cq, 1, run == 2 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_INV_REQ_ERR);
		assert_ok(far_word(&far));
		far_pair_close(&far, &a);
	}
}
