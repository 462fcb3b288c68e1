/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What must not work, and with which status: in one process, and towards another one. */
#include <errno.h>
#include <string.h>

#include "ends.h"

struct attempt {
	const char *what;
	enum ibv_wr_opcode opcode;
	int64_t shift; /* of the remote address */
	uint32_t length;
	uint32_t key_xor;
	int qp_access; /* of the responder; 0: all */
	bool private_mr;
	enum ibv_wc_status status;
};

static const struct attempt attempts[] = {
	{ .what = "bad rkey",
	  .opcode = IBV_WR_RDMA_READ,
	  .length = 64,
	  .key_xor = 1,
	  .status = IBV_WC_REM_ACCESS_ERR },
	{ .what = "bad rkey index",
	  .opcode = IBV_WR_RDMA_READ,
	  .length = 64,
	  .key_xor = 0x70000,
	  .status = IBV_WC_REM_ACCESS_ERR },
	{ .what = "before",
	  .opcode = IBV_WR_RDMA_READ,
	  .shift = -1,
	  .length = 64,
	  .status = IBV_WC_REM_ACCESS_ERR },
	{ .what = "behind",
	  .opcode = IBV_WR_RDMA_READ,
	  .shift = (1 << 20) - 63,
	  .length = 64,
	  .status = IBV_WC_REM_ACCESS_ERR },
	{ .what = "wraps",
	  .opcode = IBV_WR_RDMA_READ,
	  .shift = INT64_MIN,
	  .length = 64,
	  .status = IBV_WC_REM_ACCESS_ERR },
	{ .what = "write behind",
	  .opcode = IBV_WR_RDMA_WRITE,
	  .shift = 1 << 20,
	  .length = 1,
	  .status = IBV_WC_REM_ACCESS_ERR },
	{ .what = "region not readable",
	  .opcode = IBV_WR_RDMA_READ,
	  .length = 64,
	  .private_mr = true,
	  .status = IBV_WC_REM_ACCESS_ERR },
	{ .what = "region not writable",
	  .opcode = IBV_WR_RDMA_WRITE,
	  .length = 64,
	  .private_mr = true,
	  .status = IBV_WC_REM_ACCESS_ERR },
	{ .what = "QP not readable",
	  .opcode = IBV_WR_RDMA_READ,
	  .length = 64,
	  .qp_access = IBV_ACCESS_REMOTE_WRITE,
	  .status = IBV_WC_REM_INV_REQ_ERR },
	{ .what = "QP not writable",
	  .opcode = IBV_WR_RDMA_WRITE,
	  .length = 64,
	  .qp_access = IBV_ACCESS_REMOTE_READ,
	  .status = IBV_WC_REM_INV_REQ_ERR },
};

static void attempt_run(const struct attempt *t, bool far_away, bool mapped)
{
	struct end_options near = { .mapped = mapped };
	struct end_options other = { .mapped = mapped,
				     .qp_access = t->qp_access,
				     .private_mr = t->private_mr };
	struct end a, b;
	struct far far;
	struct end_info info;

	print_message("  %s%s%s\n", t->what, far_away ? ", far" : "", mapped ? ", mapped" : "");
	if (far_away) {
		far_pair_open(&far, &a, &other, &near);
		info = far.info;
	} else {
		pair_open(&a, &b, &near, &other);
		info = end_info(&b);
	}
	assert_ok(end_rdma(&a, t->opcode, 5, 0, t->length, info.addr + (uint64_t)t->shift,
			   info.rkey ^ t->key_xor, 0));
	/* the next one is flushed, and posting goes on to flush */
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 6, 0, 8, info.addr, info.rkey, 0));
	end_expect(a.send_cq, 5, t->status);
	end_expect(a.send_cq, 6, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_state(&a), IBV_QPS_ERR);
	if (far_away) {
		assert_int_equal(far_do(&far, FAR_QUERY, 0).byte_len, IBV_QPS_ERR);
		far_pair_close(&far, &a);
	} else {
		assert_int_equal(end_state(&b), IBV_QPS_ERR);
		pair_close(&a, &b);
	}
}

UNIT_TEST(test_remote)
{
	for (unsigned i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
		attempt_run(&attempts[i], false, false);
		attempt_run(&attempts[i], true, true);
		attempt_run(&attempts[i], true, false);
	}
}

UNIT_TEST(test_stale_rkey)
{
	struct end_options options = { .mapped = false };
	struct end a, b;
	struct end_info info;

	pair_open(&a, &b, &options, &options);
	info = end_info(&b);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, info.addr, info.rkey, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_ok(softrdma_dereg_mr(b.mr));
	/* new keys, for the same memory, are other ones */
	for (unsigned i = 0; i < 1000; i++) {
		b.mr = softrdma_reg_mr(b.pd, b.mem, b.size, END_ALL);
		assert_non_null(b.mr);
		assert_int_not_equal(b.mr->rkey, info.rkey);
		if (i < 999)
			assert_ok(softrdma_dereg_mr(b.mr));
	}
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 2, 0, 8, info.addr, info.rkey, 0));
	end_expect(a.send_cq, 2, IBV_WC_REM_ACCESS_ERR);
	pair_close(&a, &b);
}

UNIT_TEST(test_pd)
{
	struct end_options options = { .mapped = false };
	struct end a, b, stranger;

	pair_open(&a, &b, &options, &options);
	end_open(&stranger, &options);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, (uintptr_t)stranger.mem,
			   stranger.mr->rkey, 0));
	end_expect(a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	pair_close(&a, &b);
	/* and locally */
	pair_open(&a, &b, &options, &options);
	softrdma_dereg_mr(a.mr);
	a.mr = softrdma_reg_mr(stranger.pd, a.mem, a.size, END_ALL);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0));
	end_expect(a.send_cq, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(end_state(&a), IBV_QPS_ERR);
	assert_int_equal(end_state(&b), IBV_QPS_RTS); /* it never heard of it */
	pair_close(&a, &b);
	end_close(&stranger);
}

UNIT_TEST(test_local)
{
	struct end_options options = { .mapped = false };
	struct end a, b;

	for (int round = 0; round < 3; round++) {
		pair_open(&a, &b, &options, &options);
		if (round == 0) { /* bounds */
			assert_ok(end_rdma(&a, IBV_WR_RDMA_WRITE, 1, a.size - 7, 8,
					   (uintptr_t)b.mem, b.mr->rkey, 0));
		} else if (round == 1) { /* a READ into memory that may not be written */
			softrdma_dereg_mr(a.mr);
			a.mr = softrdma_reg_mr(a.pd, a.mem, a.size, IBV_ACCESS_REMOTE_READ);
			assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, (uintptr_t)b.mem,
					   b.mr->rkey, 0));
		} else { /* a receive buffer that may not be written */
			softrdma_dereg_mr(b.mr);
			b.mr = softrdma_reg_mr(b.pd, b.mem, b.size, IBV_ACCESS_REMOTE_READ);
			assert_ok(end_recv(&b, 9, 0, 64));
			assert_ok(end_send(&a, 1, 0, 8, 0));
			end_expect(a.send_cq, 1, IBV_WC_REM_OP_ERR);
			end_expect(b.recv_cq, 9, IBV_WC_LOC_PROT_ERR);
			assert_int_equal(end_state(&b), IBV_QPS_ERR);
			pair_close(&a, &b);
			continue;
		}
		end_expect(a.send_cq, 1, IBV_WC_LOC_PROT_ERR);
		pair_close(&a, &b);
	}
}

UNIT_TEST(test_too_long)
{
	struct end_options options = { .mapped = false };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	assert_ok(end_recv(&b, 8, 0, 64));
	assert_ok(end_recv(&b, 9, 0, 64));
	assert_ok(end_recv(&b, 10, 0, 64));
	assert_ok(end_send(&a, 1, 0, 64, 0));
	assert_ok(end_send(&a, 2, 0, 65, 0));
	end_expect(a.send_cq, 2, IBV_WC_REM_INV_REQ_ERR);
	end_expect(b.recv_cq, 8, IBV_WC_SUCCESS);
	end_expect(b.recv_cq, 9, IBV_WC_LOC_LEN_ERR);
	end_expect(b.recv_cq, 10, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_state(&a), IBV_QPS_ERR);
	assert_int_equal(end_state(&b), IBV_QPS_ERR);
	pair_close(&a, &b);
}

UNIT_TEST(test_register)
{
	struct end_options options = { .mapped = false };
	struct end a;

	end_open(&a, &options);
	assert_null(softrdma_reg_mr(a.pd, a.mem, a.size, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	assert_null(softrdma_reg_mr(a.pd, a.mem, 0, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(softrdma_reg_mr(a.pd, (void *)4096, 4096, 0));
	assert_int_equal(errno, EFAULT);
	end_close(&a);
}

/* Nobody at the other end: a wrong number, a destroyed QP, a QP in ERR. */
UNIT_TEST(test_nobody)
{
	struct end_options options = { .mapped = false };
	struct end a, b;

	end_open(&a, &options);
	end_connect(&a, a.qp->qp_num ^ 0x555);
	assert_ok(end_send(&a, 1, 0, 8, 0));
	end_expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	end_close(&a);
	pair_open(&a, &b, &options, &options);
	assert_ok(softrdma_destroy_qp(b.qp));
	b.qp = NULL;
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0));
	end_expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	pair_close(&a, &b);
	pair_open(&a, &b, &options, &options);
	assert_ok(end_to(&b, IBV_QPS_ERR));
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0));
	end_expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	pair_close(&a, &b);
	/* not there yet: a second's patience, then an end; or it comes */
	options.timeout = 15;
	end_open(&a, &options);
	end_open(&b, &options);
	assert_ok(end_init(&b));
	end_connect(&a, b.qp->qp_num);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, (uintptr_t)b.mem, b.mr->rkey,
			   IBV_SEND_SIGNALED));
	end_quiet(a.send_cq);
	assert_ok(end_rtr(&b, a.qp->qp_num));
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_ok(end_to(&b, IBV_QPS_RESET));
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 2, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0));
	end_expect(a.send_cq, 2, IBV_WC_RETRY_EXC_ERR);
	pair_close(&a, &b);
}
