/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * kv-credits-client HOST:PORT DEVICE QUEUE_PAIRS CREDITS SECONDS
 *
 * Keeps every credit of every queue pair in use: one PING for each request slot, the next as soon
 * as its reply is there. With an RNR retry count of 0, so that a receive that the server owes
 * breaks the queue pair at once. Prints "N replies" and exits 0, or says what broke and exits 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/parse.h"
#include "common/base/time.h"
#include "common/layout/root.h"
#include "common/layout/wire_rpc.h"
#include "common/rdma/exchange.h"
#include "common/rdma/post.h"
#include "common/rdma/qp.h"
#include "common/rdma/region.h"
#include "common/rdma/tcp.h"

#define STRIDE	    256u
#define DEADLINE_NS (20 * NS_PER_S)
#define RECEIVE_WR  (1ull << 32)

static struct rdma_device *dev;
static struct exchange_reader reader;
static struct rdma_buffer requests, replies;
static struct rdma_cq cq[SESSION_QPS_MAX];
static struct rdma_qp qp[SESSION_QPS_MAX];
static unsigned pairs, credits;
static uint64_t client_id[2], generation, sequence;
static struct error err;
static int line;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "kv-credits-client: %s: %s\n", what, why);
	exit(1);
}

static void check(int rc, const char *what)
{
	if (rc)
		die(what, rc == err.code ? err.text : error_name(rc));
}

static void *at(const struct rdma_buffer *b, unsigned q, unsigned i)
{
	return (char *)b->addr + (q * credits + i) * STRIDE;
}

static void ask(struct wire_frame *frame, enum wire_type want)
{
	uint64_t deadline = time_now_ns() + DEADLINE_NS;

	check(exchange_send(line, frame, deadline, &err), "the exchange");
	check(exchange_recv(line, &reader, want, frame, deadline, &err), "the exchange");
}

static void hello(const char *address, const char *device)
{
	struct rdma_options options = rdma_options_default();
	struct wire_frame frame = { .type = WIRE_HELLO };
	char host[256] = "", port[8] = "";

	options.device = device;
	options.rnr_retry = 0;
	check(parse_host_port("HOST:PORT", address, host, port, &err), "usage");
	check(tcp_connect(host, port, time_now_ns() + DEADLINE_NS, &line, &err), "connecting");
	check(rdma_device_open(&dev, &options, host, &err), "the device");
	if (getrandom(client_id, sizeof(client_id), 0) != sizeof(client_id))
		die("getrandom", "it gave too little");
	frame.hello.layout_version = LAYOUT_VERSION;
	frame.hello.layout_hash = layout_hash();
	frame.hello.first_sequence = 1;
	memcpy(frame.hello.client_id, client_id, sizeof(client_id));
	strcpy(frame.hello.name, "kv-credits-client");
	ask(&frame, WIRE_WELCOME);
	generation = frame.welcome.generation;
}

static void open_pair(unsigned q)
{
	const struct rdma_qp_config config = {
		.cq = &cq[q],
		.max_send = 2 * credits,
		.max_recv = credits,
		.remote_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	struct wire_frame frame = { .type = WIRE_QP_OPEN };

	check(rdma_cq_create(dev, 8 * credits, 0, false, &cq[q], &err), "a completion queue");
	check(rdma_qp_create(dev, &config, &qp[q], &err), "a queue pair");
	rdma_qp_offer(&qp[q], &frame.qp);
	frame.qp.handle = q;
	frame.qp.credits = credits;
	ask(&frame, WIRE_QP_OPENED);
	if (frame.qp.credits != credits)
		die("credits", "fewer were granted than asked for");
	check(rdma_qp_connect(&qp[q], &frame.qp, &err), "connecting");
}

static void post_receive(unsigned q, unsigned i)
{
	struct ibv_sge sge = { (uintptr_t)at(&replies, q, i), STRIDE, replies.region.lkey };
	struct ibv_recv_wr wr = { .wr_id = RECEIVE_WR | i, .sg_list = &sge, .num_sge = 1 };

	check(rdma_post_recv(qp[q].qp, &wr), "posting a receive");
}

static void send_ping(unsigned q, unsigned slot)
{
	struct rpc_request *r = at(&requests, q, slot);
	struct ibv_sge sge = { (uintptr_t)r, RPC_REQUEST_BYTES, requests.region.lkey };
	struct ibv_send_wr wr = { .wr_id = slot,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	*r = (struct rpc_request){ .magic = RPC_REQUEST_MAGIC,
				   .op = RPC_PING,
				   .slot = (uint16_t)slot,
				   .client_id = { client_id[0], client_id[1] },
				   .generation = generation,
				   .sequence = ++sequence };
	check(rdma_post_send(qp[q].qp, &wr, &bad), "posting a send");
}

/* Returns how many replies there were. */
static unsigned poll_pair(unsigned q)
{
	struct ibv_wc wc[32];
	int n = rdma_poll(cq[q].cq, 32, wc);
	unsigned got = 0;

	for (int i = 0; i < n; i++) {
		unsigned number = (unsigned)wc[i].wr_id;

		if (wc[i].status != IBV_WC_SUCCESS)
			die(wc[i].wr_id & RECEIVE_WR ? "a receive" : "a send",
			    wc[i].status == IBV_WC_RNR_RETRY_EXC_ERR
				    ? "the server had no receive posted within our credits"
				    : "it failed");
		if (!(wc[i].wr_id & RECEIVE_WR))
			continue;
		uint16_t slot = ((const struct rpc_reply *)at(&replies, q, number))->slot;

		post_receive(q, number);
		send_ping(q, slot);
		got++;
	}
	return got;
}

int main(int argc, char **argv)
{
	uint64_t seconds, n, got = 0, end;

	if (argc != 6 || parse_u64("QUEUE_PAIRS", argv[3], 1, SESSION_QPS_MAX, &n, &err))
		die("usage", "kv-credits-client HOST:PORT DEVICE QUEUE_PAIRS CREDITS SECONDS");
	pairs = (unsigned)n;
	check(parse_u64("CREDITS", argv[4], 1, RPC_SLOTS_MAX, &n, &err), "usage");
	credits = (unsigned)n;
	check(parse_u64("SECONDS", argv[5], 1, 60, &seconds, &err), "usage");
	hello(argv[1], argv[2]);
	check(rdma_buffer_create(dev, pairs * credits * STRIDE, IBV_ACCESS_LOCAL_WRITE, "requests",
				 &requests, &err),
	      "requests");
	check(rdma_buffer_create(dev, pairs * credits * STRIDE, IBV_ACCESS_LOCAL_WRITE, "replies",
				 &replies, &err),
	      "replies");
	for (unsigned q = 0; q < pairs; q++)
		open_pair(q);
	for (unsigned i = 0; i < pairs * credits; i++)
		post_receive(i / credits, i % credits);
	for (unsigned i = 0; i < pairs * credits; i++)
		send_ping(i / credits, i % credits);
	for (end = time_now_ns() + seconds * NS_PER_S; time_now_ns() < end;) {
		for (unsigned q = 0; q < pairs; q++)
			got += poll_pair(q);
	}
	printf("%llu replies\n", (unsigned long long)got);
	return got ? 0 : 1;
}
