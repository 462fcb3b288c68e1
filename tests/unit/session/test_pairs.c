/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A device that keeps the queue-pair thread waiting, or a worker that does: life lines, connections
 * and leases of others go on. A whole server, and its clients, in this process; what the server's
 * threads call is held up until the test lets go.
 */
#define LINE_WAIT_MS 5000u /* less than anything is held up for */

#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gracekv.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/rdma/exchange.h"
#include "common/rdma/qp.h"
#include "common/rdma/tcp.h"
#include "server/worker/worker_internal.h"
#include "tests/lib/fake_clock.h"
#include "tests/unit/session/line.h"
#include "tools/lib/server_thread.h"

#define MEMORY	  (64u << 20)
#define LEASE_MS  60000u /* no session is silent by accident */
#define WAIT_MS	  20000u
#define LOOKS_NS  (200 * NS_PER_MS) /* several */
#define LATE_MS	  2000u /* in which a session gets as far as the worker */
#define CLIENTS	  4u
#define ROUNDS	  60u
#define DELAY_MAX 4000u /* us */

static struct server_thread server;
static _Atomic bool holds, hurries; /* the server's next queue pair; with all, or slowly */
static _Atomic unsigned held; /* queue pairs that wait */
static _Atomic uint32_t delay_seed;

int __real_rdma_qp_connect(struct rdma_qp *qp, const struct wire_qp *peer, struct error *err);
int __wrap_rdma_qp_connect(struct rdma_qp *qp, const struct wire_qp *peer, struct error *err);
void __real_conn_attach(struct conn *c);
void __wrap_conn_attach(struct conn *c);

/* A listener of the CM, made up, with a request for the session of that token; 0: with none. */
static struct cm cm_request = { .route = { "soft0", 1 } };
static _Atomic bool serves_cm; /* from its next queue pair on */
static int cm_fd; /* readable while a request is there */
static _Atomic uint64_t cm_token;
static struct session *cm_session; /* queue-pair thread: whose request it was */
static _Atomic bool cm_asks, cm_asks_after; /* what its lease said, and says when it is refused */
static _Atomic int cm_code; /* of the rejection; 0: none yet */

int __wrap_cm_listener_fd(const struct cm_listener *l);
int __wrap_cm_next(struct cm_listener *l, struct cm_event *out);
int __wrap_cm_qp_connect(struct cm *cm, struct rdma_qp *qp, uint8_t mtu, struct error *err);
void __wrap_cm_reject(struct cm *cm, int code, const char *text);

int __wrap_cm_listener_fd(const struct cm_listener *l)
{
	return cm_fd;
}

int __wrap_cm_next(struct cm_listener *l, struct cm_event *out)
{
	const struct wire_cm_request request = { .header = wire_cm_header(WIRE_CM_REQUEST),
						 .token = atomic_exchange(&cm_token, 0),
						 .handle = 1,
						 .credits = 1,
						 .mtu = IBV_MTU_1024 };
	eventfd_t requests;

	if (!request.token)
		return -EAGAIN;
	eventfd_read(cm_fd, &requests);
	*out = (struct cm_event){ .kind = CM_REQUEST,
				  .cm = &cm_request,
				  .data_len = sizeof(request) };
	memcpy(out->data, &request, sizeof(request));
	return 0;
}

int __wrap_cm_qp_connect(struct cm *cm, struct rdma_qp *qp, uint8_t mtu, struct error *err)
{
	cm_session = caa_container_of(qp, struct conn, qp)->session;
	atomic_store(&cm_asks, atomic_load(&cm_session->lease.asks_cm));
	return error_set(err, -EIO, "made up");
}

void __wrap_cm_reject(struct cm *cm, int code, const char *text)
{
	atomic_store(&cm_asks_after, atomic_load(&cm_session->lease.asks_cm));
	atomic_store(&cm_code, code);
}

/* Only the server calls it: clients go step by step. */
int __wrap_rdma_qp_connect(struct rdma_qp *qp, const struct wire_qp *peer, struct error *err)
{
	if (atomic_load(&serves_cm)) /* this is the thread that looks there */
		server.server.sessions.cm = (struct cm_listener *)&cm_request;
	atomic_fetch_add(&held, 1);
	for (unsigned i = 0; i < WAIT_MS && atomic_load(&holds); i++)
		usleep(1000);
	atomic_fetch_sub(&held, 1);
	if (atomic_load(&hurries))
		usleep(atomic_fetch_add(&delay_seed, 2654435761u) % DELAY_MAX);
	return __real_rdma_qp_connect(qp, peer, err);
}

/* A connection that its worker has not taken yet. */
static struct conn *late;
static _Atomic bool is_late, holds_worker;

void __wrap_conn_attach(struct conn *c)
{
	if (!atomic_exchange(&holds_worker, false)) {
		__real_conn_attach(c);
		return;
	}
	c->command = CONN_ATTACH; /* the worker has it, and does not look */
	late = c;
	atomic_store(&is_late, true);
}

static void worker_looks(void)
{
	if (atomic_exchange(&is_late, false))
		mailbox_post(&late->worker->commands, &late->mail);
}

static int set_up(void **state)
{
	struct error err;

	fake_clock_begin(false);
	log_setup("test", LOG_ERROR, LOG_TEXT);
	server.lease_ms = LEASE_MS;
	if (server_thread_start(&server, MEMORY, 0, &err)) {
		print_error("%s\n", err.text);
		return -1;
	}
	return 0;
}

static int tear_down(void **state)
{
	atomic_store(&holds, false);
	atomic_store(&hurries, false);
	worker_looks();
	server_thread_stop(&server);
	if (cm_fd)
		close(cm_fd);
	cm_fd = 0;
	fake_clock_end();
	return 0;
}

static uint64_t count(const _Atomic uint64_t *counter)
{
	return atomic_load(counter);
}

static void await(const _Atomic uint64_t *counter, uint64_t value)
{
	for (unsigned i = 0; i < WAIT_MS && count(counter) != value; i++)
		usleep(1000);
	assert_int_equal(count(counter), value);
}

static void hello(struct line *l, unsigned id)
{
	line_hello(l, server.server.bound, id);
	line_hear(l, WIRE_WELCOME);
}

/* It asks for a queue pair, with an offer that nobody could take. */
static void ask(struct line *l)
{
	const struct wire_frame open = { .type = WIRE_QP_OPEN, .qp = { .ask = 7, .credits = 1 } };

	line_say(l, &open);
}

/* The device finds no way to a client for as long as it likes. */
static void hold_up(struct line *l, unsigned id)
{
	hello(l, id);
	atomic_store(&holds, true);
	ask(l);
	for (unsigned i = 0; i < WAIT_MS && !atomic_load(&held); i++)
		usleep(1000);
	assert_int_equal(atomic_load(&held), 1);
}

static void let_go(struct line *l)
{
	atomic_store(&holds, false);
	line_hear(l, WIRE_REFUSE);
	assert_int_equal(l->frame.refuse.ask, 7);
	close(l->fd);
}

UNIT_TEST(life_lines_wait_for_no_verb, set_up, tear_down)
{
	const struct wire_frame ready = { .type = WIRE_QP_READY, .handle = { 3, 9 } };
	const struct wire_frame strange = { .type = WIRE_QP_LIVE };
	const struct session_counters *c = &server.server.sessions.counters;
	struct line slow, other, fresh;

	hello(&other, 1);
	hold_up(&slow, 2);
	line_say(&other, &ready); /* of a queue pair that there is not */
	line_hear(&other, WIRE_REFUSE);
	assert_int_equal(other.frame.refuse.ask, 9);
	line_dial(&fresh,
		  server.server.bound); /* a stranger is accepted, and told that this is no HELLO */
	line_say(&fresh, &strange);
	line_hear(&fresh, WIRE_REFUSE);
	assert_int_equal(count(&c->sessions), 2);
	assert_int_equal(atomic_load(&held), 1);
	let_go(&slow);
	close(other.fd);
	close(fresh.fd);
	await(&c->sessions, 0);
}

/* The offer's GID is that of no life line, and somebody's led nowhere just now: reach.h. */
UNIT_TEST(a_wait_in_vain_is_not_repeated_at_once, set_up, tear_down)
{
	struct line slow, other;

	hello(&other, 1);
	hold_up(&slow, 2);
	fake_clock_ahead(WAIT_MS / 10);
	let_go(&slow);
	ask(&other);
	line_hear(&other, WIRE_REFUSE);
	assert_int_equal(other.frame.refuse.code, -EBUSY);
	assert_int_equal(other.frame.refuse.ask, 7);
	assert_non_null(strstr(other.frame.refuse.text, "waited in vain"));
	close(other.fd);
	await(&server.server.sessions.counters.sessions, 0);
}

/* A client process that opens its queue pairs and beats by the test's own hand. */
struct member {
	struct gkv_session *session;
	struct gkv *kv;
};

static void join(struct member *m)
{
	struct gkv_options o;

	gkv_options_init(&o);
	o.server = server.server.bound;
	o.device = "soft0";
	o.timeout_ms = WAIT_MS;
	o.housekeeper = GKV_HOUSEKEEPER_TICK;
	assert_int_equal(gkv_session_open(&o, &m->session, NULL, 0), 0);
	assert_int_equal(gkv_open(m->session, NULL, &m->kv, NULL, 0), 0);
	assert_true(gkv_tick(m->session, NULL, 0) >= 0);
}

static void leave(struct member *m)
{
	gkv_close(m->kv);
	gkv_session_close(m->session);
}

/* A silent session is found, one that beats is kept, and memory waits for the fence. */
UNIT_TEST(leases_wait_for_no_verb, set_up, tear_down)
{
	const struct session_counters *c = &server.server.sessions.counters;
	struct grace *grace = sessions_grace(&server.server.sessions);
	struct member silent, honest;
	struct line slow;
	uint64_t epoch;

	join(&silent);
	join(&honest);
	time_sleep(LOOKS_NS); /* the last beat has been seen */
	fake_clock_ahead(LEASE_MS); /* a pause of the server's, which is forgiven once */
	for (unsigned i = 0; i < WAIT_MS && !count(&c->fenced_silent); i++) {
		time_sleep(NS_PER_MS);
		if (i == 4 * LOOKS_NS / NS_PER_MS) /* and its own lease begins */
			hold_up(&slow, 1);
		if (i % (LOOKS_NS / NS_PER_MS))
			continue;
		assert_true(gkv_tick(honest.session, NULL, 0) >= 0);
		fake_clock_ahead(LEASE_MS / 8);
	}
	assert_int_equal(count(&c->fenced_silent), 1);
	assert_int_equal(atomic_load(&held), 1);
	/* its queue pairs stand as long as the verb takes: it is waited for (I4) */
	epoch = grace_now(grace);
	grace_advance(grace);
	assert_true(gkv_tick(honest.session, NULL, 0) >= 0);
	assert_true(gkv_tick(honest.session, NULL, 0) >= 0);
	assert_true(grace_reach(grace) <= epoch);
	let_go(&slow);
	await(&c->sessions, 1);
	assert_true(grace_reach(grace) > epoch);
	assert_int_equal(gkv_put(honest.kv, "key", 3, "value", 5, NULL), 0);
	assert_int_equal(count(&c->fenced_silent), 1);
	leave(&silent);
	leave(&honest);
}

/* Sessions that end while what they asked for is held up: they are gone when it is through. */
UNIT_TEST(ends_with_a_job_out, set_up, tear_down)
{
	const struct session_counters *c = &server.server.sessions.counters;
	struct line first, second, again;

	hello(&second, 2);
	hold_up(&first, 1);
	ask(&second); /* waits behind it */
	close(first.fd);
	close(second.fd);
	line_dial(&again,
		  server.server.bound); /* the same client: it waits for its older session */
	line_say(&again, &(struct wire_frame){ .type = WIRE_HELLO,
					       .hello = { .layout_version = LAYOUT_VERSION,
							  .layout_hash = layout_hash(),
							  .client_id = { 1, 1 },
							  .first_sequence = 1 } });
	time_sleep(LOOKS_NS);
	assert_int_equal(count(&c->sessions), 2);
	atomic_store(&holds, false);
	line_hear(&again, WIRE_WELCOME);
	assert_int_equal(again.frame.welcome.resumed, 1);
	await(&c->sessions, 1);
	assert_int_equal(count(&c->queue_pairs), 0);
	close(again.fd);
	await(&c->sessions, 0);
}

/* A worker that is late takes up nobody but whose queue pair it is to have. */
UNIT_TEST(a_worker_that_is_late, set_up, tear_down)
{
	const struct session_counters *c = &server.server.sessions.counters;
	struct member m = { 0 }, other;
	struct gkv_options o;

	gkv_options_init(&o);
	o.server = server.server.bound;
	o.device = "soft0";
	o.timeout_ms = LATE_MS;
	o.housekeeper = GKV_HOUSEKEEPER_TICK;
	atomic_store(&holds_worker, true);
	/* which of the two needs the first queue pair is the client's */
	if (gkv_session_open(&o, &m.session, NULL, 0) == 0)
		assert_int_not_equal(gkv_open(m.session, NULL, &m.kv, NULL, 0), 0);
	assert_true(atomic_load(&is_late));
	join(&other);
	assert_int_equal(gkv_put(other.kv, "key", 3, "value", 5, NULL), 0);
	if (m.session)
		gkv_session_close(m.session);
	time_sleep(LOOKS_NS);
	assert_int_equal(count(&c->sessions), 2); /* the worker may look at its life line */
	worker_looks();
	await(&c->sessions, 1);
	await(&c->queue_pairs, 2);
	leave(&other);
	await(&c->sessions, 0);
	await(&c->queue_pairs, 0);
}

/* While one is made that the CM asked for, the session is not silent: lease.c. */
UNIT_TEST(a_lease_knows_what_the_cm_asks_for, set_up, tear_down)
{
	struct line line, first;

	cm_fd = eventfd(0, EFD_CLOEXEC);
	assert_true(cm_fd >= 0);
	atomic_store(&serves_cm, true);
	hello(&first, 1);
	ask(&first);
	line_hear(&first, WIRE_REFUSE);
	atomic_store(&serves_cm, false);
	hello(&line, 2);
	atomic_store(&cm_token, line.frame.welcome.cm_token);
	assert_int_equal(eventfd_write(cm_fd, 1), 0);
	for (unsigned i = 0; i < WAIT_MS && !atomic_load(&cm_code); i++)
		usleep(1000);
	assert_int_equal(atomic_load(&cm_code), -EIO);
	assert_true(atomic_load(&cm_asks));
	assert_false(atomic_load(&cm_asks_after));
	close(line.fd);
	close(first.fd);
	await(&server.server.sessions.counters.sessions, 0);
}

static void *come_and_go(void *arg)
{
	const unsigned seed = *(const unsigned *)arg;
	struct gkv_options o;

	gkv_options_init(&o);
	o.server = server.server.bound;
	o.device = "soft0";
	o.housekeeper = GKV_HOUSEKEEPER_TICK;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct gkv_session *session;
		struct gkv *kv;

		o.timeout_ms = 1 + (seed + i * 7) % 23;
		if (gkv_session_open(&o, &session, NULL, 0))
			continue;
		if (gkv_open(session, NULL, &kv, NULL, 0) == 0) {
			gkv_put(kv, "key", 3, "value", 5, NULL);
			gkv_close(kv);
		}
		gkv_session_close(session);
	}
	return NULL;
}

/* Calls that end by their time-outs at any moment, of clients that go then. */
UNIT_TEST(clients_come_and_go, set_up, tear_down)
{
	const struct session_counters *c = &server.server.sessions.counters;
	pthread_t thread[CLIENTS];
	unsigned seed[CLIENTS];

	atomic_store(&hurries, true);
	for (unsigned i = 0; i < CLIENTS; i++) {
		seed[i] = i * 5;
		assert_int_equal(pthread_create(&thread[i], NULL, come_and_go, &seed[i]), 0);
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		pthread_join(thread[i], NULL);
	await(&c->sessions, 0);
	await(&c->queue_pairs, 0);
	await(&c->strangers, 0);
}
