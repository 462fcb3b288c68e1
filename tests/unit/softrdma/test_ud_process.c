/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Unreliable datagrams between processes: many senders, stopped and killed ones, fork(). */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"
#include "message.h"

#define SENDERS	 4
#define MESSAGES 2000
#define RECEIVES 64
#define SLOT	 128
#define QUICK	 300 /* sends; each would take a second if it had to wait for room */
#define QUICK_NS (10 * NS_PER_S)
#define KILLS	 5

static const struct end_options ud = { .type = IBV_QPT_UD };

static void far_open(struct far *far, const struct end_options *options, struct end *a)
{
	far_start(far, options);
	end_open(a, &ud);
	far_connect(far, a);
}

UNIT_TEST(test_data)
{
	struct ibv_wc wc;
	struct far far;
	struct end a;

	far_open(&far, &ud, &a);
	memset(a.mem, 0x71, 100);
	far_do(&far, FAR_RECV, GRH + 100);
	assert_ok(end_send(&a, 1, 0, 100, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	wc = far_do(&far, FAR_POLL, 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, GRH + 100);
	assert_int_equal(wc.src_qp, a.qp->qp_num);
	assert_int_equal(far_do(&far, FAR_PEEK, GRH + 99).byte_len, 0x71);
	assert_ok(end_recv(&a, 2, 4096, GRH + 100));
	wc = far_do(&far, FAR_SEND, 50);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	end_wait(a.recv_cq, &wc);
	assert_int_equal(wc.byte_len, GRH + 50);
	assert_int_equal(wc.src_qp, far.info.qpn);
	far_pair_close(&far, &a);
}

/* The receiver sleeps on its channel. */
UNIT_TEST(test_sleep)
{
	struct end_options other = { .type = IBV_QPT_UD, .channel = true };
	struct far far;
	struct end a;

	far_open(&far, &other, &a);
	for (unsigned i = 0; i < 200; i++) {
		far_do(&far, FAR_RECV, 64);
		far_ask(&far, FAR_SLEEP, 0);
		if (i % 4 == 0)
			usleep(2000); /* asleep by then */
		assert_ok(end_send(&a, i, 0, 8, IBV_SEND_SIGNALED));
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
		assert_int_equal(far_answer(&far).status, IBV_WC_SUCCESS);
	}
	far_pair_close(&far, &a);
}

/* A receiver from several: the last number of each, and how many came. */
struct crowd {
	struct end end;
	struct far far[SENDERS];
	uint64_t next[SENDERS], count[SENDERS];
};

static void crowd_open(struct crowd *crowd)
{
	memset(crowd, 0, sizeof(*crowd));
	for (unsigned i = 0; i < SENDERS; i++)
		far_start(&crowd->far[i], &ud);
	end_open(&crowd->end, &ud);
	end_connect(&crowd->end, 0);
	for (unsigned i = 0; i < SENDERS; i++)
		far_do(&crowd->far[i], FAR_CONNECT, crowd->end.qp->qp_num);
	for (unsigned i = 0; i < RECEIVES; i++)
		assert_ok(end_recv(&crowd->end, i, (size_t)i * SLOT, SLOT));
}

/* Take what is there. Each message is whole, and comes after those that its sender sent before. */
static bool crowd_poll(struct crowd *crowd)
{
	uint64_t number;
	struct ibv_wc wc;
	unsigned i = 0;

	if (ibv_poll_cq(crowd->end.recv_cq, 1, &wc) != 1)
		return false;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, GRH + 64);
	while (crowd->far[i].info.qpn != wc.src_qp)
		assert_true(++i < SENDERS);
	memcpy(&number, crowd->end.mem + wc.wr_id * SLOT + GRH, sizeof(number));
	assert_true(number >= crowd->next[i]);
	crowd->next[i] = number + 1;
	crowd->count[i]++;
	assert_ok(end_recv(&crowd->end, wc.wr_id, wc.wr_id * SLOT, SLOT));
	return true;
}

/* Until nothing has come for a while: longer than a sender waits for room. */
static void crowd_drain(struct crowd *crowd, uint64_t quiet_ms)
{
	uint64_t deadline = time_now_ns() + quiet_ms * NS_PER_MS;

	while (time_now_ns() < deadline) {
		if (crowd_poll(crowd))
			deadline = time_now_ns() + quiet_ms * NS_PER_MS;
		else
			time_relax();
	}
}

UNIT_TEST(test_many_senders)
{
	static struct crowd crowd;

	crowd_open(&crowd);
	for (unsigned i = 0; i < SENDERS; i++)
		far_ask(&crowd.far[i], FAR_FLOOD, MESSAGES);
	crowd_drain(&crowd, 1000);
	for (unsigned i = 0; i < SENDERS; i++) {
		print_message("  sender %u: %u of %u arrived\n", i, (unsigned)crowd.count[i],
			      MESSAGES);
		assert_true(crowd.count[i] > 0 && crowd.next[i] <= MESSAGES);
		far_answer(&crowd.far[i]);
		far_stop(&crowd.far[i]);
	}
	end_close(&crowd.end);
}

/* Senders die one after the other, in the middle of it; the others go on. */
UNIT_TEST(test_killed_sender)
{
	static struct crowd crowd;

	crowd_open(&crowd);
	for (unsigned i = 0; i < SENDERS; i++)
		far_ask(&crowd.far[i], FAR_FLOOD, UINT32_MAX);
	for (unsigned i = 0; i < SENDERS; i++) {
		uint64_t aim = crowd.count[SENDERS - 1] + 500;
		uint64_t deadline = time_now_ns() + 20 * NS_PER_S;

		while (crowd.count[SENDERS - 1] < aim) {
			assert_true(time_now_ns() < deadline);
			crowd_poll(&crowd);
		}
		far_kill(&crowd.far[i]);
	}
	crowd_drain(&crowd, 50);
	assert_int_equal(end_state(&crowd.end), IBV_QPS_RTS);
	end_close(&crowd.end);
}

/* Sends that end well and at once, whoever gets them. */
static void send_quick(struct end *a)
{
	uint64_t start = time_now_ns();

	for (unsigned i = 0; i < QUICK; i++) {
		assert_ok(end_send(a, i, 0, 64, IBV_SEND_SIGNALED));
		end_expect(a->send_cq, i, IBV_WC_SUCCESS);
	}
	assert_true(time_now_ns() - start < QUICK_NS);
	assert_int_equal(end_state(a), IBV_QPS_RTS);
}

UNIT_TEST(test_killed_receiver)
{
	struct far far;
	struct end a;

	for (unsigned run = 0; run < KILLS; run++) {
		far_open(&far, &ud, &a);
		for (unsigned i = 0; i < 10; i++)
			far_do(&far, FAR_RECV, SLOT);
		for (unsigned i = 0; i < 20; i++) {
			assert_ok(end_send(&a, i, 0, 64, IBV_SEND_SIGNALED));
			if (i == run * 5)
				far_kill(&far);
			end_expect(a.send_cq, i, IBV_WC_SUCCESS);
		}
		send_quick(&a);
		end_close(&a);
	}
}

/* It takes some; the rest waits a while and is lost. Those that it took come in order. */
UNIT_TEST(test_stopped_receiver)
{
	struct ibv_ah_attr route = { .is_global = 1, .port_num = 1 };
	uint32_t before = 0, window = 0;
	struct ibv_ah *own;
	struct far far;
	struct end a;

	far_open(&far, &ud, &a);
	for (unsigned i = 0; i < 32; i++)
		far_do(&far, FAR_RECV, 1024);
	kill(far.pid, SIGSTOP);
	assert_int_equal(waitpid(far.pid, NULL, WUNTRACED), far.pid);
	assert_ok(softrdma_query_gid(a.context, 1, 0, &route.grh.dgid));
	own = a.ah;
	for (uint32_t length = 1; length <= 600 && (!window || length < window + 4); length++) {
		struct ibv_wc wc;

		/* the handle may go while the message waits */
		a.ah = softrdma_create_ah(a.pd, &route);
		assert_non_null(a.ah);
		assert_ok(end_send(&a, length, 0, length, IBV_SEND_SIGNALED));
		assert_ok(softrdma_destroy_ah(a.ah));
		if (ibv_poll_cq(a.send_cq, 1, &wc) == 1)
			continue;
		window = window ? window : length - 1;
		end_expect(a.send_cq, length, IBV_WC_SUCCESS);
	}
	a.ah = own;
	print_message("  %u messages fit\n", window);
	assert_true(window > 0); /* else net.unix.max_dgram_qlen is 600 and more */
	kill(far.pid, SIGCONT);
	for (unsigned i = 0; i < window && i < 32; i++) {
		struct ibv_wc wc = far_do(&far, FAR_POLL, 0);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_true(wc.byte_len > before);
		before = wc.byte_len;
	}
	far_pair_close(&far, &a);
}

/* A forked child has nothing of its parent's: no messages, and no names when that is gone. */
UNIT_TEST(test_fork)
{
	struct far far;
	struct end a;

	for (unsigned run = 0; run < 2; run++) {
		pid_t child;

		far_open(&far, &ud, &a);
		child = (pid_t)far_do(&far, FAR_FORK, 0).byte_len;
		for (unsigned i = 0; i < 20; i++) {
			far_do(&far, FAR_RECV, SLOT);
			assert_ok(end_send(&a, i, 0, 64, IBV_SEND_SIGNALED));
			end_expect(a.send_cq, i, IBV_WC_SUCCESS);
			assert_int_equal(far_do(&far, FAR_POLL, 0).status, IBV_WC_SUCCESS);
		}
		if (run == 0)
			far_do(&far, FAR_DESTROY, 0x11);
		else
			far_kill(&far);
		send_quick(&a);
		assert_ok(kill(child, 0));
		kill(child, SIGKILL);
		end_close(&a);
		if (run == 0)
			far_stop(&far);
	}
}
