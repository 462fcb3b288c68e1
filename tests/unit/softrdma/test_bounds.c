/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The ends of regions, to the byte, at both sides; whose region it is; READs that are off. */
#include <errno.h>

#include "ends.h"

#define SIZE 65536

struct bounds {
	const char *what;
	uint64_t addr; /* from the start of the region; absolute where `absolute` */
	uint32_t length;
	bool absolute, good;
};

static const struct bounds bounds[] = {
	{ .what = "all of it", .addr = 0, .length = SIZE, .good = true },
	{ .what = "first byte", .addr = 0, .length = 1, .good = true },
	{ .what = "last byte", .addr = SIZE - 1, .length = 1, .good = true },
	{ .what = "last bytes", .addr = SIZE - 64, .length = 64, .good = true },
	{ .what = "one too many", .addr = 0, .length = SIZE + 1 },
	{ .what = "one before", .addr = UINT64_MAX, .length = 1 },
	{ .what = "one before, and on", .addr = UINT64_MAX, .length = 2 },
	{ .what = "one behind", .addr = SIZE, .length = 1 },
	{ .what = "over the end", .addr = SIZE - 63, .length = 64 },
	{ .what = "far behind", .addr = 1ull << 40, .length = 1 },
	{ .what = "nowhere", .absolute = true, .addr = 0, .length = 1 },
	{ .what = "over the end of all", .absolute = true, .addr = UINT64_MAX - 3, .length = 8 },
	{ .what = "to the end of all", .absolute = true, .addr = UINT64_MAX - 7, .length = 8 },
	{ .what = "longest", .addr = 0, .length = 1u << 31 },
};

static uint64_t bounds_addr(const struct bounds *t, const struct end *end)
{
	return t->absolute ? t->addr : (uintptr_t)end->mem + t->addr;
}

/* Post one that is wrong at one side only. */
static void bounds_post(struct end *a, struct end *b, const struct bounds *t, bool remote,
			enum ibv_wr_opcode opcode)
{
	static unsigned char other[SIZE + 1];
	struct ibv_mr *whole =
		softrdma_reg_mr(remote ? a->pd : b->pd, other, sizeof(other), END_ALL);
	struct ibv_sge sge = { .addr = remote ? (uintptr_t)other : bounds_addr(t, a),
			       .length = t->length,
			       .lkey = remote ? whole->lkey : a->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 4,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	enum ibv_wc_status expected = remote ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR;

	assert_non_null(whole);
	if (t->length > sizeof(other) && remote)
		expected = IBV_WC_LOC_PROT_ERR; /* what is checked first */
	wr.wr.rdma.remote_addr = remote ? bounds_addr(t, b) : (uintptr_t)other;
	wr.wr.rdma.rkey = remote ? b->mr->rkey : whole->rkey;
	assert_ok(ibv_post_send(a->qp, &wr, &bad));
	end_expect(a->send_cq, 4, t->good ? IBV_WC_SUCCESS : expected);
	assert_ok(softrdma_dereg_mr(whole));
}

static void bounds_run(bool mapped, bool remote, enum ibv_wr_opcode opcode)
{
	struct end_options options = { .mapped = mapped, .size = SIZE };
	struct end a, b;

	for (unsigned i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		const struct bounds *t = &bounds[i];

		print_message("  %s%s%s, %s\n", t->what, mapped ? ", mapped" : "",
			      remote ? ", remote" : "",
			      opcode == IBV_WR_RDMA_READ ? "READ" : "WRITE");
		pair_open(&a, &b, &options, &options);
		bounds_post(&a, &b, t, remote, opcode);
		assert_int_equal(end_state(&a), t->good ? IBV_QPS_RTS : IBV_QPS_ERR);
		pair_close(&a, &b);
	}
}

UNIT_TEST(test_bounds)
{
	for (int mapped = 0; mapped < 2; mapped++) {
		for (int remote = 0; remote < 2; remote++) {
			bounds_run(mapped, remote, IBV_WR_RDMA_READ);
			bounds_run(mapped, remote, IBV_WR_RDMA_WRITE);
		}
	}
}

/* Nothing is nowhere: without a byte no key and no address is looked at. */
UNIT_TEST(test_empty)
{
	struct end_options options = { .type = IBV_QPT_RC };
	struct ibv_sge sge = { .addr = 0xdeadbeef, .lkey = 0x12345678 };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	for (unsigned i = 0; i < 3; i++) {
		const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE,
						       IBV_WR_SEND };
		struct ibv_send_wr wr = { .wr_id = i,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = opcodes[i],
					  .send_flags = IBV_SEND_SIGNALED,
					  .wr.rdma = { .remote_addr = 5, .rkey = 0x87654321 } },
				   *bad;

		assert_ok(end_recv(&b, i, 0, 8));
		assert_ok(ibv_post_send(a.qp, &wr, &bad));
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	}
	end_expect(b.recv_cq, 0, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

UNIT_TEST(test_register)
{
	struct end_options options = { .type = IBV_QPT_RC };
	struct end end;

	end_open(&end, &options);
	assert_null(softrdma_reg_mr(end.pd, (void *)(UINTPTR_MAX - 4095), 8192, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(softrdma_reg_mr(end.pd, end.mem, UINT64_MAX, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(softrdma_reg_mr(end.pd, end.mem, 64, IBV_ACCESS_REMOTE_ATOMIC));
	assert_int_equal(errno, EINVAL);
	end_close(&end);
}

/* READs need a depth at both sides; each side's 0 fails in its own way. */
UNIT_TEST(test_rd_atomic)
{
	struct end_options options = { .type = IBV_QPT_RC };
	struct ibv_qp_attr none = { .max_rd_atomic = 0, .max_dest_rd_atomic = 0 };
	struct end a, b;

	for (int side = 0; side < 2; side++) {
		struct end *at = side ? &b : &a;

		pair_open(&a, &b, &options, &options);
		assert_ok(end_to(at, IBV_QPS_SQD));
		assert_ok(softrdma_modify_qp(
			at->qp, &none, side ? IBV_QP_MAX_DEST_RD_ATOMIC : IBV_QP_MAX_QP_RD_ATOMIC));
		assert_ok(end_to(at, IBV_QPS_RTS));
		assert_ok(end_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, 8, (uintptr_t)b.mem, b.mr->rkey,
				   IBV_SEND_SIGNALED));
		end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
		assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 2, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0));
		end_expect(a.send_cq, 2, side ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_LOC_QP_OP_ERR);
		assert_int_equal(end_state(&a), IBV_QPS_ERR);
		assert_int_equal(end_state(&b), side ? IBV_QPS_ERR : IBV_QPS_RTS);
		/* and nothing of it is left in the next life */
		assert_ok(end_to(&a, IBV_QPS_RESET));
		assert_ok(end_to(&b, IBV_QPS_RESET));
		end_connect(&a, b.qp->qp_num);
		end_connect(&b, a.qp->qp_num);
		assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 3, 0, 8, (uintptr_t)b.mem, b.mr->rkey,
				   IBV_SEND_SIGNALED));
		end_expect(a.send_cq, 3, IBV_WC_SUCCESS);
		pair_close(&a, &b);
	}
}

/* WRITE with immediate: what is refused uses up a receive, which is flushed with the others. */
UNIT_TEST(test_immediate)
{
	struct end_options options = { .type = IBV_QPT_RC }, locked = options;
	struct end a, b;

	locked.qp_access = IBV_ACCESS_REMOTE_READ;
	for (int run = 0; run < 2; run++) {
		pair_open(&a, &b, &options, run ? &locked : &options);
		assert_ok(end_recv(&b, 1, 0, 8));
		assert_ok(end_recv(&b, 2, 0, 8));
		assert_ok(end_rdma(&a, IBV_WR_RDMA_WRITE_WITH_IMM, 3, 0, 8, (uintptr_t)b.mem,
				   b.mr->rkey ^ !run, 0));
		end_expect(a.send_cq, 3, run ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR);
		end_expect(b.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
		end_expect(b.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(b.mem[0], 0);
		assert_int_equal(end_state(&b), IBV_QPS_ERR);
		pair_close(&a, &b);
	}
}

static void post_srq(struct ibv_srq *srq, const struct end *end, struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)end->mem, 64, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 6, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_ok(ibv_post_srq_recv(srq, &wr, &bad));
}

/* The receives of an SRQ belong to its protection domain, not to that of the QP. */
UNIT_TEST(test_srq_pd)
{
	const enum ibv_qp_type services[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };

	for (unsigned i = 0; i < 6; i++) {
		struct ibv_context *context = softrdma_open_device(softrdma_device());
		struct ibv_pd *pd = softrdma_alloc_pd(context);
		struct ibv_srq *srq = softrdma_create_srq(pd, &attr);
		struct end_options near = { .type = services[i / 2] };
		struct end_options other = { .type = services[i / 2], .context = context };
		struct ibv_mr *mr;
		struct end a, b;

		other.srq = srq;
		pair_open(&a, &b, &near, &other);
		mr = softrdma_reg_mr(pd, b.mem, b.size, IBV_ACCESS_LOCAL_WRITE);
		assert_true(pd && srq && mr);
		post_srq(srq, &b, i & 1 ? b.mr : mr);
		assert_ok(end_send(&a, 1, 0, 8, IBV_SEND_SIGNALED));
		end_expect(a.send_cq, 1,
			   (i & 1) && near.type == IBV_QPT_RC ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS);
		end_expect(b.recv_cq, 6, i & 1 ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
		assert_int_equal(end_state(&b), i & 1 ? IBV_QPS_ERR : IBV_QPS_RTS);
		assert_ok(softrdma_dereg_mr(mr));
		pair_close(&a, &b);
		assert_ok(softrdma_destroy_srq(srq));
		assert_ok(softrdma_dealloc_pd(pd));
		assert_ok(softrdma_close_device(context));
	}
}
