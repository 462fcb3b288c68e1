/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "ends.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/time.h"

#define WAIT_NS	 (5 * NS_PER_S)
#define QUIET_NS (20 * NS_PER_MS)

static struct ibv_cq *end_cq(struct end *end, void *cq_context, struct ibv_comp_channel *channel)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = end->options.cqe ? (uint32_t)end->options.cqe
								    : 256,
					    .cq_context = cq_context,
					    .channel = channel,
					    .wc_flags = IBV_WC_STANDARD_FLAGS,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = end->options.cq_flags };

	if (end->options.cq_ex)
		return ibv_cq_ex_to_cq(softrdma_create_cq_ex(end->context, &attr));
	return softrdma_create_cq(end->context, (int)attr.cqe, cq_context, channel, 0);
}

struct ibv_ah_attr end_path(struct ibv_context *context)
{
	struct ibv_ah_attr path = { .port_num = 1 };
	struct ibv_port_attr port;

	assert(softrdma_query_port(context, 1, &port) == 0);
	path.dlid = port.lid;
	path.is_global = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	if (path.is_global)
		assert(softrdma_query_gid(context, 1, 0, &path.grh.dgid) == 0);
	return path;
}

void end_open(struct end *end, const struct end_options *options)
{
	struct ibv_qp_init_attr init = { .qp_type = options->type ? options->type : IBV_QPT_RC };
	struct ibv_ah_attr path;
	int access = options->mr_access ? options->mr_access : END_ALL;

	memset(end, 0, sizeof(*end));
	end->options = *options;
	end->size = options->size ? options->size : 1 << 20;
	end->context =
		options->context ? options->context : softrdma_open_device(softrdma_device());
	assert(end->context);
	end->pd = options->pd ? options->pd : softrdma_alloc_pd(end->context);
	assert(end->pd);
	if (options->channel)
		end->channel = softrdma_create_comp_channel(end->context);
	end->send_cq = end_cq(end, NULL, NULL);
	end->recv_cq = end_cq(end, end, end->channel);
	assert(end->send_cq && end->recv_cq);
	end->fd = -1;
	if (options->memory) {
		end->mem = options->memory;
	} else if (options->mapped) {
		end->fd = memfd_create("end", MFD_CLOEXEC);
		assert(end->fd >= 0 && ftruncate(end->fd, (off_t)end->size) == 0);
		end->mem = mmap(NULL, end->size, PROT_READ | PROT_WRITE, MAP_SHARED, end->fd, 0);
	} else {
		end->mem = mmap(NULL, end->size, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	assert(end->mem != MAP_FAILED);
	if (options->private_mr)
		access = IBV_ACCESS_LOCAL_WRITE;
	end->base = options->iova ? END_IOVA : (uintptr_t)end->mem;
	end->mr = softrdma_reg_mr_iova(end->pd, end->mem, end->size, end->base, (unsigned)access);
	assert(end->mr);
	init.send_cq = end->send_cq;
	init.recv_cq = end->recv_cq;
	init.srq = options->srq;
	init.sq_sig_all = options->sig_all;
	init.cap = (struct ibv_qp_cap){ .max_send_wr = options->send_wr ? options->send_wr : 64,
					.max_recv_wr = 64,
					.max_send_sge = options->send_sge ? options->send_sge : 4,
					.max_recv_sge = 4,
					.max_inline_data = 128 };
	end->qp = softrdma_create_qp(end->pd, &init);
	assert(end->qp);
	if (init.qp_type == IBV_QPT_UD) {
		path = end_path(end->context);
		end->ah = softrdma_create_ah(end->pd, &path);
		assert(end->ah);
	}
}

void end_close(struct end *end)
{
	if (end->qp)
		assert_ok(softrdma_destroy_qp(end->qp));
	if (end->ah)
		assert_ok(softrdma_destroy_ah(end->ah));
	if (end->mr)
		assert_ok(softrdma_dereg_mr(end->mr));
	assert_ok(softrdma_destroy_cq(end->send_cq));
	assert_ok(softrdma_destroy_cq(end->recv_cq));
	if (end->channel)
		assert_ok(softrdma_destroy_comp_channel(end->channel));
	if (!end->options.pd)
		assert_ok(softrdma_dealloc_pd(end->pd));
	if (!end->options.context)
		assert_ok(softrdma_close_device(end->context));
	if (!end->options.memory)
		munmap(end->mem, end->size);
	if (end->fd >= 0)
		close(end->fd);
}

struct end_info end_info(const struct end *end)
{
	return (struct end_info){ .qpn = end->qp->qp_num,
				  .rkey = end->mr->rkey,
				  .addr = end->base };
}

int end_init(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qkey = END_QKEY,
				    .qp_access_flags = (unsigned)(end->options.qp_access
									  ? end->options.qp_access
									  : END_ALL) };

	return softrdma_modify_qp(
		end->qp, &attr,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			(end->qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int end_rtr(struct end *end, uint32_t dest)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_4096,
				    .dest_qp_num = dest,
				    .max_dest_rd_atomic = end->options.no_rd_atomic ? 0 : 16,
				    .min_rnr_timer = end->options.rnr_timer };

	int mask = IBV_QP_STATE;

	attr.ah_attr = end_path(end->context);
	end->dest = dest;
	if (end->qp->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (end->qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return softrdma_modify_qp(end->qp, &attr, mask);
}

int end_rts(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = end->options.timeout ? end->options.timeout : 12,
				    .retry_cnt = 7,
				    .rnr_retry = end->options.rnr_retry,
				    .max_rd_atomic = end->options.no_rd_atomic ? 0 : 16 };

	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (end->qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return softrdma_modify_qp(end->qp, &attr, mask);
}

void end_connect(struct end *end, uint32_t dest)
{
	int rc = end_init(end) | end_rtr(end, dest) | end_rts(end);

	assert(rc == 0);
}

int end_to(struct end *end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return softrdma_modify_qp(end->qp, &attr, IBV_QP_STATE);
}

enum ibv_qp_state end_state(struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert(softrdma_query_qp(end->qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state;
}

int end_rdma(struct end *end, enum ibv_wr_opcode opcode, uint64_t wr_id, size_t offset,
	     uint32_t length, uint64_t remote, uint32_t rkey, unsigned flags)
{
	struct ibv_sge sge = { .addr = end->base + offset,
			       .length = length,
			       .lkey = end->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = flags,
				  .imm_data = 0x12345678,
				  .wr.rdma = { .remote_addr = remote, .rkey = rkey } },
			   *bad = NULL;
	int rc;

	if (end->qp->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = end->ah;
		wr.wr.ud.remote_qpn = end->dest;
		wr.wr.ud.remote_qkey = END_QKEY;
	}
	rc = ibv_post_send(end->qp, &wr, &bad);
	assert(rc == 0 || bad == &wr);
	return rc;
}

int end_atomic(struct end *end, enum ibv_wr_opcode opcode, uint64_t wr_id, size_t offset,
	       uint64_t remote, uint32_t rkey, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->mem + offset,
			       .length = 8,
			       .lkey = end->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.atomic = { .remote_addr = remote,
						 .rkey = rkey,
						 .compare_add = compare_add,
						 .swap = swap } },
			   *bad;

	return ibv_post_send(end->qp, &wr, &bad);
}

int end_send(struct end *end, uint64_t wr_id, size_t offset, uint32_t length, unsigned flags)
{
	return end_rdma(end, IBV_WR_SEND, wr_id, offset, length, 0, 0, flags);
}

int end_recv(struct end *end, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = { .addr = end->base + offset,
			       .length = length,
			       .lkey = end->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (end->options.srq)
		return ibv_post_srq_recv(end->options.srq, &wr, &bad);
	return ibv_post_recv(end->qp, &wr, &bad);
}

void end_wait(struct ibv_cq *cq, struct ibv_wc *wc)
{
	uint64_t deadline = time_now_ns() + WAIT_NS;
	int n;

	while ((n = ibv_poll_cq(cq, 1, wc)) == 0) {
		if (time_now_ns() > deadline)
			fail_msg("no completion in 5 seconds");
		sched_yield();
	}
	assert_int_equal(n, 1);
}

void end_quiet(struct ibv_cq *cq)
{
	uint64_t deadline = time_now_ns() + QUIET_NS;
	struct ibv_wc wc;

	while (time_now_ns() < deadline)
		assert_ok(ibv_poll_cq(cq, 1, &wc));
}

void end_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	end_wait(cq, &wc);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.wr_id, wr_id);
}

void pair_open(struct end *a, struct end *b, const struct end_options *oa,
	       const struct end_options *ob)
{
	end_open(a, oa);
	end_open(b, ob);
	end_connect(a, b->qp->qp_num);
	end_connect(b, a->qp->qp_num);
}

void pair_close(struct end *a, struct end *b)
{
	end_close(a);
	end_close(b);
}
