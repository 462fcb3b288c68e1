/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* READs of private memory that are posted in one list, when something is in their way. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lists.h"

static struct ibv_mr *unwritable; /* of the near memory */

enum middle {
	MIDDLE_RKEY,
	MIDDLE_LKEY,
	MIDDLE_BOUNDS,
	MIDDLE_UNMAPPED,
	MIDDLE_UNREADABLE,
	MIDDLE_UNWRITABLE,
	MIDDLES
};

/* Spoil request @at. Returns the status that it ends with. */
static enum ibv_wc_status middle_spoil(unsigned at, enum middle kind)
{
	struct ibv_wc wc;

	switch (kind) {
	case MIDDLE_RKEY:
		list.wr[at].wr.rdma.rkey ^= 1;
		return IBV_WC_REM_ACCESS_ERR;
	case MIDDLE_LKEY:
		list.sge[at].lkey ^= 1;
		return IBV_WC_LOC_PROT_ERR;
	case MIDDLE_BOUNDS:
		list.wr[at].wr.rdma.remote_addr = far.info.addr + LIST * PAGE - 63;
		return IBV_WC_REM_ACCESS_ERR;
	case MIDDLE_UNMAPPED:
		far_do(&far, FAR_CALL, place(at) / PAGE * PAGE);
		return IBV_WC_REM_OP_ERR;
	case MIDDLE_UNREADABLE:
		wc = far_do(&far, FAR_CALL, DEED_UNREADABLE);
		list.wr[at].wr.rdma.remote_addr = wc.wr_id;
		list.wr[at].wr.rdma.rkey = wc.byte_len;
		return IBV_WC_REM_ACCESS_ERR;
	default:
		list.sge[at].lkey = unwritable->lkey;
		return IBV_WC_LOC_PROT_ERR;
	}
}

/* An error in the middle: those before are done, those after are flushed and touch nothing. */
static void middle_run(unsigned at, enum middle kind)
{
	enum ibv_wc_status status;
	struct ibv_send_wr *bad;

	open_both(false, 64);
	unwritable = softrdma_reg_mr(a.pd, a.mem, a.size, IBV_ACCESS_REMOTE_READ);
	list_make(16, 0);
	status = middle_spoil(at, kind);
	for (unsigned i = 0; i < 16; i += 2)
		list.wr[i].send_flags = IBV_SEND_SIGNALED;
	list_post(0, &bad);
	for (unsigned i = 0; i < 16; i++) {
		if (i < at && i % 2 == 0)
			end_expect(a.send_cq, i, IBV_WC_SUCCESS);
		else if (i >= at)
			end_expect(a.send_cq, i, i == at ? status : IBV_WC_WR_FLUSH_ERR);
		list_check(i, i < at);
	}
	end_quiet(a.send_cq);
	assert_int_equal(end_state(&a), IBV_QPS_ERR);
	assert_ok(softrdma_dereg_mr(unwritable));
	end_close(&a);
	far_kill(&far); /* it may have more than it would give back */
}

UNIT_TEST(test_middle)
{
	static const unsigned where[] = { 0, 1, 7, 15 };

	for (enum middle kind = 0; kind < MIDDLES; kind++) {
		/* the first page was read before */
		for (unsigned i = kind == MIDDLE_UNMAPPED; i < 4; i++)
			middle_run(where[i], kind);
	}
}

/* The responder takes no READs any more. */
UNIT_TEST(test_access)
{
	struct ibv_send_wr *bad;

	open_both(false, 64);
	far_do(&far, FAR_CALL, DEED_QP_ACCESS);
	list_make(4, 0);
	list_post(0, &bad);
	end_expect(a.send_cq, 0, IBV_WC_REM_INV_REQ_ERR);
	for (unsigned i = 1; i < 4; i++)
		end_expect(a.send_cq, i, IBV_WC_WR_FLUSH_ERR);
	list_check(0, false);
	close_both();
}

/* Posted behind something that waits, they wait as well. */
UNIT_TEST(test_behind)
{
	struct ibv_send_wr *bad;
	uint64_t word, before;

	open_both(false, 64);
	memcpy(&word, (unsigned char[8]){ 0, 7, 14, 21, 28, 35, 42, 49 }, sizeof(word));
	kill(far.pid, SIGSTOP);
	waitpid(far.pid, NULL, WUNTRACED);
	assert_ok(end_atomic(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, 99, 128 * 8, far.info.addr,
			     far.info.rkey, 1, 0));
	list_make(4, IBV_SEND_SIGNALED);
	list.wr[3].wr.rdma.remote_addr = far.info.addr;
	list_post(0, &bad);
	end_quiet(a.send_cq);
	list_check(0, false);
	kill(far.pid, SIGCONT);
	end_expect(a.send_cq, 99, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 4; i++)
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	memcpy(&before, a.mem + 128 * 8, sizeof(before));
	assert_int_equal(before, word);
	memcpy(&before, a.mem + 128 * 3, sizeof(before));
	assert_int_equal(before, word + 1);
	close_both();
}

static void far_takes_back(void)
{
	far_do(&far, FAR_DEREG, 0xee);
}

static void far_to_error(void)
{
	far_do(&far, FAR_ERROR, 0xee);
}

static void far_dies(void)
{
	kill(far.pid, SIGKILL);
	waitpid(far.pid, NULL, 0);
}

/* The peer takes the region or the queue pair back, or dies, at the moment of the copy. */
UNIT_TEST(test_meanwhile)
{
	static const struct {
		void (*what)(void);
		enum ibv_wc_status status;
	} runs[] = { { far_takes_back, IBV_WC_REM_ACCESS_ERR },
		     { far_to_error, IBV_WC_RETRY_EXC_ERR },
		     { far_dies, IBV_WC_RETRY_EXC_ERR } };

	for (unsigned i = 0; i < 6; i++) {
		struct ibv_send_wr *bad;

		open_both(false, 64);
		list_make(16, IBV_SEND_SIGNALED);
		if (i < 3)
			wrap.before = runs[i].what;
		else
			wrap.after = runs[i - 3].what;
		list_post(0, &bad);
		assert_true(!wrap.before && !wrap.after);
		end_expect(a.send_cq, 0, runs[i % 3].status);
		for (unsigned k = 1; k < 16; k++)
			end_expect(a.send_cq, k, IBV_WC_WR_FLUSH_ERR);
		if (runs[i % 3].what == far_dies) {
			end_close(&a);
			close(far.to);
			close(far.from);
		} else {
			close_both();
		}
	}
}
