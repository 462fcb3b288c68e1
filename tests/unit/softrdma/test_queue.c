/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Queues: order, flushing, inline data, signalling, depth, shared receive queues, overrun. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "ends.h"

#define FOR_EVER 7

UNIT_TEST(test_data)
{
	struct end_options options = { .mapped = true };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	/* every alignment against every other, odd lengths: READ and WRITE move those bytes only */
	for (size_t i = 0; i < 4096; i++) {
		a.mem[i] = (unsigned char)(i * 7 + i / 256);
		b.mem[i] = (unsigned char)(i * 13 + i / 256);
	}
	for (unsigned from = 0; from < 9; from++) {
		for (unsigned to = 0; to < 9; to++) {
			uint32_t length = 60 + from * 17 + to * 5;
			bool read = (from + to) & 1;
			unsigned char *src = (read ? b.mem : a.mem) + from;
			unsigned char *dst = (read ? a.mem : b.mem) + 8192 + to;

			memset(dst - 8, 0xaa, length + 16);
			assert_ok(end_rdma(&a, read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 1,
					   (size_t)((read ? dst : src) - a.mem), length,
					   (uintptr_t)(read ? src : dst), b.mr->rkey,
					   IBV_SEND_SIGNALED));
			end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
			assert_memory_equal(dst, src, length);
			assert_int_equal(dst[-1], 0xaa);
			assert_int_equal(dst[length], 0xaa);
		}
	}
	pair_close(&a, &b);
}

UNIT_TEST(test_sges)
{
	struct end_options options = { .mapped = false };
	struct end a, b;
	struct ibv_sge out[3], in[3];
	struct ibv_send_wr wr = { .sg_list = out,
				  .num_sge = 3,
				  .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = 0xabcd,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_recv_wr rwr = { .wr_id = 4, .sg_list = in, .num_sge = 3 }, *rbad;
	struct ibv_wc wc;
	const size_t cuts[] = { 0, 100, 103, 300 };

	pair_open(&a, &b, &options, &options);
	for (unsigned i = 0; i < 300; i++)
		a.mem[i] = (unsigned char)i;
	for (unsigned i = 0; i < 3; i++) {
		out[i] = (struct ibv_sge){ (uintptr_t)a.mem + cuts[i],
					   (uint32_t)(cuts[i + 1] - cuts[i]), a.mr->lkey };
		in[i] = (struct ibv_sge){ (uintptr_t)b.mem + i * 1000, 120, b.mr->lkey };
	}
	assert_ok(ibv_post_recv(b.qp, &rwr, &rbad));
	assert_ok(ibv_post_send(a.qp, &wr, &bad));
	end_wait(b.recv_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 300);
	assert_int_equal(wc.imm_data, 0xabcd);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.qp_num, b.qp->qp_num);
	assert_int_equal(wc.src_qp, a.qp->qp_num);
	assert_memory_equal(b.mem, a.mem, 120);
	assert_memory_equal(b.mem + 1000, a.mem + 120, 120);
	assert_memory_equal(b.mem + 2000, a.mem + 240, 60);
	end_expect(a.send_cq, 0, IBV_WC_SUCCESS);
	/* too many */
	wr.num_sge = 5;
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), EINVAL);
	pair_close(&a, &b);
}

UNIT_TEST(test_write_imm)
{
	struct end_options options = { .mapped = false, .rnr_retry = FOR_EVER };
	struct end a, b;
	struct ibv_wc wc;

	pair_open(&a, &b, &options, &options);
	memset(a.mem, 5, 32);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 32, (uintptr_t)b.mem + 64,
			   b.mr->rkey, IBV_SEND_SIGNALED));
	end_quiet(a.send_cq); /* no receive yet */
	assert_ok(end_recv(&b, 6, 0, 0));
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	end_wait(b.recv_cq, &wc);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 32);
	assert_int_equal(wc.imm_data, 0x12345678);
	assert_memory_equal(b.mem + 64, a.mem, 32);
	pair_close(&a, &b);
}

/* Inline data is taken when posted: it needs no key, and may change at once, even if it waits. */
UNIT_TEST(test_inline)
{
	struct end_options options = { .mapped = false, .rnr_retry = FOR_EVER };
	unsigned char data[100];
	struct ibv_sge sge[2] = { { .addr = (uintptr_t)data, .length = 60 },
				  { .addr = (uintptr_t)data + 60, .length = 40 } };
	struct ibv_send_wr wr = { .sg_list = sge,
				  .num_sge = 2,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED },
			   *bad;
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	for (int round = 0; round < 2; round++) {
		memset(data, 0x40 + round, sizeof(data));
		if (round == 0)
			assert_ok(end_recv(&b, 1, 0, 128));
		assert_ok(ibv_post_send(a.qp, &wr, &bad));
		memset(data, 0, sizeof(data));
		if (round == 1)
			assert_ok(end_recv(&b, 1, 0, 128));
		end_expect(a.send_cq, 0, IBV_WC_SUCCESS);
		end_expect(b.recv_cq, 1, IBV_WC_SUCCESS);
		for (unsigned i = 0; i < sizeof(data); i++)
			assert_int_equal(b.mem[i], 0x40 + round);
	}
	sge[1].length = 69; /* 129 in all */
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), EINVAL);
	pair_close(&a, &b);
}

UNIT_TEST(test_signalling)
{
	struct end_options options = { .send_wr = 8 };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	for (unsigned i = 0; i < 7; i++)
		assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, i, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0));
	end_quiet(a.send_cq);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 7, 0, 8, (uintptr_t)b.mem, b.mr->rkey,
			   IBV_SEND_SIGNALED));
	/* full, until that completion is polled */
	assert_int_equal(end_rdma(&a, IBV_WR_RDMA_READ, 8, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0),
			 ENOMEM);
	end_expect(a.send_cq, 7, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 8; i++)
		assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, i, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0));
	assert_int_equal(end_rdma(&a, IBV_WR_RDMA_READ, 8, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0),
			 ENOMEM);
	pair_close(&a, &b);
	options.sig_all = true;
	pair_open(&a, &b, &options, &options);
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 3, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0));
	end_expect(a.send_cq, 3, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

/* After an error, all that waits is flushed in order, sends and receives, and later posts too. */
UNIT_TEST(test_flush)
{
	struct end_options options = { .rnr_retry = FOR_EVER };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	for (unsigned i = 0; i < 5; i++) {
		assert_ok(end_recv(&a, 100 + i, 0, 8));
		assert_ok(end_send(&a, i, 0, 8, i & 1 ? IBV_SEND_SIGNALED : 0));
	}
	end_quiet(a.send_cq);
	assert_ok(end_send(&b, 50, 0, 8, IBV_SEND_SIGNALED));
	assert_ok(end_to(&a, IBV_QPS_ERR));
	assert_ok(end_send(&a, 5, 0, 8, 0));
	assert_ok(end_recv(&a, 105, 0, 8));
	for (unsigned i = 0; i < 6; i++)
		end_expect(a.send_cq, i, IBV_WC_WR_FLUSH_ERR);
	end_expect(a.recv_cq, 100, IBV_WC_SUCCESS);
	for (unsigned i = 1; i < 6; i++)
		end_expect(a.recv_cq, 100 + i, IBV_WC_WR_FLUSH_ERR);
	end_quiet(a.send_cq);
	end_quiet(a.recv_cq);
	/* and again from the start, with nothing left over */
	assert_ok(end_to(&a, IBV_QPS_RESET));
	assert_ok(end_to(&b, IBV_QPS_RESET));
	end_connect(&a, b.qp->qp_num);
	end_connect(&b, a.qp->qp_num);
	end_quiet(b.send_cq);
	assert_ok(end_recv(&b, 7, 0, 8));
	assert_ok(end_send(&a, 8, 0, 8, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 8, IBV_WC_SUCCESS);
	end_expect(b.recv_cq, 7, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

/* No completion of a destroyed QP is left. */
UNIT_TEST(test_destroy_drops)
{
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_pd *pd = softrdma_alloc_pd(context);
	struct end_options options = { .context = context, .pd = pd, .sig_all = true };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	for (unsigned i = 0; i < 4; i++) {
		assert_ok(end_recv(&b, i, 0, 8));
		assert_ok(end_send(&a, i, 0, 8, 0));
	}
	assert_ok(softrdma_destroy_qp(a.qp));
	assert_ok(softrdma_destroy_qp(b.qp));
	a.qp = b.qp = NULL;
	end_quiet(a.send_cq);
	end_quiet(b.recv_cq);
	pair_close(&a, &b);
	assert_ok(softrdma_dealloc_pd(pd));
	assert_ok(softrdma_close_device(context));
}

static enum ibv_event_type next_event(struct ibv_context *context)
{
	struct pollfd wait = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	assert_int_equal(poll(&wait, 1, 5000), 1);
	assert_ok(softrdma_get_async_event(context, &event));
	softrdma_ack_async_event(&event);
	return event.event_type;
}

UNIT_TEST(test_srq)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 2 } };
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_pd *pd = softrdma_alloc_pd(context);
	struct ibv_srq *srq = softrdma_create_srq(pd, &attr);
	struct end_options with = { .context = context, .pd = pd, .srq = srq };
	struct end_options without = { .context = context, .pd = pd, .rnr_retry = FOR_EVER };
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct end a[2], b[2];
	struct ibv_wc wc;

	pair_open(&a[0], &b[0], &without, &with);
	pair_open(&a[1], &b[1], &without, &with);
	for (unsigned i = 0; i < 8; i++)
		assert_ok(end_recv(&b[0], i, i * 64, 64));
	assert_int_equal(end_recv(&b[0], 8, 0, 64), ENOMEM);
	assert_ok(softrdma_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	for (unsigned i = 0; i < 8; i++) {
		struct end *from = &a[i & 1];

		from->mem[0] = (unsigned char)i;
		assert_ok(end_send(from, i, 0, 8, IBV_SEND_SIGNALED));
		end_expect(from->send_cq, i, IBV_WC_SUCCESS);
	}
	assert_int_equal(next_event(context), IBV_EVENT_SRQ_LIMIT_REACHED);
	/* in order of posting, each at its QP */
	for (unsigned i = 0; i < 8; i++) {
		end_wait(b[i & 1].recv_cq, &wc);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.qp_num, b[i & 1].qp->qp_num);
		assert_int_equal(b[0].mem[i * 64], i);
	}
	/* one waits for a receive and gets it */
	assert_ok(end_send(&a[1], 77, 0, 8, IBV_SEND_SIGNALED));
	end_quiet(a[1].send_cq);
	assert_ok(end_recv(&b[0], 9, 0, 64));
	end_expect(a[1].send_cq, 77, IBV_WC_SUCCESS);
	end_expect(b[1].recv_cq, 9, IBV_WC_SUCCESS);
	/* an error does not flush what others can use */
	assert_ok(end_recv(&b[0], 10, 0, 64));
	assert_ok(end_to(&b[0], IBV_QPS_ERR));
	assert_int_equal(next_event(context), IBV_EVENT_QP_LAST_WQE_REACHED);
	end_quiet(b[0].recv_cq);
	assert_ok(end_send(&a[1], 78, 0, 8, IBV_SEND_SIGNALED));
	end_expect(b[1].recv_cq, 10, IBV_WC_SUCCESS);
	pair_close(&a[0], &b[0]);
	pair_close(&a[1], &b[1]);
	assert_ok(softrdma_destroy_srq(srq));
	assert_ok(softrdma_dealloc_pd(pd));
	assert_ok(softrdma_close_device(context));
}

UNIT_TEST(test_overrun)
{
	struct end_options options = { .cqe = 4, .send_wr = 32 };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	for (unsigned i = 0; i < 6; i++)
		assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, i, 0, 8, (uintptr_t)b.mem, b.mr->rkey,
				   IBV_SEND_SIGNALED));
	assert_int_equal(next_event(a.context), IBV_EVENT_CQ_ERR);
	for (unsigned i = 0; i < 4; i++)
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 6; i++)
		assert_ok(end_recv(&b, i, 0, 8));
	for (unsigned i = 0; i < 6; i++)
		assert_ok(end_send(&a, i, 0, 8, 0));
	assert_int_equal(next_event(b.context), IBV_EVENT_CQ_ERR);
	for (unsigned i = 0; i < 4; i++)
		end_expect(b.recv_cq, i, IBV_WC_SUCCESS);
	end_quiet(b.recv_cq);
	pair_close(&a, &b);
}

UNIT_TEST(test_rnr)
{
	struct end_options options = { .rnr_retry = 0 },
			   patient = { .rnr_retry = 3, .rnr_timer = 12 };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	assert_ok(end_send(&a, 1, 0, 8, 0));
	assert_ok(end_send(&a, 2, 0, 8, 0));
	end_expect(a.send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	end_expect(a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_state(&b), IBV_QPS_RTS);
	pair_close(&a, &b);
	pair_open(&a, &b, &patient, &patient);
	assert_ok(end_send(&a, 1, 0, 8, 0));
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 2, 0, 8, (uintptr_t)b.mem, b.mr->rkey, 0));
	end_expect(a.send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	end_expect(a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_state(&a), IBV_QPS_ERR);
	pair_close(&a, &b);
}

/* A QP connected to itself. */
UNIT_TEST(test_self)
{
	struct end_options options = { .rnr_retry = FOR_EVER };
	struct end a;

	end_open(&a, &options);
	end_connect(&a, a.qp->qp_num);
	assert_ok(end_recv(&a, 1, 512, 64));
	memset(a.mem, 9, 64);
	assert_ok(end_send(&a, 2, 0, 64, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 2, IBV_WC_SUCCESS);
	end_expect(a.recv_cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(a.mem, a.mem + 512, 64);
	assert_ok(end_send(&a, 3, 0, 64, IBV_SEND_SIGNALED)); /* waits */
	assert_ok(end_to(&a, IBV_QPS_ERR));
	end_expect(a.send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	end_close(&a);
}
