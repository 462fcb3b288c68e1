/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Sessions that are taken apart in the background. A whole server, and its clients, in this
 * process; what the server's threads call is counted and held up.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <gracekv.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/rdma/exchange.h"
#include "common/rdma/qp.h"
#include "common/rdma/tcp.h"
#include "server/worker/rpc.h"
#include "tests/lib/fake_clock.h"
#include "tools/lib/server_thread.h"

#define MEMORY	 (64u << 20)
#define LEASE_MS 60000u /* no session is silent by accident */
#define WAIT_MS	 20000u
#define LOOKS_NS (200 * NS_PER_MS) /* several */
#define RACK	 16u
#define HELD_MAX 8u
#define VERB_MS	 500u
#define BUSY	 4u /* clients that are never silent */
#define BUSY_MS	 2u /* for each request of theirs */

static struct server_thread server;
static pthread_t client;
static _Atomic unsigned fails, destroys, fails_before; /* the first destroy */
static _Atomic bool holds, verb_waits, clock_waits, clock_is_held, is_slow, ends;
static _Atomic uint64_t verb_saw_ms; /* how far the root's clock went meanwhile */
static struct conn *held[HELD_MAX];
static _Atomic unsigned held_count, puts_done;

/* A client process, as the server sees it. */
struct member {
	struct gkv_session *session;
	struct gkv *kv;
};

int __real_rdma_qp_destroy(struct rdma_qp *qp);
int __wrap_rdma_qp_destroy(struct rdma_qp *qp);
int __real_rdma_qp_fail(struct rdma_qp *qp);
int __wrap_rdma_qp_fail(struct rdma_qp *qp);
void __real_conn_detach(struct conn *c);
void __wrap_conn_detach(struct conn *c);
void __real_rpc_receive(struct rpc_worker *w, struct conn *c, const void *frame, uint32_t len);
void __wrap_rpc_receive(struct rpc_worker *w, struct conn *c, const void *frame, uint32_t len);
void __real_leases_take(struct leases *all);
void __wrap_leases_take(struct leases *all);

int __wrap_rdma_qp_destroy(struct rdma_qp *qp)
{
	if (!pthread_equal(pthread_self(), client) && atomic_fetch_add(&destroys, 1) == 0)
		atomic_store(&fails_before, atomic_load(&fails));
	return __real_rdma_qp_destroy(qp);
}

int __wrap_rdma_qp_fail(struct rdma_qp *qp)
{
	if (!pthread_equal(pthread_self(), client))
		atomic_fetch_add(&fails, 1);
	if (atomic_exchange(&verb_waits, false)) {
		const struct root *root = server.server.root.addr;
		const uint64_t from_ms = atomic_load(&root->clock_ms);

		time_sleep(VERB_MS * NS_PER_MS);
		atomic_store(&verb_saw_ms, atomic_load(&root->clock_ms) - from_ms);
	}
	return __real_rdma_qp_fail(qp);
}

void __wrap_conn_detach(struct conn *c)
{
	if (atomic_load(&holds))
		held[atomic_fetch_add(&held_count, 1)] = c;
	else
		__real_conn_detach(c);
}

void __wrap_rpc_receive(struct rpc_worker *w, struct conn *c, const void *frame, uint32_t len)
{
	if (atomic_load(&is_slow))
		time_sleep(BUSY_MS * NS_PER_MS);
	__real_rpc_receive(w, c, frame, len);
}

/* The clock thread's. */
void __wrap_leases_take(struct leases *all)
{
	atomic_store(&clock_is_held, atomic_load(&clock_waits));
	for (unsigned i = 0; i < WAIT_MS && atomic_load(&clock_waits); i++)
		time_sleep(NS_PER_MS);
	__real_leases_take(all);
}

static void let_go(void)
{
	atomic_store(&clock_waits, false);
	atomic_store(&holds, false);
	for (unsigned n = atomic_exchange(&held_count, 0); n; n--)
		__real_conn_detach(held[n - 1]);
}

static void join(struct member *m, unsigned timeout_ms)
{
	struct gkv_options o;

	gkv_options_init(&o);
	o.server = server.server.bound;
	o.device = "soft0";
	o.timeout_ms = timeout_ms;
	o.housekeeper = GKV_HOUSEKEEPER_TICK; /* its queue pairs are this thread's too */
	assert_int_equal(gkv_session_open(&o, &m->session, NULL, 0), 0);
	assert_int_equal(gkv_open(m->session, NULL, &m->kv, NULL, 0), 0);
}

static void leave(struct member *m)
{
	gkv_close(m->kv);
	gkv_session_close(m->session);
}

static int set_up(void **state)
{
	struct error err;

	client = pthread_self();
	fake_clock_begin(false);
	log_setup("test", LOG_ERROR, LOG_TEXT);
	server.lease_ms = LEASE_MS;
	if (server_thread_start(&server, MEMORY, 0, &err)) {
		print_error("%s\n", err.text);
		return -1;
	}
	atomic_store(&fails, 0);
	atomic_store(&destroys, 0);
	return 0;
}

static int tear_down(void **state)
{
	let_go();
	server_thread_stop(&server);
	fake_clock_end();
	return 0;
}

static uint64_t fenced(void)
{
	return atomic_load(&server.server.sessions.counters.fenced_silent);
}

static uint64_t sessions(void)
{
	return atomic_load(&server.server.sessions.counters.sessions);
}

/* A lease goes by, in which nobody ticks. */
static void starve(unsigned victims)
{
	time_sleep(LOOKS_NS); /* the last beat has been seen */
	fake_clock_ahead(LEASE_MS); /* a pause of the server's, which is forgiven once */
	for (unsigned i = 0; i < WAIT_MS && fenced() < victims; i++) {
		time_sleep(NS_PER_MS);
		fake_clock_ahead(i % 64 ? 0 : LEASE_MS / 8);
	}
	assert_int_equal(fenced(), victims);
}

static void await_sessions(uint64_t count)
{
	for (unsigned i = 0; i < WAIT_MS && sessions() != count; i++)
		time_sleep(NS_PER_MS);
	assert_int_equal(sessions(), count);
}

/* A rack that is lost: none of its queue pairs serves any more before the first is destroyed. */
UNIT_TEST(all_fail_before_the_first_is_destroyed, set_up, tear_down)
{
	struct member rack[RACK];

	for (unsigned i = 0; i < RACK; i++)
		join(&rack[i], 20000);
	starve(RACK);
	await_sessions(0);
	assert_int_equal(atomic_load(&fails_before), 2 * RACK);
	assert_int_equal(atomic_load(&destroys), 2 * RACK);
	for (unsigned i = 0; i < RACK; i++)
		leave(&rack[i]);
}

/* A HELLO as of the client that has session @number. */
static int say_hello(uint64_t number)
{
	struct wire_frame hello = { .type = WIRE_HELLO,
				    .hello = { .layout_version = LAYOUT_VERSION,
					       .layout_hash = layout_hash(),
					       .first_sequence = 1 } };
	const struct session *s;
	char port[8];
	struct error err;
	int fd;

	/* nobody comes or goes: the list stands */
	cds_list_for_each_entry (s, &server.server.sessions.list, node) {
		if (s->number == number)
			memcpy(hello.hello.client_id, s->client->id, sizeof(s->client->id));
	}
	snprintf(port, sizeof(port), "%s", strrchr(server.server.bound, ':') + 1);
	assert_int_equal(
		tcp_connect("127.0.0.1", port, time_now_ns() + WAIT_MS * NS_PER_MS, &fd, &err), 0);
	assert_int_equal(exchange_send(fd, &hello, 0, &err), 0);
	return fd;
}

/*
 * A client comes back while its older session is not taken apart yet: it waits for that, and nobody
 * else does.
 */
UNIT_TEST(who_comes_back_waits_for_its_own_session, set_up, tear_down)
{
	struct exchange_reader reader = { 0 };
	struct member back, other, late;
	struct wire_frame welcome;
	struct error err;
	int fd;

	join(&back, 20000);
	join(&other, 20000);
	atomic_store(&holds, true);
	fd = say_hello(1);
	assert_int_equal(
		exchange_recv(fd, &reader, WIRE_WELCOME, &welcome, time_now_ns() + LOOKS_NS, &err),
		-ETIMEDOUT);
	for (unsigned i = 0; i < WAIT_MS && atomic_load(&held_count) < 2; i++)
		time_sleep(NS_PER_MS);
	assert_int_equal(atomic_load(&held_count), 2);
	assert_int_equal(sessions(), 2); /* the older one is there still */
	assert_int_equal(gkv_put(other.kv, "key", 3, "value", 5, NULL), 0);
	join(&late, 20000);
	assert_int_equal(gkv_put(late.kv, "key", 3, "value", 5, NULL), 0);
	assert_int_equal(
		exchange_recv(fd, &reader, WIRE_WELCOME, &welcome, time_now_ns() + LOOKS_NS, &err),
		-ETIMEDOUT);
	let_go();
	assert_int_equal(exchange_recv(fd, &reader, WIRE_WELCOME, &welcome,
				       time_now_ns() + WAIT_MS * NS_PER_MS, &err),
			 0);
	assert_int_equal(welcome.welcome.resumed, 1);
	await_sessions(3);
	close(fd);
	leave(&back);
	leave(&other);
	leave(&late);
}

/* The device keeps the control thread waiting: the time goes on. */
UNIT_TEST(the_clock_of_the_root_waits_for_no_verb, set_up, tear_down)
{
	struct member m;

	join(&m, 20000);
	atomic_store(&verb_waits, true);
	leave(&m);
	await_sessions(0);
	assert_in_range(atomic_load(&verb_saw_ms), VERB_MS - 2 * CLOCK_PERIOD_MS, UINT32_MAX);
}

/* Whether the clock thread has been told of a lease, and has not taken that. */
static bool clock_is_told(void)
{
	struct pollfd box = { .fd = server.server.sessions.leases.box.fd, .events = POLLIN };

	return poll(&box, 1, 0) == 1;
}

/* The clock thread has the epoch slot still: neither that nor the session goes. */
UNIT_TEST(a_slot_waits_for_the_clock_thread, set_up, tear_down)
{
	struct member m;

	join(&m, 20000);
	for (unsigned i = 0; i < WAIT_MS && clock_is_told(); i++)
		time_sleep(NS_PER_MS);
	atomic_store(&clock_waits, true);
	for (unsigned i = 0; i < WAIT_MS && !atomic_load(&clock_is_held); i++)
		time_sleep(NS_PER_MS);
	assert_true(atomic_load(&clock_is_held));
	leave(&m);
	for (unsigned i = 0; i < WAIT_MS && sessions() == 1 && !clock_is_told(); i++)
		time_sleep(NS_PER_MS);
	assert_int_equal(sessions(), 1);
	assert_true(clock_is_told());
	let_go();
	await_sessions(0);
}

static void *keep_busy(void *arg)
{
	struct member m;

	join(&m, 20000);
	while (!atomic_load(&ends)) {
		assert_int_equal(gkv_put(m.kv, "key", 3, "value", 5, NULL), 0);
		atomic_fetch_add(&puts_done, 1);
	}
	leave(&m);
	return NULL;
}

/* Others keep the worker's completion queue from being empty: it obeys commands all the same. */
UNIT_TEST(one_leaves_a_worker_that_is_never_idle, set_up, tear_down)
{
	pthread_t thread[BUSY];
	struct member m;

	join(&m, 20000);
	for (unsigned i = 0; i < BUSY; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, keep_busy, NULL), 0);
	await_sessions(1 + BUSY);
	atomic_store(&is_slow, true);
	for (unsigned i = 0; i < WAIT_MS && atomic_load(&puts_done) < 8 * BUSY; i++)
		time_sleep(NS_PER_MS);
	leave(&m);
	await_sessions(BUSY);
	atomic_store(&is_slow, false);
	atomic_store(&ends, true);
	for (unsigned i = 0; i < BUSY; i++)
		pthread_join(thread[i], NULL);
	await_sessions(0);
}
