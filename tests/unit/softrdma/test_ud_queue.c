/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Unreliable datagrams and what is around them: states, flush, SRQ, CQ, events, strangers. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/softrdma/datagram/datagram.h"
#include "message.h"

#define MANY	  20
#define SOME	  6 /* more than one poll asks */
#define ROUNDS	  4
#define POLLED_NS (3 * NS_PER_MS)

static const struct end_options ud = { .type = IBV_QPT_UD };

/* States that receive and states that do not; nothing of a former life arrives. */
UNIT_TEST(test_states)
{
	struct message m;
	struct end a, b;

	end_open(&a, &ud);
	end_open(&b, &ud);
	end_connect(&a, b.qp->qp_num);
	m = message_to(&a, &b);
	for (unsigned round = 0; round < 50; round++) {
		message_send(&a, &m, IBV_WC_SUCCESS); /* RESET */
		assert_ok(end_init(&b));
		assert_ok(end_recv(&b, 1, 0, 64));
		assert_ok(end_recv(&b, 2, 0, 64));
		assert_ok(end_recv(&b, 3, 0, 64));
		message_send(&a, &m, IBV_WC_SUCCESS); /* INIT */
		if (round % 5 == 0)
			usleep(2000); /* it is received, and lost, before RTR is there */
		assert_ok(end_rtr(&b, 0));
		message_next(&a, &b, 1); /* RTR */
		assert_ok(end_rts(&b));
		assert_ok(end_to(&b, IBV_QPS_SQD));
		message_next(&a, &b, 2);
		assert_ok(end_to(&b, IBV_QPS_ERR));
		message_send(&a, &m, IBV_WC_SUCCESS);
		end_expect(b.recv_cq, 3, IBV_WC_WR_FLUSH_ERR);
		assert_ok(end_to(&b, IBV_QPS_RESET));
	}
	end_quiet(b.recv_cq);
	pair_close(&a, &b);
}

/* Received, not yet polled, and then ERR: the received ones come first; RESET forgets them. */
UNIT_TEST(test_flush)
{
	struct message m;
	struct end a, b;

	pair_open(&a, &b, &ud, &ud);
	m = message_to(&a, &b);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 5; i++)
			assert_ok(end_recv(&b, i, 0, 64));
		for (unsigned i = 0; i < 3; i++)
			message_send(&a, &m, IBV_WC_SUCCESS);
		usleep(20000); /* the service thread receives them; if not, they are lost */
		assert_ok(end_to(&b, IBV_QPS_ERR));
		for (unsigned i = 0, flushed = 0; i < 5 && round == 0; i++) {
			struct ibv_wc wc;

			end_wait(b.recv_cq, &wc);
			assert_int_equal(wc.wr_id, i);
			assert_true(wc.status == IBV_WC_WR_FLUSH_ERR || !flushed);
			flushed += wc.status == IBV_WC_WR_FLUSH_ERR;
		}
		assert_ok(end_to(&b, IBV_QPS_RESET));
		end_quiet(b.recv_cq);
		end_connect(&b, 0);
	}
	pair_close(&a, &b);
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
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_pd *pd = softrdma_alloc_pd(context);
	struct ibv_srq *srq = softrdma_create_srq(pd, &attr);
	struct end_options with = { .type = IBV_QPT_UD, .context = context, .pd = pd, .srq = srq };
	struct ibv_srq_attr limit = { .srq_limit = 3 };
	struct message m;
	struct end a, b, c;

	end_open(&a, &ud);
	end_connect(&a, 0);
	pair_open(&b, &c, &with, &with);
	for (unsigned i = 0; i < 4; i++)
		assert_ok(end_recv(&b, i, i * 64, 64));
	assert_ok(softrdma_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	message_next(&a, &b, 0);
	/* too short: used up, with an error, and no more than that */
	m = message_to(&a, &c);
	m.length = 25;
	message_send(&a, &m, IBV_WC_SUCCESS);
	end_expect(c.recv_cq, 1, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(next_event(context), IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_int_equal(end_state(&c), IBV_QPS_RTS);
	message_next(&a, &c, 2);
	assert_ok(end_to(&b, IBV_QPS_ERR));
	assert_int_equal(next_event(context), IBV_EVENT_QP_LAST_WQE_REACHED);
	end_quiet(b.recv_cq);
	message_next(&a, &c, 3);
	end_close(&a);
	pair_close(&b, &c);
	assert_ok(softrdma_destroy_srq(srq));
	assert_ok(softrdma_dealloc_pd(pd));
	assert_ok(softrdma_close_device(context));
}

static bool poll_slow(struct ibv_cq *cq, struct ibv_wc *wc)
{
	for (unsigned i = 0; i < 50; i++) {
		if (ibv_poll_cq(cq, 1, wc) == 1)
			return true;
		usleep(1000);
	}
	return false;
}

/* Many queue pairs on one CQ, which has room for few: each gets its own, an overrun is told. */
UNIT_TEST(test_shared_cq)
{
	struct end_options options = { .type = IBV_QPT_UD };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
					 .cap = { .max_recv_wr = 2, .max_recv_sge = 1 } };
	struct message m;
	struct end a, b[MANY];
	struct ibv_wc wc;
	uint32_t seen = 0;
	struct ibv_cq *cq;

	end_open(&a, &ud);
	end_connect(&a, 0);
	options.context = a.context;
	options.pd = a.pd;
	cq = softrdma_create_cq(a.context, MANY, NULL, NULL, 0);
	init.send_cq = init.recv_cq = cq;
	for (unsigned i = 0; i < MANY; i++) {
		end_open(&b[i], &options);
		assert_ok(softrdma_destroy_qp(b[i].qp));
		b[i].qp = softrdma_create_qp(a.pd, &init);
		assert_non_null(b[i].qp);
		end_connect(&b[i], 0);
		assert_ok(end_recv(&b[i], i, 0, 64));
		assert_ok(end_recv(&b[i], i, 0, 64));
	}
	for (unsigned i = 0; i < MANY; i++) {
		m = message_to(&a, &b[i]);
		message_send(&a, &m, IBV_WC_SUCCESS);
	}
	for (unsigned i = 0; i < MANY; i++) {
		end_wait(cq, &wc);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.qp_num, b[wc.wr_id].qp->qp_num);
		seen |= 1u << wc.wr_id;
	}
	assert_int_equal(seen, (1u << MANY) - 1);
	for (unsigned i = 0; i < MANY; i++) {
		assert_ok(end_recv(&b[i], i, 0, 64));
		m = message_to(&a, &b[i]);
		message_send(&a, &m, IBV_WC_SUCCESS);
		message_send(&a, &m, IBV_WC_SUCCESS);
	}
	assert_int_equal(next_event(a.context), IBV_EVENT_CQ_ERR);
	for (seen = 0; seen < MANY; seen++)
		end_wait(cq, &wc);
	/* those that came when there was room again, but not the one that was lost */
	while (poll_slow(cq, &wc))
		seen++;
	assert_true(seen < 2 * MANY);
	for (unsigned i = 0; i < MANY; i++)
		end_close(&b[i]);
	assert_ok(softrdma_destroy_cq(cq));
	end_close(&a);
}

/* They are polled all the time: none is left out, however long it goes on. */
UNIT_TEST(test_shared_polled)
{
	struct end_options options = { .type = IBV_QPT_UD };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
					 .cap = { .max_recv_wr = 1, .max_recv_sge = 1 } };
	struct end a, b[SOME];
	struct message m;
	struct ibv_wc wc;
	unsigned i;

	end_open(&a, &ud);
	end_connect(&a, 0);
	options.context = a.context;
	options.pd = a.pd;
	init.send_cq = a.send_cq;
	init.recv_cq = a.recv_cq;
	for (i = 0; i < SOME; i++) {
		end_open(&b[i], &options);
		assert_ok(softrdma_destroy_qp(b[i].qp));
		b[i].qp = softrdma_create_qp(a.pd, &init);
		assert_non_null(b[i].qp);
		end_connect(&b[i], 0);
	}
	for (i = 0; i < ROUNDS * SOME; i++) {
		uint64_t end = time_now_ns() + POLLED_NS;

		while (time_now_ns() < end)
			assert_ok(ibv_poll_cq(a.recv_cq, 1, &wc));
		assert_ok(end_recv(&b[i % SOME], i, 0, 64));
		m = message_to(&a, &b[i % SOME]);
		message_send(&a, &m, IBV_WC_SUCCESS);
		end = time_now_ns() + 5 * NS_PER_S;
		while (ibv_poll_cq(a.recv_cq, 1, &wc) == 0) /* without a pause */
			assert_true(time_now_ns() < end);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.qp_num, b[i % SOME].qp->qp_num);
	}
	for (i = 0; i < SOME; i++)
		end_close(&b[i]);
	end_close(&a);
}

/* Events of the completion channel: any, and solicited ones only. */
UNIT_TEST(test_notify)
{
	struct end_options other = { .type = IBV_QPT_UD, .channel = true };
	struct pollfd look = { .events = POLLIN };
	struct message m;
	struct end a, b;
	struct ibv_cq *cq;
	void *context;

	pair_open(&a, &b, &ud, &other);
	look.fd = b.channel->fd;
	m = message_to(&a, &b);
	for (unsigned i = 0; i < 3; i++)
		assert_ok(end_recv(&b, i, 0, 64));
	assert_ok(ibv_req_notify_cq(b.recv_cq, 0));
	message_send(&a, &m, IBV_WC_SUCCESS);
	assert_int_equal(poll(&look, 1, 5000), 1);
	assert_ok(softrdma_get_cq_event(b.channel, &cq, &context));
	softrdma_ack_cq_events(cq, 1);
	end_expect(b.recv_cq, 0, IBV_WC_SUCCESS);
	assert_ok(ibv_req_notify_cq(b.recv_cq, 1));
	message_send(&a, &m, IBV_WC_SUCCESS);
	assert_ok(poll(&look, 1, 50));
	m.flags |= IBV_SEND_SOLICITED;
	message_send(&a, &m, IBV_WC_SUCCESS);
	assert_int_equal(poll(&look, 1, 5000), 1);
	assert_ok(softrdma_get_cq_event(b.channel, &cq, &context));
	softrdma_ack_cq_events(cq, 1);
	end_expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	end_expect(b.recv_cq, 2, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

struct forged {
	struct datagram_header header;
	unsigned char payload[DATAGRAM_MTU + 64];
};

/* Send a forged one; @size of it, with its own length in the header if @fit. */
static void forge(int fd, uint32_t qpn, const struct datagram_header *header, size_t size)
{
	static struct forged forged;
	struct iovec piece = { &forged, size };
	unsigned tries = 0;
	int rc;

	forged.header = *header;
	/* the socket holds few */
	while ((rc = soft_datagram_send(fd, qpn, &piece, 1)) == -EAGAIN && tries++ < 5000)
		usleep(1000);
	assert_int_equal(rc, 0);
}

/* Whatever can be wrong with @good. @other: a QP that it does not come from. */
static void forge_wrong(int fd, uint32_t qpn, const struct datagram_header *good, uint32_t other)
{
	const size_t head = sizeof(*good);
	struct datagram_header bad;

	for (size_t size = 0; size < head; size += 9)
		forge(fd, qpn, good, size);
	forge(fd, qpn, good, head + 7);
	forge(fd, qpn, good, head + 9);
	forge(fd, qpn, good, head + DATAGRAM_MTU + 8);
	bad = *good;
	bad.length = DATAGRAM_MTU; /* so it looks when it is cut */
	forge(fd, qpn, &bad, head + DATAGRAM_MTU + 8);
	bad.length = good->length;
	bad.magic ^= 1;
	forge(fd, qpn, &bad, head + 8);
	bad = *good;
	bad.source = other; /* not that of its name */
	forge(fd, qpn, &bad, head + 8);
	bad = *good;
	bad.length = DATAGRAM_MTU + 1;
	forge(fd, qpn, &bad, head + DATAGRAM_MTU + 1);
	bad.length = UINT32_MAX;
	forge(fd, qpn, &bad, head + 8);
	bad = *good;
	bad.flags |= DATAGRAM_FLAGS + 1;
	forge(fd, qpn, &bad, head + 8);
	bad = *good;
	bad.reserved = 1;
	forge(fd, qpn, &bad, head + 8);
	bad = *good;
	bad.sgid.raw[15] ^= 0x40;
	forge(fd, qpn, &bad, head + 8);
	bad = *good;
	bad.dgid.raw[0] ^= 0x40;
	forge(fd, qpn, &bad, head + 8);
}

/* Strangers may send to the socket: what is wrong anywhere is no message. */
UNIT_TEST(test_forged)
{
	const uint32_t liar = 0x1000000 | (uint32_t)getpid(); /* no QP has it */
	struct datagram_header good, bad;
	struct ibv_wc wc;
	const size_t head = sizeof(good);
	struct end a, b;
	int fd;

	pair_open(&a, &b, &ud, &ud);
	for (unsigned i = 0; i < 2; i++)
		assert_ok(end_recv(&b, i, 0, 8192));
	fd = soft_datagram_open(liar);
	assert_true(fd >= 0);
	memset(&good, 0, sizeof(good));
	good.magic = DATAGRAM_MAGIC;
	good.source = liar;
	good.qkey = END_QKEY;
	good.length = 8;
	good.flags = DATAGRAM_GLOBAL;
	assert_ok(softrdma_query_gid(a.context, 1, 0, &good.sgid));
	good.dgid = good.sgid;
	forge(fd, b.qp->qp_num, &good, head + 8);
	end_expect(b.recv_cq, 0, IBV_WC_SUCCESS); /* so far it is one */
	/* so is one without a route: there is room for it all the same */
	bad = good;
	bad.flags = 0;
	bad.slid = 7;
	memset(&bad.sgid, 1, sizeof(bad.sgid));
	b.mem[0] = 0x99;
	assert_ok(end_recv(&b, 2, 0, 8192));
	forge(fd, b.qp->qp_num, &bad, head + 8);
	end_wait(b.recv_cq, &wc);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.wc_flags, 0);
	assert_int_equal(wc.byte_len, GRH + 8);
	assert_int_equal(wc.slid, 7);
	assert_int_equal(b.mem[0], 0);
	forge_wrong(fd, b.qp->qp_num, &good, a.qp->qp_num);
	end_quiet(b.recv_cq);
	assert_int_equal(end_state(&b), IBV_QPS_RTS);
	message_next(&a, &b, 2);
	close(fd);
	pair_close(&a, &b);
}
