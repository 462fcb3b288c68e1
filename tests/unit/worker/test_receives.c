/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Accounts of receive buffers, on soft0: what a dead queue pair kept is found and posted again, not
 * before it is certain, and not twice. A completion that the test polls and drops stands for one
 * that the device never made.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/time.h"
#include "common/rdma/post.h"
#include "common/rdma/qp.h"
#include "server/worker/receives.h"

#define CREDITS 100u
#define BUFFERS RECEIVE_CHUNK /* posted, for so many credits */

static struct rdma_device *dev;
static struct rdma_cq cq, sender_cq;
static struct rdma_qp sender, receiver;
static struct receives r;
static bool seen[4 * RECEIVE_CHUNK];
static unsigned drop; /* so many completions to come are dropped */
static uint64_t dropped[8];
static unsigned dropped_count;

static void post_all(void)
{
	while (r.posted < r.chunks * RECEIVE_CHUNK)
		assert_int_equal(receives_post_more(&r), 0);
}

static void pair_open(void)
{
	struct rdma_qp_config config = { .cq = &sender_cq, .max_send = 8, .max_recv = 1 };
	struct wire_qp a, b;
	struct error err;

	assert_int_equal(rdma_qp_create(dev, &config, &sender, &err), 0);
	config.cq = &cq;
	config.srq = &r.srq;
	assert_int_equal(rdma_qp_create(dev, &config, &receiver, &err), 0);
	rdma_qp_offer(&sender, &a);
	rdma_qp_offer(&receiver, &b);
	assert_int_equal(rdma_qp_connect(&sender, &b, &err), 0);
	assert_int_equal(rdma_qp_connect(&receiver, &a, &err), 0);
}

static int setup(void **state)
{
	struct rdma_options options = rdma_options_default();
	struct error err;

	options.device = "soft0";
	assert_int_equal(rdma_device_open(&dev, &options, NULL, &err), 0);
	memset(&r, 0, sizeof(r));
	memset(seen, 0, sizeof(seen));
	drop = dropped_count = 0;
	assert_int_equal(receives_create(&r, dev, 4 * RECEIVE_CHUNK, &err), 0);
	assert_int_equal(receives_room(&r, dev, CREDITS, &err), 0);
	assert_int_equal(r.chunks, 1);
	post_all();
	assert_int_equal(rdma_cq_create(dev, 4096, 0, false, &cq, &err), 0);
	assert_int_equal(rdma_cq_create(dev, 16, 0, false, &sender_cq, &err), 0);
	pair_open();
	return 0;
}

static int teardown(void **state)
{
	rdma_qp_destroy(&sender);
	rdma_qp_destroy(&receiver);
	rdma_cq_destroy(&sender_cq);
	rdma_cq_destroy(&cq);
	receives_destroy(&r);
	rdma_device_close(dev);
	return 0;
}

static void take(uint64_t wr_id)
{
	if (drop) {
		drop--;
		dropped[dropped_count++] = wr_id;
		return;
	}
	seen[(uint32_t)wr_id] = true;
	receives_again(&r, wr_id);
}

/* One message, to its end on both sides. */
static void message(void)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	uint64_t end = time_now_ns() + 10 * NS_PER_S;
	unsigned received = 0, sent = 0;
	struct ibv_wc wc;

	assert_int_equal(rdma_post_send(sender.qp, &send, &bad), 0);
	while (!received || !sent) {
		assert_true(time_now_ns() < end);
		if (rdma_poll(cq.cq, 1, &wc) == 1) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			take(wc.wr_id);
			received++;
		}
		if (rdma_poll(sender_cq.cq, 1, &wc) == 1) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			sent++;
		}
	}
	receives_flush(&r);
}

static void messages(unsigned count)
{
	while (count--)
		message();
}

static unsigned held(void)
{
	return atomic_load(&r.held);
}

/* The next turn of the queue brings every buffer, each once. */
static void expect_all_there(unsigned count)
{
	memset(seen, 0, sizeof(seen));
	messages(count);
	for (unsigned i = 0; i < count; i++)
		assert_true(seen[i]);
}

UNIT_TEST(test_kept_receives_are_posted_again, setup, teardown)
{
	messages(10);
	drop = 3;
	messages(3);
	receives_death(&r, false);
	assert_int_equal(held(), 1);
	messages(3 * BUFFERS - 1);
	assert_false(receives_audit_due(&r));
	message();
	assert_true(receives_audit_due(&r));
	assert_int_equal(receives_audit(&r, UINT64_MAX), 3);
	assert_int_equal(atomic_load(&r.lost), 3);
	assert_int_equal(held(), 0);
	assert_false(receives_audit_due(&r));
	expect_all_there(BUFFERS);
}

UNIT_TEST(test_kept_behind_the_event_are_found_too, setup, teardown)
{
	drop = 2;
	messages(2);
	receives_death(&r, true);
	assert_int_equal(held(), 0); /* nobody expects it */
	messages(3 * BUFFERS);
	assert_true(receives_audit_due(&r));
	assert_int_equal(receives_audit(&r, UINT64_MAX), 2);
	expect_all_there(BUFFERS);
}

UNIT_TEST(test_nothing_is_posted_under_a_silent_queue_pair, setup, teardown)
{
	drop = 2;
	messages(2);
	receives_death(&r, false);
	messages(3 * BUFFERS);
	/* somebody was last heard just before the audit could be sure: it may hold them */
	assert_int_equal(receives_audit(&r, r.audit_sure - 1), 0);
	assert_int_equal(held(), 2);
	/* and gives one back, late: it is here, and is not posted a second time */
	receives_again(&r, dropped[0]);
	receives_flush(&r);
	messages(3 * BUFFERS);
	assert_true(receives_audit_due(&r));
	assert_int_equal(receives_audit(&r, r.audit_sure), 1);
	assert_int_equal(held(), 0);
	expect_all_there(BUFFERS);
}

UNIT_TEST(test_what_an_older_queue_pair_may_hold_is_replaced, setup, teardown)
{
	const unsigned all = r.max - RECEIVE_CHAIN;
	receives_time came;
	struct error err;

	drop = 8;
	messages(8);
	receives_death(&r, false);
	assert_int_equal(receives_credits(&r), all); /* nothing is known yet */
	messages(3 * BUFFERS);
	assert_int_equal(receives_audit(&r, 0), 0);
	assert_int_equal(held(), 8);
	/* fresh ones stand in, as far as the queue goes; then fewer credits are given out */
	assert_int_equal(receives_credits(&r), all - 8);
	assert_int_equal(receives_room(&r, dev, all - 7, &err), -EUSERS);
	assert_non_null(strstr(err.text, "have died"));
	assert_int_equal(receives_room(&r, dev, BUFFERS - RECEIVE_CHAIN - 7, &err), 0);
	assert_int_equal(r.chunks, 2);
	/* in the end none lives that was attached before they had left the queue */
	came = r.now;
	messages(3 * BUFFERS);
	assert_true(receives_audit_due(&r));
	assert_int_equal(receives_audit(&r, came), 8);
	assert_int_equal(held(), 0);
	assert_int_equal(receives_credits(&r), all);
	expect_all_there(BUFFERS);
}

UNIT_TEST(test_deaths_in_peace_find_nothing, setup, teardown)
{
	for (unsigned i = 0; i < 5; i++) {
		receives_death(&r, i % 2);
		messages(BUFFERS / 2);
	}
	for (unsigned i = 0; i < 3 * BUFFERS && !receives_audit_due(&r); i++)
		message();
	assert_true(receives_audit_due(&r));
	assert_int_equal(receives_audit(&r, UINT64_MAX), 0);
	assert_int_equal(atomic_load(&r.lost), 0);
	/* those that came after the audit was opened have one of their own */
	messages(3 * BUFFERS);
	assert_true(receives_audit_due(&r));
	assert_int_equal(receives_audit(&r, UINT64_MAX), 0);
	assert_int_equal(held(), 0);
	assert_false(receives_audit_due(&r));
	expect_all_there(BUFFERS);
}

/* A client dies and comes back with many credits before anything else is received. */
UNIT_TEST(test_fresh_buffers_behind_a_death_are_not_taken_for_kept, setup, teardown)
{
	struct error err;

	messages(10);
	receives_death(&r, true);
	assert_int_equal(receives_room(&r, dev, r.max - RECEIVE_CHAIN, &err), 0);
	post_all();
	messages(3 * BUFFERS);
	assert_true(receives_audit_due(&r));
	assert_int_equal(receives_audit(&r, UINT64_MAX), 0);
	assert_int_equal(held(), 0);
	assert_int_equal(atomic_load(&r.lost), 0);
}

UNIT_TEST(test_others_stand_in_for_what_may_be_missing, setup, teardown)
{
	struct error err;

	for (unsigned i = 0; i < 2 * RECEIVE_CHUNK; i++)
		receives_death(&r, false);
	assert_int_equal(held(), RECEIVE_CHUNK); /* a chunk is enough, before anything is known */
	assert_int_equal(receives_room(&r, dev, CREDITS, &err), 0);
	assert_int_equal(r.chunks, 2);
	post_all();
	/* credits come first: what may be missing takes no room from them */
	assert_int_equal(receives_room(&r, dev, r.max - RECEIVE_CHAIN, &err), 0);
	assert_int_equal(r.chunks, 4);
}
