/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Extended completion queues: what may be asked for, polling in batches, and which side waits. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"

#include "common/base/time.h"

#define WAIT_NS	  (20 * NS_PER_S)
#define FOR_EVER  7
#define SETTLE_US 100000

static const struct end_options extended = { .cq_ex = true, .rnr_retry = FOR_EVER };

static struct ibv_cq_ex *ex(struct ibv_cq *cq)
{
	return (struct ibv_cq_ex *)cq;
}

UNIT_TEST(test_create)
{
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	const struct ibv_cq_init_attr_ex good = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
	const struct {
		struct ibv_cq_init_attr_ex attr;
		int code;
	} bad[] = {
		{ { .cqe = 0 }, EINVAL },
		{ { .cqe = 32769 }, EINVAL },
		{ { .cqe = UINT32_MAX }, EINVAL },
		{ { .cqe = 16, .comp_vector = 1 }, EINVAL },
		{ { .cqe = 16, .comp_vector = UINT32_MAX }, EINVAL },
		{ { .cqe = 16, .comp_mask = 1u << 2 }, EINVAL },
		{ { .cqe = 16, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD }, EOPNOTSUPP },
		{ { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP }, EOPNOTSUPP },
		{ { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK },
		  EOPNOTSUPP },
		{ { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_CVLAN }, EOPNOTSUPP },
		{ { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG }, EOPNOTSUPP },
		{ { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_TM_INFO }, EOPNOTSUPP },
		{ { .cqe = 16, .wc_flags = 1ull << 40 }, EOPNOTSUPP },
		{ { .cqe = 16,
		    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		    .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN },
		  EOPNOTSUPP },
	};
	struct ibv_cq_init_attr_ex attr = good;
	struct ibv_cq_ex *cq;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		attr = bad[i].attr;
		errno = 0;
		assert_null(softrdma_create_cq_ex(context, &attr));
		assert_int_equal(errno, bad[i].code);
	}
	attr = good;
	attr.flags = UINT32_MAX; /* not valid, so not looked at */
	attr.cq_context = &attr;
	cq = ibv_create_cq_ex(context, &attr); /* through the operation */
	assert_non_null(cq);
	assert_int_equal(cq->cqe, 16);
	assert_ptr_equal(cq->cq_context, &attr);
	assert_ptr_equal(cq->context, context);
	assert_true(cq->read_byte_len && cq->read_imm_data && cq->read_qp_num && cq->read_src_qp &&
		    cq->read_slid && cq->read_sl && cq->read_dlid_path_bits);
	assert_ok(softrdma_destroy_cq(ibv_cq_ex_to_cq(cq)));
	/* what was not asked for is not there */
	attr.wc_flags = IBV_WC_EX_WITH_SRC_QP;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	cq = softrdma_create_cq_ex(context, &attr);
	assert_non_null(cq);
	assert_true(cq->start_poll && cq->next_poll && cq->end_poll && cq->read_opcode &&
		    cq->read_vendor_err && cq->read_wc_flags && cq->read_src_qp);
	assert_false(cq->read_byte_len || cq->read_imm_data || cq->read_qp_num || cq->read_slid ||
		     cq->read_sl || cq->read_dlid_path_bits || cq->read_completion_ts ||
		     cq->read_completion_wallclock_ns || cq->read_cvlan || cq->read_flow_tag ||
		     cq->read_tm_info);
	assert_ok(softrdma_destroy_cq(ibv_cq_ex_to_cq(cq)));
	assert_ok(softrdma_close_device(context));
}

static void start_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_poll_cq_attr attr = { .comp_mask = 0 };

	assert_ok(ibv_start_poll(ex(cq), &attr));
	assert_int_equal(ex(cq)->wr_id, wr_id);
	assert_int_equal(ex(cq)->status, status);
}

static void next_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	assert_ok(ibv_next_poll(ex(cq)));
	assert_int_equal(ex(cq)->wr_id, wr_id);
	assert_int_equal(ex(cq)->status, status);
}

UNIT_TEST(test_empty)
{
	struct ibv_poll_cq_attr attr = { .comp_mask = 1 };
	struct end a, b;

	pair_open(&a, &b, &extended, &extended);
	assert_int_equal(ibv_start_poll(ex(a.send_cq), NULL), ENOENT);
	/* nothing is left locked */
	end_quiet(a.send_cq);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, (uintptr_t)b.mem, b.mr->rkey,
			   IBV_SEND_SIGNALED));
	assert_int_equal(ibv_start_poll(ex(a.send_cq), &attr), EINVAL);
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

UNIT_TEST(test_fields)
{
	struct end a, b;

	pair_open(&a, &b, &extended, &extended);
	assert_ok(end_recv(&b, 7, 0, 64));
	assert_ok(end_recv(&b, 8, 0, 64));
	assert_ok(end_rdma(&a, IBV_WR_SEND_WITH_IMM, 5, 0, 40, 0, 0, IBV_SEND_SIGNALED));
	start_expect(b.recv_cq, 7, IBV_WC_SUCCESS);
	assert_int_equal(ibv_wc_read_opcode(ex(b.recv_cq)), IBV_WC_RECV);
	assert_int_equal(ibv_wc_read_byte_len(ex(b.recv_cq)), 40);
	assert_int_equal(ibv_wc_read_imm_data(ex(b.recv_cq)), 0x12345678);
	assert_int_equal(ibv_wc_read_wc_flags(ex(b.recv_cq)), IBV_WC_WITH_IMM);
	assert_int_equal(ibv_wc_read_qp_num(ex(b.recv_cq)), b.qp->qp_num);
	assert_int_equal(ibv_wc_read_src_qp(ex(b.recv_cq)), a.qp->qp_num);
	assert_ok(ibv_wc_read_vendor_err(ex(b.recv_cq)));
	assert_ok(ibv_wc_read_slid(ex(b.recv_cq)));
	assert_ok(ibv_wc_read_sl(ex(b.recv_cq)));
	assert_ok(ibv_wc_read_dlid_path_bits(ex(b.recv_cq)));
	ibv_end_poll(ex(b.recv_cq));
	start_expect(a.send_cq, 5, IBV_WC_SUCCESS);
	assert_int_equal(ibv_wc_read_opcode(ex(a.send_cq)), IBV_WC_SEND);
	assert_int_equal(ibv_wc_read_qp_num(ex(a.send_cq)), a.qp->qp_num);
	ibv_end_poll(ex(a.send_cq));
	assert_ok(end_to(&b, IBV_QPS_ERR));
	start_expect(b.recv_cq, 8, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ibv_wc_read_qp_num(ex(b.recv_cq)), b.qp->qp_num);
	ibv_end_poll(ex(b.recv_cq));
	pair_close(&a, &b);
}

/* Batches, single ones by ibv_poll_cq() in between: each completion once, in order. */
UNIT_TEST(test_batches)
{
	struct end a, b;

	pair_open(&a, &b, &extended, &extended);
	for (unsigned i = 0; i < 8; i++) {
		assert_ok(end_recv(&b, 100 + i, 0, 64));
		assert_ok(end_send(&a, i, 0, 8, IBV_SEND_SIGNALED));
	}
	for (unsigned side = 0; side < 2; side++) {
		struct ibv_cq *cq = side ? b.recv_cq : a.send_cq;
		uint64_t at = side ? 100 : 0;

		start_expect(cq, at, IBV_WC_SUCCESS);
		next_expect(cq, at + 1, IBV_WC_SUCCESS);
		next_expect(cq, at + 2, IBV_WC_SUCCESS);
		ibv_end_poll(ex(cq));
		end_expect(cq, at + 3, IBV_WC_SUCCESS);
		start_expect(cq, at + 4, IBV_WC_SUCCESS);
		ibv_end_poll(ex(cq));
		start_expect(cq, at + 5, IBV_WC_SUCCESS);
		next_expect(cq, at + 6, IBV_WC_SUCCESS);
		next_expect(cq, at + 7, IBV_WC_SUCCESS);
		assert_int_equal(ibv_next_poll(ex(cq)), ENOENT);
		ibv_end_poll(ex(cq));
		assert_int_equal(ibv_start_poll(ex(cq), NULL), ENOENT);
	}
	pair_close(&a, &b);
}

/* What the user does in a batch: post, to the same queue; wait for what is late; destroy. */
UNIT_TEST(test_inside)
{
	struct end a, b;

	pair_open(&a, &b, &extended, &extended);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, (uintptr_t)b.mem, b.mr->rkey,
			   IBV_SEND_SIGNALED));
	start_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 2, 0, 8, (uintptr_t)b.mem, b.mr->rkey,
			   IBV_SEND_SIGNALED));
	assert_int_equal(ex(a.send_cq)->wr_id, 1); /* still */
	next_expect(a.send_cq, 2, IBV_WC_SUCCESS);
	assert_ok(end_send(&a, 3, 0, 8, IBV_SEND_SIGNALED)); /* no receive: it waits */
	assert_int_equal(ibv_next_poll(ex(a.send_cq)), ENOENT);
	assert_ok(end_recv(&b, 9, 0, 64));
	next_expect(a.send_cq, 3, IBV_WC_SUCCESS);
	assert_ok(ibv_req_notify_cq(a.send_cq, 0));
	assert_ok(softrdma_destroy_qp(a.qp));
	a.qp = NULL;
	assert_int_equal(ibv_next_poll(ex(a.send_cq)), ENOENT);
	ibv_end_poll(ex(a.send_cq));
	pair_close(&a, &b);
}

struct waiter {
	struct ibv_cq *cq;
	bool batch; /* by start_poll, else by poll_cq */
	_Atomic bool entered, done;
	uint64_t wr_id;
};

static void *wait_run(void *arg)
{
	struct waiter *w = arg;
	struct ibv_wc wc;

	atomic_store(&w->entered, true);
	if (w->batch) {
		if (ibv_start_poll(ex(w->cq), NULL) == 0) {
			w->wr_id = ex(w->cq)->wr_id;
			ibv_end_poll(ex(w->cq));
		}
	} else if (ibv_poll_cq(w->cq, 1, &wc) == 1) {
		w->wr_id = wc.wr_id;
	}
	atomic_store(&w->done, true);
	return NULL;
}

UNIT_TEST(test_others_wait)
{
	struct end a, b;

	pair_open(&a, &b, &extended, &extended);
	for (unsigned round = 0; round < 2; round++) {
		struct waiter w = { .cq = a.send_cq, .batch = round };
		pthread_t thread;

		for (unsigned i = 1; i <= 3; i++)
			assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, i, 0, 8, (uintptr_t)b.mem,
					   b.mr->rkey, IBV_SEND_SIGNALED));
		start_expect(a.send_cq, 1, IBV_WC_SUCCESS);
		assert_ok(pthread_create(&thread, NULL, wait_run, &w));
		while (!atomic_load(&w.entered))
			sched_yield();
		usleep(SETTLE_US);
		assert_false(atomic_load(&w.done));
		assert_int_equal(ex(a.send_cq)->wr_id, 1);
		next_expect(a.send_cq, 2, IBV_WC_SUCCESS);
		ibv_end_poll(ex(a.send_cq));
		assert_ok(pthread_join(thread, NULL));
		assert_int_equal(w.wr_id, 3);
	}
	pair_close(&a, &b);
}

/* A CQ for one thread has no lock that a batch holds: its owner may even use poll_cq within. */
UNIT_TEST(test_single_threaded)
{
	struct end_options options = extended;
	struct end a, b;

	options.cq_flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	pair_open(&a, &b, &options, &options);
	for (unsigned i = 1; i <= 3; i++)
		assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, i, 0, 8, (uintptr_t)b.mem, b.mr->rkey,
				   IBV_SEND_SIGNALED));
	start_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
	next_expect(a.send_cq, 3, IBV_WC_SUCCESS);
	ibv_end_poll(ex(a.send_cq));
	pair_close(&a, &b);
}

UNIT_TEST(test_event)
{
	struct end_options with = extended;
	struct end a, b;
	struct ibv_cq *cq;
	void *context;

	with.channel = true;
	pair_open(&a, &b, &extended, &with);
	assert_ok(end_recv(&b, 7, 0, 64));
	assert_ok(ibv_req_notify_cq(b.recv_cq, 0));
	assert_ok(end_send(&a, 5, 0, 8, 0));
	assert_ok(softrdma_get_cq_event(b.channel, &cq, &context));
	assert_ptr_equal(cq, b.recv_cq);
	assert_ptr_equal(context, &b);
	softrdma_ack_cq_events(cq, 1);
	start_expect(cq, 7, IBV_WC_SUCCESS);
	ibv_end_poll(ex(cq));
	pair_close(&a, &b);
}

/* Two threads poll in batches while a third posts: all arrive once, and whole. */
enum { POLLERS = 2, MESSAGES = 4000 };

struct flood {
	struct end *a, *b;
	_Atomic uint32_t seen[MESSAGES];
	_Atomic uint32_t total, torn;
	uint64_t deadline;
};

static void *flood_poll(void *arg)
{
	struct flood *f = arg;
	struct ibv_cq_ex *cq = ex(f->b->recv_cq);

	while (atomic_load(&f->total) < MESSAGES && time_now_ns() < f->deadline) {
		int rc = ibv_start_poll(cq, NULL);

		if (rc) {
			sched_yield();
			continue;
		}
		do {
			uint64_t id = cq->wr_id;

			if (cq->status != IBV_WC_SUCCESS || id >= MESSAGES ||
			    ibv_wc_read_byte_len(cq) != id % 64 + 1) {
				atomic_fetch_add(&f->torn, 1);
				continue;
			}
			atomic_fetch_add(&f->seen[id], 1);
			atomic_fetch_add(&f->total, 1);
		} while (ibv_next_poll(cq) == 0);
		ibv_end_poll(cq);
	}
	return NULL;
}

UNIT_TEST(test_threads)
{
	static struct flood f;
	struct end a, b;
	pthread_t threads[POLLERS];

	pair_open(&a, &b, &extended, &extended);
	f = (struct flood){ .a = &a, .b = &b, .deadline = time_now_ns() + WAIT_NS };
	for (unsigned i = 0; i < POLLERS; i++)
		assert_ok(pthread_create(&threads[i], NULL, flood_poll, &f));
	for (uint64_t i = 0; i < MESSAGES && time_now_ns() < f.deadline; i++) {
		while (end_recv(&b, i, 0, 64) == ENOMEM && time_now_ns() < f.deadline)
			sched_yield();
		assert_ok(
			end_send(&a, i, 0, (uint32_t)(i % 64 + 1), i % 32 ? 0 : IBV_SEND_SIGNALED));
		if (i % 32 == 0)
			end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	}
	for (unsigned i = 0; i < POLLERS; i++)
		assert_ok(pthread_join(threads[i], NULL));
	assert_ok(atomic_load(&f.torn));
	assert_int_equal(atomic_load(&f.total), MESSAGES);
	for (unsigned i = 0; i < MESSAGES; i++)
		assert_int_equal(atomic_load(&f.seen[i]), 1);
	pair_close(&a, &b);
}

int main(void)
{
	alarm(120); /* a lock that is never given back */
	return unit_run(NULL, NULL);
}
