/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A program as others write it, linked with libibverbs and knowing nothing of soft0 but its name:
 * connects two queue pairs of its own and sends and reads through them.
 */
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                  \
	do {                                                                         \
		if (!(what)) {                                                       \
			fprintf(stderr, "loopback: line %d: %s\n", __LINE__, #what); \
			exit(1);                                                     \
		}                                                                    \
	} while (0)

enum { PORT = 1, SIZE = 4096, WAIT_MS = 20000 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qps[2];
static struct ibv_mr *mr;
static char memory[4 * SIZE]; /* two pages of each end */

static struct ibv_context *open_soft0(void)
{
	struct ibv_device **list, **device;
	struct ibv_context *opened;

	list = ibv_get_device_list(NULL);
	CHECK(list);
	for (device = list; *device; device++) {
		if (strcmp(ibv_get_device_name(*device), "soft0") == 0)
			break;
	}
	CHECK(*device);
	opened = ibv_open_device(*device);
	CHECK(opened);
	ibv_free_device_list(list);
	return opened;
}

static void query(void)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	union ibv_gid gid;

	CHECK(ibv_query_device(context, &device) == 0 && device.max_qp >= 2);
	CHECK(device.node_guid == ibv_get_device_guid(context->device));
	CHECK(ibv_query_port(context, PORT, &port) == 0 && port.state == IBV_PORT_ACTIVE);
	CHECK(ibv_query_port(context, PORT + 1, &port) != 0);
	CHECK(ibv_query_gid(context, PORT, 0, &gid) == 0);
}

static void create(void)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };

	pd = ibv_alloc_pd(context);
	CHECK(pd);
	channel = ibv_create_comp_channel(context);
	CHECK(channel);
	cq = ibv_create_cq(context, 16, NULL, channel, 0);
	CHECK(cq);
	mr = ibv_reg_mr(pd, memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_RELAXED_ORDERING);
	CHECK(mr);
	attr.send_cq = attr.recv_cq = cq;
	for (int i = 0; i < 2; i++) {
		attr.cap = (struct ibv_qp_cap){
			.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1
		};
		qps[i] = ibv_create_qp(pd, &attr);
		CHECK(qps[i]);
	}
}

static void connect_one(struct ibv_qp *qp, const struct ibv_qp *to)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
				    .port_num = PORT,
				    .qp_access_flags = IBV_ACCESS_REMOTE_READ };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = to->qp_num,
				   .rq_psn = 7,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 12,
				   .ah_attr = { .is_global = 1, .port_num = PORT } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .sq_psn = 7,
				   .max_rd_atomic = 1 };

	CHECK(ibv_query_gid(context, PORT, 0, &rtr.ah_attr.grh.dgid) == 0);
	CHECK(ibv_modify_qp(qp, &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	      0);
	CHECK(ibv_modify_qp(qp, &rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER) == 0);
	CHECK(ibv_modify_qp(qp, &rts,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static struct ibv_sge page(int index)
{
	return (struct ibv_sge){ (uintptr_t)&memory[index * SIZE], SIZE, mr->lkey };
}

/* Wait for @count completions by the channel, all good; the opcodes as a set of bits. */
static unsigned complete(int count)
{
	struct pollfd wait = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *of;
	struct ibv_wc wc;
	unsigned opcodes = 0;
	void *user;

	while (count > 0) {
		int n;

		CHECK(ibv_req_notify_cq(cq, 0) == 0);
		while ((n = ibv_poll_cq(cq, 1, &wc)) == 1) {
			CHECK(wc.status == IBV_WC_SUCCESS);
			opcodes |= 1u << (wc.opcode & 15) << (wc.opcode & IBV_WC_RECV ? 16 : 0);
			count--;
		}
		CHECK(n == 0);
		if (count <= 0)
			break;
		CHECK(poll(&wait, 1, WAIT_MS) == 1);
		CHECK(ibv_get_cq_event(channel, &of, &user) == 0 && of == cq);
		ibv_ack_cq_events(cq, 1);
	}
	return opcodes;
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, struct ibv_sge sge, void *remote)
{
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED
	};

	wr.wr.rdma.remote_addr = (uintptr_t)remote;
	wr.wr.rdma.rkey = mr->rkey;
	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

static void communicate(void)
{
	struct ibv_sge into = page(2);
	struct ibv_recv_wr *bad, receive = { .sg_list = &into, .num_sge = 1 };

	memset(&memory[0], 'a', SIZE);
	memset(&memory[3 * SIZE], 'b', SIZE);
	CHECK(ibv_post_recv(qps[1], &receive, &bad) == 0);
	post(qps[0], IBV_WR_SEND, page(0), NULL);
	CHECK(complete(2) == (1u << IBV_WC_SEND | 1u << 16));
	CHECK(memcmp(&memory[0], &memory[2 * SIZE], SIZE) == 0);
	post(qps[0], IBV_WR_RDMA_READ, page(1), &memory[3 * SIZE]);
	CHECK(complete(1) == 1u << IBV_WC_RDMA_READ);
	CHECK(memcmp(&memory[SIZE], &memory[3 * SIZE], SIZE) == 0);
}

static void destroy(void)
{
	CHECK(ibv_dealloc_pd(pd) != 0);
	for (int i = 0; i < 2; i++)
		CHECK(ibv_destroy_qp(qps[i]) == 0);
	CHECK(ibv_dereg_mr(mr) == 0);
	CHECK(ibv_destroy_cq(cq) == 0);
	CHECK(ibv_destroy_comp_channel(channel) == 0);
	CHECK(ibv_dealloc_pd(pd) == 0);
	CHECK(ibv_close_device(context) == 0);
}

int main(void)
{
	context = open_soft0();
	query();
	create();
	connect_one(qps[0], qps[1]);
	connect_one(qps[1], qps[0]);
	communicate();
	destroy();
	printf("sent and read\n");
	return 0;
}
