/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Batches of the ibv_wr functions as a whole: all or nothing, room, threads, fork. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "batch.h"

#include "common/base/time.h"
#include "common/softrdma/objects/qp.h"

#define FAR_TOO_MANY 8192
#define WAIT_NS	     (30 * NS_PER_S)

enum mistake {
	NOT_ASKED_FOR,
	BIND_MW,
	LOCAL_INV,
	SEND_INV,
	TSO,
	ATOMIC_WRITE,
	XRC,
	ADDRESS,
	NO_DATA,
	NO_DATA_AT_END,
	TWICE,
	TWO_KINDS,
	DATA_OF_NOTHING,
	TOO_MANY_SGES,
	TOO_MANY_BY_ONE,
	TOO_MUCH_INLINE,
	TOO_MUCH_INLINE_LIST,
	INLINE_READ,
	TOO_MANY,
	MISTAKES
};

/* What soft0 has not. Returns false where @m is something else. */
static bool make_unsupported(enum mistake m, struct ibv_qp_ex *qp)
{
	switch (m) {
	case BIND_MW:
		ibv_wr_bind_mw(qp, NULL, 0, NULL);
		return true;
	case LOCAL_INV:
		ibv_wr_local_inv(qp, 1);
		return true;
	case SEND_INV:
		ibv_wr_send_inv(qp, 1);
		return true;
	case TSO:
		ibv_wr_send_tso(qp, &qp->wr_id, 1, 1);
		return true;
	case ATOMIC_WRITE:
		ibv_wr_atomic_write(qp, 1, 8, &qp->wr_id);
		return true;
	case XRC:
		ibv_wr_set_xrc_srqn(qp, 1);
		return true;
	default:
		return false;
	}
}

/* Returns the error that is due. */
static int make(enum mistake m, struct ibv_qp_ex *qp, struct end *a, struct end *b)
{
	static unsigned char data[BATCH_INLINE + 1];
	static struct ibv_data_buf bufs[FAR_TOO_MANY];
	static struct ibv_sge sges[FAR_TOO_MANY]; /* whoever copies them all, copies over others */

	if (make_unsupported(m, qp))
		return EOPNOTSUPP;
	switch (m) {
	case NOT_ASKED_FOR:
		ibv_wr_send(qp);
		ibv_wr_set_sge(qp, a->mr->lkey, a->base, 8);
		return EINVAL;
	case ADDRESS: /* not a datagram */
		ibv_wr_set_ud_addr(qp, NULL, 1, 1);
		return EINVAL;
	case NO_DATA:
		ibv_wr_rdma_write(qp, b->mr->rkey, b->base);
		batch_write(qp, a, b, 64);
		return EINVAL;
	case NO_DATA_AT_END:
		ibv_wr_rdma_write(qp, b->mr->rkey, b->base);
		return EINVAL;
	case TWICE:
		batch_write(qp, a, b, 0);
		ibv_wr_set_sge(qp, a->mr->lkey, a->base, 8);
		return EINVAL;
	case TWO_KINDS:
		batch_write(qp, a, b, 0);
		ibv_wr_set_inline_data(qp, data, 8);
		return EINVAL;
	case DATA_OF_NOTHING:
		qp->wr_start(qp); /* of a batch that is empty still: see below */
		ibv_wr_set_sge(qp, a->mr->lkey, a->base, 8);
		return EINVAL;
	case TOO_MANY_SGES:
		ibv_wr_rdma_write(qp, b->mr->rkey, b->base);
		ibv_wr_set_sge_list(qp, FAR_TOO_MANY, sges);
		return EINVAL;
	case TOO_MANY_BY_ONE:
		ibv_wr_rdma_write(qp, b->mr->rkey, b->base);
		ibv_wr_set_sge_list(qp, BATCH_SGES + 1, sges);
		return EINVAL;
	case TOO_MUCH_INLINE:
		ibv_wr_rdma_write(qp, b->mr->rkey, b->base);
		ibv_wr_set_inline_data(qp, data, BATCH_INLINE + 1);
		return EINVAL;
	case TOO_MUCH_INLINE_LIST:
		ibv_wr_rdma_write(qp, b->mr->rkey, b->base);
		for (unsigned i = 0; i < FAR_TOO_MANY; i++)
			bufs[i] = (struct ibv_data_buf){ data, BATCH_INLINE - 1 };
		ibv_wr_set_inline_data_list(qp, FAR_TOO_MANY, bufs);
		return EINVAL;
	case INLINE_READ:
		ibv_wr_rdma_read(qp, b->mr->rkey, b->base);
		ibv_wr_set_inline_data(qp, data, 8);
		return EINVAL;
	default: /* TOO_MANY, the first included */
		for (unsigned i = 0; i < BATCH_DEPTH; i++)
			batch_write(qp, a, b, 0);
		return ENOMEM;
	}
}

/* All or nothing: a good request before it, and one after it, are not executed. */
UNIT_TEST(test_mistakes)
{
	struct end a, b;
	struct ibv_qp_ex *qp =
		batch_open(&a, &b, IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ);

	memset(a.mem, 0x77, 64);
	qp->wr_flags = IBV_SEND_SIGNALED;
	for (unsigned m = 0; m < MISTAKES; m++) {
		int code;

		print_message("  %u\n", m);
		if (m != DATA_OF_NOTHING) {
			ibv_wr_start(qp);
			batch_write(qp, &a, &b, 0);
		}
		code = make((enum mistake)m, qp, &a, &b);
		if (m != NO_DATA_AT_END && m != NO_DATA)
			batch_write(qp, &a, &b, 8);
		assert_int_equal(ibv_wr_complete(qp), code);
		end_quiet(a.send_cq);
		for (unsigned i = 0; i < 128; i++)
			assert_int_equal(b.mem[i], 0);
	}
	/* the first error is the one that is told */
	ibv_wr_start(qp);
	ibv_wr_local_inv(qp, 1);
	ibv_wr_send(qp);
	assert_int_equal(ibv_wr_complete(qp), EOPNOTSUPP);
	/* and the next batch is a good one */
	ibv_wr_start(qp);
	batch_write(qp, &a, &b, 0);
	assert_ok(ibv_wr_complete(qp));
	end_expect(a.send_cq, 0, IBV_WC_SUCCESS);
	assert_int_equal(b.mem[0], 0x77);
	assert_int_equal(end_state(&a), IBV_QPS_RTS);
	pair_close(&a, &b);
}

UNIT_TEST(test_abort)
{
	struct end a, b;
	struct ibv_qp_ex *qp = batch_open(&a, &b, BATCH_OPS_RC);

	memset(a.mem, 0x77, 64);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(qp);
	batch_write(qp, &a, &b, 0);
	ibv_wr_rdma_write(qp, b.mr->rkey, b.base); /* half made */
	ibv_wr_abort(qp);
	end_quiet(a.send_cq);
	assert_int_equal(b.mem[0], 0);
	ibv_wr_start(qp);
	assert_ok(ibv_wr_complete(qp)); /* empty */
	end_quiet(a.send_cq);
	ibv_wr_start(qp);
	qp->wr_id = 4;
	batch_write(qp, &a, &b, 8);
	assert_ok(ibv_wr_complete(qp));
	end_expect(a.send_cq, 4, IBV_WC_SUCCESS);
	end_quiet(a.send_cq);
	assert_int_equal(b.mem[0], 0);
	assert_int_equal(b.mem[8], 0x77);
	pair_close(&a, &b);
}

/* The room of the send queue, and its state, decide over the whole batch. */
UNIT_TEST(test_room)
{
	struct end a, b;
	struct ibv_qp_ex *qp = batch_open(&a, &b, BATCH_OPS_RC);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	memset(a.mem, 0x77, 64);
	qp->wr_flags = IBV_SEND_SIGNALED;
	qp->wr_id = 0;
	for (unsigned i = 0; i < 3; i++)
		assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, i, 4096, 8, b.base, b.mr->rkey,
				   IBV_SEND_SIGNALED));
	ibv_wr_start(qp);
	for (unsigned i = 0; i < BATCH_DEPTH - 2; i++)
		batch_write(qp, &a, &b, i * 8);
	assert_int_equal(ibv_wr_complete(qp), ENOMEM);
	assert_int_equal(b.mem[0], 0);
	ibv_wr_start(qp);
	for (unsigned i = 0; i < BATCH_DEPTH - 3; i++)
		batch_write(qp, &a, &b, i * 8);
	assert_ok(ibv_wr_complete(qp));
	for (unsigned i = 0; i < 3; i++)
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < BATCH_DEPTH - 3; i++)
		end_expect(a.send_cq, 0, IBV_WC_SUCCESS);
	assert_int_equal(b.mem[(BATCH_DEPTH - 4) * 8], 0x77);
	/* a failed request flushes what comes after it */
	ibv_wr_start(qp);
	qp->wr_id = 1;
	ibv_wr_rdma_write(qp, b.mr->rkey ^ 1, b.base);
	ibv_wr_set_sge(qp, a.mr->lkey, a.base, 8);
	qp->wr_id = 2;
	batch_write(qp, &a, &b, 64);
	assert_ok(ibv_wr_complete(qp));
	end_expect(a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	end_expect(a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(b.mem[64], 0);
	assert_ok(softrdma_modify_qp(a.qp, &attr, IBV_QP_STATE));
	ibv_wr_start(qp);
	batch_write(qp, &a, &b, 64);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	pair_close(&a, &b);
}

/* In a batch the send queue is free: for posts in the old way, for the fence of dereg_mr. */
UNIT_TEST(test_inside)
{
	struct end a, b;
	struct ibv_qp_ex *qp = batch_open(&a, &b, BATCH_OPS_RC);

	qp->wr_flags = IBV_SEND_SIGNALED;
	qp->wr_id = 2;
	ibv_wr_start(qp);
	batch_write(qp, &a, &b, 0);
	assert_true(lock_try(&soft_qp(a.qp)->sq));
	lock_drop(&soft_qp(a.qp)->sq);
	assert_ok(
		end_rdma(&a, IBV_WR_RDMA_READ, 1, 4096, 8, b.base, b.mr->rkey, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(end_state(&a), IBV_QPS_RTS);
	assert_ok(ibv_wr_complete(qp));
	end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

/* Threads that post batches on one QP: each batch stays together. */
enum { THREADS = 3, BATCHES = 400, TOGETHER = 4 };

struct poster {
	struct ibv_qp_ex *qp;
	struct end *a, *b;
	_Atomic uint32_t *failed;
	uint64_t id, deadline;
};

static void *poster_run(void *arg)
{
	struct poster *p = arg;

	for (uint64_t i = 0; i < BATCHES;) {
		int rc;

		ibv_wr_start(p->qp);
		p->qp->wr_flags = IBV_SEND_SIGNALED;
		for (unsigned j = 0; j < TOGETHER; j++) {
			p->qp->wr_id = p->id << 32 | i << 8 | j;
			batch_write(p->qp, p->a, p->b, 8 * (size_t)p->id);
			if (i % 16 == 0)
				sched_yield();
		}
		rc = ibv_wr_complete(p->qp);
		if (rc == 0)
			i++;
		else if (rc != ENOMEM)
			atomic_fetch_add(p->failed, 1);
		if (time_now_ns() > p->deadline)
			break;
		if (rc)
			sched_yield();
	}
	return NULL;
}

UNIT_TEST(test_threads)
{
	_Atomic uint32_t failed = 0;
	uint64_t next[THREADS] = { 0 }, deadline = time_now_ns() + WAIT_NS;
	struct poster posters[THREADS];
	pthread_t threads[THREADS];
	struct end a, b;
	struct ibv_qp_ex *qp = batch_open(&a, &b, BATCH_OPS_RC);
	struct ibv_wc wc;

	for (unsigned i = 0; i < THREADS; i++) {
		posters[i] = (struct poster){
			.qp = qp, .a = &a, .b = &b, .failed = &failed, .id = i, .deadline = deadline
		};
		assert_ok(pthread_create(&threads[i], NULL, poster_run, &posters[i]));
	}
	for (unsigned n = 0; n < THREADS * BATCHES; n++) {
		uint64_t first = 0;

		for (unsigned j = 0; j < TOGETHER; j++) {
			end_wait(a.send_cq, &wc);
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			if (j == 0)
				first = wc.wr_id;
			assert_int_equal(wc.wr_id, first + j);
		}
		assert_true(first >> 32 < THREADS);
		assert_int_equal(first >> 8 & 0xffffff, next[first >> 32]++);
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert_ok(pthread_join(threads[i], NULL));
	assert_ok(atomic_load(&failed));
	end_quiet(a.send_cq);
	pair_close(&a, &b);
}

UNIT_TEST(test_forked)
{
	struct end a, b;
	struct ibv_qp_ex *qp = batch_open(&a, &b, BATCH_OPS_RC);
	int status;
	pid_t pid;

	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(qp);
	pid = fork(); /* the child has the lock of a thread that it has not */
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(10);
		ibv_wr_start(qp);
		batch_write(qp, &a, &b, 0);
		_exit(ibv_wr_complete(qp) == EINVAL ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	batch_write(qp, &a, &b, 0);
	assert_ok(ibv_wr_complete(qp));
	end_expect(a.send_cq, 0, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

int main(void)
{
	alarm(300); /* a lock that is never given back */
	return unit_run(NULL, NULL);
}
