/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Unreliable connections: what arrives, what is lost in silence, and what fails. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "common/softrdma/shared/shared.h"
#include "ends.h"

#define FLOOD 5000

static const struct end_options uc = { .type = IBV_QPT_UC };

UNIT_TEST(test_data)
{
	struct ibv_wc wc;
	struct end a, b;

	pair_open(&a, &b, &uc, &uc);
	memset(a.mem, 0x31, 100);
	/* SEND, and with immediate */
	assert_ok(end_recv(&b, 1, 0, 100));
	assert_ok(end_recv(&b, 2, 200, 100));
	assert_ok(end_send(&a, 1, 0, 100, IBV_SEND_SIGNALED));
	assert_ok(end_rdma(&a, IBV_WR_SEND_WITH_IMM, 2, 0, 50, 0, 0, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
	end_wait(b.recv_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 100);
	assert_int_equal(wc.wc_flags, 0);
	assert_int_equal(wc.qp_num, b.qp->qp_num);
	end_wait(b.recv_cq, &wc);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.byte_len, 50);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x12345678);
	assert_memory_equal(b.mem, a.mem, 100);
	assert_memory_equal(b.mem + 200, a.mem, 50);
	assert_int_equal(b.mem[250], 0);
	/* WRITE, and with immediate */
	assert_ok(end_rdma(&a, IBV_WR_RDMA_WRITE, 3, 0, 64, (uintptr_t)b.mem + 4096, b.mr->rkey,
			   IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 3, IBV_WC_SUCCESS);
	assert_memory_equal(b.mem + 4096, a.mem, 64);
	end_quiet(b.recv_cq);
	assert_ok(end_recv(&b, 4, 0, 0));
	assert_ok(end_rdma(&a, IBV_WR_RDMA_WRITE_WITH_IMM, 4, 0, 64, (uintptr_t)b.mem + 8192,
			   b.mr->rkey, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 4, IBV_WC_SUCCESS);
	end_wait(b.recv_cq, &wc);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 64);
	assert_memory_equal(b.mem + 8192, a.mem, 64);
	/* what UC does not have */
	assert_int_equal(end_rdma(&a, IBV_WR_RDMA_READ, 5, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0),
			 EINVAL);
	assert_int_equal(
		end_rdma(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0),
		EINVAL);
	pair_close(&a, &b);
}

struct loss {
	const char *what;
	enum ibv_wr_opcode opcode;
	bool receive; /* one of 64 bytes is posted, and stays */
	uint32_t length;
	int64_t shift;
	uint32_t key_xor;
	int qp_access;
	bool private_mr;
};

static const struct loss losses[] = {
	{ .what = "no receive", .opcode = IBV_WR_SEND, .length = 8 },
	{ .what = "no receive, empty", .opcode = IBV_WR_SEND },
	{ .what = "too long", .opcode = IBV_WR_SEND, .receive = true, .length = 65 },
	{ .what = "too long, with immediate",
	  .opcode = IBV_WR_SEND_WITH_IMM,
	  .receive = true,
	  .length = 4096 },
	{ .what = "bad rkey", .opcode = IBV_WR_RDMA_WRITE, .length = 8, .key_xor = 1 },
	{ .what = "behind", .opcode = IBV_WR_RDMA_WRITE, .length = 8, .shift = (1 << 20) - 7 },
	{ .what = "before", .opcode = IBV_WR_RDMA_WRITE, .length = 8, .shift = -1 },
	{ .what = "region not writable",
	  .opcode = IBV_WR_RDMA_WRITE,
	  .length = 8,
	  .private_mr = true },
	{ .what = "QP not writable",
	  .opcode = IBV_WR_RDMA_WRITE,
	  .length = 8,
	  .qp_access = IBV_ACCESS_REMOTE_READ },
	{ .what = "immediate, no receive", .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 8 },
	{ .what = "immediate, bad rkey",
	  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
	  .receive = true,
	  .length = 8,
	  .key_xor = 0x70000 },
	{ .what = "immediate, QP not writable",
	  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
	  .receive = true,
	  .length = 8,
	  .qp_access = IBV_ACCESS_REMOTE_READ },
};

/* Lost: the sender has success, the receiver nothing, its receive is still there. */
static void loss_run(const struct loss *t)
{
	struct end_options other = { .type = IBV_QPT_UC,
				     .qp_access = t->qp_access,
				     .private_mr = t->private_mr };
	struct end a, b;

	print_message("  %s\n", t->what);
	pair_open(&a, &b, &uc, &other);
	memset(a.mem, 0x44, 4096);
	if (t->receive)
		assert_ok(end_recv(&b, 7, 0, 64));
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(end_rdma(&a, t->opcode, i, 0, t->length,
				   (uintptr_t)b.mem + (uint64_t)t->shift, b.mr->rkey ^ t->key_xor,
				   IBV_SEND_SIGNALED));
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	}
	end_quiet(b.recv_cq);
	for (unsigned i = 0; i < b.size; i++)
		assert_int_equal(b.mem[i], 0);
	assert_int_equal(end_state(&a), IBV_QPS_RTS);
	assert_int_equal(end_state(&b), IBV_QPS_RTS);
	if (!t->receive)
		assert_ok(end_recv(&b, 7, 0, 64));
	assert_ok(end_send(&a, 9, 0, 64, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 9, IBV_WC_SUCCESS);
	end_expect(b.recv_cq, 7, IBV_WC_SUCCESS);
	assert_int_equal(b.mem[63], 0x44);
	pair_close(&a, &b);
}

UNIT_TEST(test_losses)
{
	for (unsigned i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
		loss_run(&losses[i]);
}

static void send_lost(struct end *a)
{
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(end_send(a, i, 0, 8, IBV_SEND_SIGNALED));
		end_expect(a->send_cq, i, IBV_WC_SUCCESS);
	}
	assert_int_equal(end_state(a), IBV_QPS_RTS);
}

/* The responder is in no state to receive, or is not there. */
UNIT_TEST(test_nobody)
{
	struct end a, b;

	end_open(&a, &uc);
	end_open(&b, &uc);
	end_connect(&a, b.qp->qp_num);
	send_lost(&a); /* RESET */
	assert_ok(end_init(&b));
	assert_ok(end_recv(&b, 1, 0, 64));
	send_lost(&a); /* INIT */
	assert_ok(end_rtr(&b, a.qp->qp_num));
	assert_ok(end_send(&a, 4, 0, 8, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 4, IBV_WC_SUCCESS);
	end_expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	assert_ok(end_to(&b, IBV_QPS_ERR));
	send_lost(&a);
	assert_ok(softrdma_destroy_qp(b.qp));
	b.qp = NULL;
	send_lost(&a);
	assert_ok(end_to(&a, IBV_QPS_RESET));
	end_connect(&a, a.qp->qp_num ^ 0x555); /* nobody has that number */
	send_lost(&a);
	pair_close(&a, &b);
}

/* RC and UC do not understand each other. */
UNIT_TEST(test_other_service)
{
	struct end_options rc = { .type = IBV_QPT_RC };
	struct end a, b;

	pair_open(&a, &b, &uc, &rc);
	assert_ok(end_recv(&b, 1, 0, 64));
	send_lost(&a);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, 8, (uintptr_t)b.mem + 64, b.mr->rkey,
			   IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	end_quiet(b.recv_cq);
	assert_int_equal(b.mem[64], 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(end_recv(&a, 1, 0, 64));
		assert_ok(end_rdma(&b,
				   (enum ibv_wr_opcode[]){ IBV_WR_SEND, IBV_WR_RDMA_READ,
							   IBV_WR_RDMA_WRITE }[i],
				   1, 0, 8, (uintptr_t)a.mem, a.mr->rkey, 0));
		end_expect(b.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
		end_quiet(a.recv_cq);
		assert_int_equal(end_state(&a), IBV_QPS_RTS);
		assert_ok(end_to(&b, IBV_QPS_RESET));
		end_connect(&b, a.qp->qp_num);
	}
	pair_close(&a, &b);
}

/* Nothing of an RC queue pair is left for a UC one at the same place. */
UNIT_TEST(test_place)
{
	struct end_options rc = { .type = IBV_QPT_RC };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UC };
	uint32_t index, tries = 0;
	struct end a, b;

	end_open(&a, &rc);
	end_open(&b, &rc);
	end_connect(&b, a.qp->qp_num);
	index = qpn_index(b.qp->qp_num);
	init.send_cq = b.send_cq;
	init.recv_cq = b.recv_cq;
	do {
		assert_true(tries++ < SHARED_QPS);
		assert_ok(softrdma_destroy_qp(b.qp));
		b.qp = softrdma_create_qp(b.pd, &init);
		assert_non_null(b.qp);
	} while (qpn_index(b.qp->qp_num) != index);
	end_connect(&b, a.qp->qp_num);
	end_connect(&a, b.qp->qp_num);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0));
	end_expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(end_state(&b), IBV_QPS_RTS);
	pair_close(&a, &b);
}

/* A receive whose own memory may not be written fails, and its QP with it; the sender is not
 * told. */
UNIT_TEST(test_receive_fails)
{
	struct end a, b;

	pair_open(&a, &b, &uc, &uc);
	assert_ok(softrdma_dereg_mr(b.mr));
	b.mr = softrdma_reg_mr(b.pd, b.mem, b.size, IBV_ACCESS_REMOTE_READ);
	assert_ok(end_recv(&b, 1, 0, 64));
	assert_ok(end_recv(&b, 2, 0, 64));
	assert_ok(end_send(&a, 1, 0, 8, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	end_expect(b.recv_cq, 1, IBV_WC_LOC_PROT_ERR);
	end_expect(b.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_state(&a), IBV_QPS_RTS);
	assert_int_equal(end_state(&b), IBV_QPS_ERR);
	pair_close(&a, &b);
}

/* From an SRQ a receive that is too short is used up, with an error; the QP goes on. */
UNIT_TEST(test_srq)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_pd *pd = softrdma_alloc_pd(context);
	struct ibv_srq *srq = softrdma_create_srq(pd, &attr);
	struct end_options with = { .type = IBV_QPT_UC, .context = context, .pd = pd, .srq = srq };
	struct end a, b;

	pair_open(&a, &b, &uc, &with);
	send_lost(&a);
	assert_ok(end_recv(&b, 1, 0, 64));
	assert_ok(end_recv(&b, 2, 0, 64));
	assert_ok(end_send(&a, 1, 0, 65, IBV_SEND_SIGNALED));
	assert_ok(end_send(&a, 2, 0, 64, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
	end_expect(b.recv_cq, 1, IBV_WC_LOC_LEN_ERR);
	end_expect(b.recv_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(end_state(&b), IBV_QPS_RTS);
	pair_close(&a, &b);
	assert_ok(softrdma_destroy_srq(srq));
	assert_ok(softrdma_dealloc_pd(pd));
	assert_ok(softrdma_close_device(context));
}

/* To another process: data; a stopped one, which loses nothing of what it posted for; a dead
 * one. */
UNIT_TEST(test_far)
{
	struct end_options mapped = { .type = IBV_QPT_UC, .mapped = true };
	struct ibv_wc wc;
	struct far far;
	struct end a;

	for (int run = 0; run < 2; run++) {
		far_start(&far, run ? &mapped : &uc);
		end_open(&a, &uc);
		far_connect(&far, &a);
		memset(a.mem, 0x51, 64);
		send_lost(&a);
		far_do(&far, FAR_RECV, 64);
		assert_ok(end_send(&a, 1, 0, 64, IBV_SEND_SIGNALED));
		end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
		wc = far_do(&far, FAR_POLL, 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, 64);
		assert_int_equal(far_do(&far, FAR_PEEK, 63).byte_len, 0x51);
		assert_ok(end_rdma(&a, IBV_WR_RDMA_WRITE, 2, 0, 64, far.info.addr + 100,
				   far.info.rkey, IBV_SEND_SIGNALED));
		end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
		assert_int_equal(far_do(&far, FAR_PEEK, 163).byte_len, 0x51);
		/* stopped */
		far_do(&far, FAR_RECV, 64);
		kill(far.pid, SIGSTOP);
		assert_int_equal(waitpid(far.pid, NULL, WUNTRACED), far.pid);
		memset(a.mem, 0x52, 64);
		for (unsigned i = 0; i < FLOOD; i++) {
			assert_ok(end_send(&a, i, 0, 8, IBV_SEND_SIGNALED));
			end_expect(a.send_cq, i, IBV_WC_SUCCESS);
		}
		kill(far.pid, SIGCONT);
		assert_int_equal(far_do(&far, FAR_POLL, 0).status, IBV_WC_SUCCESS);
		assert_int_equal(far_do(&far, FAR_PEEK, 7).byte_len, 0x52);
		/* dead */
		far_kill(&far);
		send_lost(&a);
		end_close(&a);
	}
}
