/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Completion channels, as the man pages have them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"

static bool event_waits(struct end *end)
{
	struct pollfd look = { .fd = end->channel->fd, .events = POLLIN };

	return poll(&look, 1, 0) == 1;
}

static void event_take(struct end *end)
{
	struct ibv_cq *cq;
	void *context;

	assert_ok(softrdma_get_cq_event(end->channel, &cq, &context));
	assert_ptr_equal(cq, end->recv_cq);
	assert_ptr_equal(context, end);
	softrdma_ack_cq_events(cq, 1);
}

static void send_one(struct end *a, struct end *b, unsigned flags)
{
	assert_ok(end_recv(b, 1, 0, 8));
	assert_ok(end_send(a, 1, 0, 8, flags));
}

UNIT_TEST(test_once)
{
	struct end_options near = { .mapped = false }, other = { .channel = true };
	struct end a, b;
	struct ibv_wc wc[8];

	pair_open(&a, &b, &near, &other);
	send_one(&a, &b, 0);
	assert_false(event_waits(&b)); /* not armed */
	assert_ok(ibv_req_notify_cq(b.recv_cq, 0));
	assert_false(event_waits(&b)); /* what is there already does not count */
	send_one(&a, &b, 0);
	send_one(&a, &b, 0);
	assert_true(event_waits(&b));
	event_take(&b);
	assert_false(event_waits(&b)); /* once for two */
	assert_int_equal(ibv_poll_cq(b.recv_cq, 8, wc), 3);
	/* armed for solicited ones only */
	assert_ok(ibv_req_notify_cq(b.recv_cq, 1));
	send_one(&a, &b, 0);
	assert_false(event_waits(&b));
	send_one(&a, &b, IBV_SEND_SOLICITED);
	assert_true(event_waits(&b));
	event_take(&b);
	/* both: any */
	assert_ok(ibv_req_notify_cq(b.recv_cq, 0));
	assert_ok(ibv_req_notify_cq(b.recv_cq, 1));
	send_one(&a, &b, 0);
	assert_true(event_waits(&b));
	event_take(&b);
	/* an error is as good as a solicited one */
	assert_ok(ibv_req_notify_cq(b.recv_cq, 1));
	assert_ok(end_recv(&b, 1, 0, 8));
	assert_ok(end_to(&b, IBV_QPS_ERR));
	assert_true(event_waits(&b));
	event_take(&b);
	pair_close(&a, &b);
}

UNIT_TEST(test_nonblocking)
{
	struct end_options near = { .mapped = false }, other = { .channel = true };
	struct ibv_cq *cq;
	struct end a, b;
	void *context;

	pair_open(&a, &b, &near, &other);
	assert_ok(fcntl(b.channel->fd, F_SETFL, O_NONBLOCK));
	assert_int_equal(softrdma_get_cq_event(b.channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(softrdma_destroy_comp_channel(b.channel), EBUSY);
	/* an event of a CQ that is gone is no event */
	assert_ok(ibv_req_notify_cq(b.recv_cq, 0));
	send_one(&a, &b, 0);
	assert_ok(softrdma_destroy_qp(b.qp));
	b.qp = NULL;
	assert_ok(softrdma_destroy_cq(b.recv_cq));
	assert_int_equal(softrdma_get_cq_event(b.channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	b.recv_cq = softrdma_create_cq(b.context, 1, NULL, NULL, 0);
	pair_close(&a, &b);
}

static void *ack_later(void *arg)
{
	usleep(20000);
	softrdma_ack_cq_events(arg, 2);
	return NULL;
}

/* destroy_cq waits until events are acknowledged. */
UNIT_TEST(test_ack)
{
	struct end_options near = { .mapped = false }, other = { .channel = true };
	struct ibv_cq *cq;
	pthread_t thread;
	struct end a, b;
	void *context;

	pair_open(&a, &b, &near, &other);
	for (unsigned i = 0; i < 2; i++) {
		assert_ok(ibv_req_notify_cq(b.recv_cq, 0));
		send_one(&a, &b, 0);
		assert_ok(softrdma_get_cq_event(b.channel, &cq, &context));
	}
	assert_ok(pthread_create(&thread, NULL, ack_later, b.recv_cq));
	pair_close(&a, &b);
	pthread_join(thread, NULL);
}

struct sleeper {
	struct end *end;
	unsigned want, got;
};

static void *sleep_and_count(void *arg)
{
	struct sleeper *s = arg;
	struct ibv_wc wc[4];

	while (s->got < s->want) {
		struct ibv_cq *cq;
		void *context;
		int n;

		ibv_req_notify_cq(s->end->recv_cq, 0);
		n = ibv_poll_cq(s->end->recv_cq, 4, wc);
		if (n == 0) {
			softrdma_get_cq_event(s->end->channel, &cq, &context);
			softrdma_ack_cq_events(cq, 1);
			continue;
		}
		for (int i = 0; i < n; i++)
			end_recv(s->end, 1, 0, 8);
		s->got += (unsigned)n;
	}
	return NULL;
}

/* No wake-up is lost: a hang here is the failure. */
UNIT_TEST(test_race)
{
	struct end_options near = { .rnr_retry = 7 }, other = { .channel = true };
	struct sleeper sleeper = { .want = 20000 };
	pthread_t thread;
	struct end a, b;

	pair_open(&a, &b, &near, &other);
	sleeper.end = &b;
	for (unsigned i = 0; i < 8; i++)
		assert_ok(end_recv(&b, 1, 0, 8));
	assert_ok(pthread_create(&thread, NULL, sleep_and_count, &sleeper));
	for (unsigned i = 0; i < sleeper.want; i++) {
		assert_ok(end_send(&a, i, 0, 8, IBV_SEND_SIGNALED));
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	}
	pthread_join(thread, NULL);
	pair_close(&a, &b);
}
