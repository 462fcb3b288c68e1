/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A device that takes receives ahead of the messages that they are for, and completes others of the
 * same queue pair first. What a living queue pair may still have is not posted a second time,
 * however much it has completed since. A whole server, and its clients, in this process: the device
 * is soft0, but the server is told that it is another one, and a completion is kept from it for a
 * while.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <gracekv.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "server/worker/worker_internal.h"
#include "tools/lib/server_thread.h"

#define MEMORY	 (64u << 20)
#define LEASE_MS 60000u
#define WAIT_NS	 (20 * NS_PER_S)
#define TURN	 (3 * RECEIVE_CHUNK + 64) /* requests: one audit, whenever it begins */

enum keep { NOTHING, NEXT, KEPT, RELEASE };

static struct server_thread server;
static int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static _Atomic enum keep keep;
static struct ibv_wc kept;

struct member {
	struct gkv_session *session;
	struct gkv *kv;
};

static int poll_but_one(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	int n = poll_cq(cq, max - 1, wc);

	if (n >= 0 && atomic_load(&keep) == RELEASE) {
		wc[n++] = kept;
		atomic_store(&keep, NOTHING);
	}
	for (int i = 0; i < n && atomic_load(&keep) == NEXT; i++) {
		if (!(wc[i].wr_id & RECEIVE_WR) || wc[i].status != IBV_WC_SUCCESS)
			continue;
		kept = wc[i];
		memmove(&wc[i], &wc[i + 1], (size_t)(--n - i) * sizeof(*wc));
		atomic_store(&keep, KEPT);
	}
	return n;
}

static int set_up(void **state)
{
	struct error err;

	log_setup("test", LOG_ERROR, LOG_TEXT);
	server.lease_ms = LEASE_MS;
	if (server_thread_start(&server, MEMORY, 0, &err)) {
		print_error("%s\n", err.text);
		return -1;
	}
	atomic_store(&keep, NOTHING);
	poll_cq = server.server.dev->context->ops.poll_cq;
	server.server.dev->context->ops.poll_cq = poll_but_one;
	server.server.dev->software = false; /* before there is a queue pair */
	return 0;
}

static int tear_down(void **state)
{
	server_thread_stop(&server);
	return 0;
}

static void join(struct member *m)
{
	struct gkv_options o;

	gkv_options_init(&o);
	o.server = server.server.bound;
	o.device = "soft0";
	o.timeout_ms = 60000;
	assert_int_equal(gkv_session_open(&o, &m->session, NULL, 0), 0);
	assert_int_equal(gkv_open(m->session, NULL, &m->kv, NULL, 0), 0);
}

/* And nothing of it is left: what comes after comes after its death. */
static void leave(struct member *m)
{
	const _Atomic uint64_t *sessions = &server.server.sessions.counters.sessions;
	const uint64_t before = atomic_load(sessions), end = time_now_ns() + WAIT_NS;

	gkv_close(m->kv);
	gkv_session_close(m->session);
	while (atomic_load(sessions) == before) {
		time_sleep(NS_PER_MS);
		assert_true(time_now_ns() < end);
	}
}

static void turn(struct member *m)
{
	for (unsigned i = 0; i < TURN; i++)
		assert_int_equal(gkv_ping(m->kv, NULL), 0);
}

/* A request whose receive the server does not see complete. */
static void send_in_vain(struct member *m)
{
	static char value[] = "value";
	struct gkv_request put = {
		.op = GKV_OP_PUT, .key = "key", .key_len = 3, .value = value, .len = 5
	};
	uint64_t end = time_now_ns() + WAIT_NS;

	atomic_store(&keep, NEXT);
	assert_int_equal(gkv_submit(m->kv, &put, 1), 1);
	while (atomic_load(&keep) != KEPT) {
		gkv_poll(m->kv, NULL, 0);
		assert_true(time_now_ns() < end);
	}
}

/* A queue pair that takes no receive needs none that is left: the housekeeper's. */
UNIT_TEST(without_receives_left_there_is_a_housekeeper, set_up, tear_down)
{
	struct worker *w = server.server.sessions.workers[0];
	struct rdma_device *dev = server.server.dev;
	struct error err;
	struct conn *c;

	w->credits = 1; /* nobody is connected */
	atomic_store(&w->receives.absent, w->receives.max);
	assert_int_equal(conn_create(&c, w, 1, &dev->source, &err), -EUSERS);
	assert_int_equal(conn_create(&c, w, 0, &dev->source, &err), 0);
	assert_int_equal(c->credits, 0);
	conn_fail(c);
	assert_int_equal(conn_destroy(c), 0);
	conn_free(c);
	w->credits = 0;
}

static unsigned held(void)
{
	return worker_receives_held(server.server.sessions.workers[0]);
}

static uint64_t again(void)
{
	return worker_receives_lost(server.server.sessions.workers[0]);
}

UNIT_TEST(what_a_living_queue_pair_may_have_is_not_posted_again, set_up, tear_down)
{
	struct gkv_completion done;
	struct member old, other;
	uint64_t end;

	join(&old);
	join(&other);
	send_in_vain(&old);
	leave(&other);
	turn(&old);
	turn(&old); /* the audit began with the death, somewhere in the first one */
	assert_int_equal(again(), 0);
	assert_int_equal(held(), 1);
	atomic_store(&keep, RELEASE);
	assert_int_equal(gkv_ping(old.kv, NULL), 0); /* the worker may sleep */
	end = time_now_ns() + WAIT_NS;
	while (gkv_poll(old.kv, &done, 1) == 0)
		assert_true(time_now_ns() < end);
	assert_int_equal(done.status, 0);
	turn(&old);
	turn(&old);
	assert_int_equal(again(), 0);
	assert_int_equal(held(), 0);
	leave(&old);
}

UNIT_TEST(what_the_dead_have_kept_is_posted_when_all_are_newer, set_up, tear_down)
{
	struct member old, dead, newer;

	join(&old);
	join(&dead);
	send_in_vain(&dead);
	leave(&dead);
	turn(&old);
	turn(&old);
	assert_int_equal(again(), 0); /* it was there before */
	assert_int_equal(held(), 1);
	join(&newer);
	leave(&old);
	turn(&newer);
	turn(&newer);
	assert_int_equal(again(), 1);
	assert_int_equal(held(), 0);
	leave(&newer);
}
