/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Connecting, and again: when the resolver is asked, what its time counts for, what is retried. */
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/src/link/handle.h"
#include "client/src/link/session.h"
#include "common/base/time.h"
#include "tests/lib/unit.h"
#include "with_server.h"

#define NAME	"store.test"
#define HOLD_MS 20000

/* A resolver that knows one name and is asked for all that is no address in digits. */
static struct {
	_Atomic unsigned asked;
	bool down;
	_Atomic bool hold; /* a query waits until it is taken back, HOLD_MS at most */
	_Atomic unsigned held; /* so many are under way */
} resolver;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **list)
{
	static int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	bool down;

	if (!next)
		next = (typeof(next))dlsym(RTLD_NEXT, "getaddrinfo");
	if (hints && hints->ai_flags & AI_NUMERICHOST)
		return next(node, service, hints, list);
	resolver.asked++;
	resolver.held++;
	for (unsigned ms = 0; resolver.hold && ms < HOLD_MS; ms += 5)
		usleep(5000);
	down = resolver.down;
	resolver.held--;
	if (down)
		return EAI_AGAIN;
	return strcmp(node, NAME) ? EAI_NONAME : next("127.0.0.1", service, hints, list);
}

static int setup(void **state)
{
	memset(&resolver, 0, sizeof(resolver));
	return 0;
}

UNIT_TEST(test_addresses_in_digits_are_never_looked_up, setup)
{
	static const char *const digits[] = { "127.0.0.1", "::1", "192.0.2.200", "2001:db8::7" };
	struct error err = { 0 };

	for (unsigned i = 0; i < sizeof(digits) / sizeof(digits[0]); i++) {
		struct addresses a = { 0 };

		assert_int_equal(addresses_find(&a, digits[i], "7471", 0, &err), 0);
		a.failed = true;
		a.asked_ns = 0;
		assert_int_equal(addresses_find(&a, digits[i], "7471", 0, &err), 0);
		addresses_drop(&a);
	}
	assert_int_equal(resolver.asked, 0);
}

/* With the resolver's answer, whatever time that takes. */
static int find(struct addresses *a, struct error *err)
{
	const uint64_t until_ns = time_now_ns() + HOLD_MS * NS_PER_MS;
	int rc = addresses_find(a, NAME, "1", until_ns, err);

	while (a->query && time_now_ns() < until_ns) {
		usleep(1000);
		rc = addresses_find(a, NAME, "1", until_ns, err);
	}
	return rc;
}

UNIT_TEST(test_known_addresses_serve_until_they_fail, setup)
{
	const uint64_t again_ns = ADDRESSES_AGAIN_MS * NS_PER_MS;
	struct addresses a = { 0 };
	struct addrinfo *known;
	struct error err = { 0 };

	resolver.down = true;
	assert_int_equal(find(&a, &err), -EHOSTUNREACH);
	assert_non_null(strstr(err.text, "check the name"));
	assert_int_equal(resolver.asked, 1);
	resolver.down = false;
	assert_int_equal(find(&a, &err), 0); /* none known: asked again */
	assert_int_equal(resolver.asked, 2);
	known = a.list;
	a.asked_ns -= again_ns;
	assert_int_equal(find(&a, &err), 0);
	assert_int_equal(resolver.asked, 2); /* they led to the server */
	a.failed = true;
	a.asked_ns = time_now_ns();
	assert_int_equal(find(&a, &err), 0);
	assert_int_equal(resolver.asked, 2); /* too soon */
	a.asked_ns -= again_ns;
	resolver.down = true;
	assert_int_equal(find(&a, &err), 0);
	assert_int_equal(resolver.asked, 3);
	assert_ptr_equal(a.list, known); /* better than none */
	assert_int_equal(find(&a, &err), 0);
	assert_int_equal(resolver.asked, 3); /* asking in vain counts too */
	a.asked_ns -= again_ns;
	resolver.down = false;
	assert_int_equal(find(&a, &err), 0);
	assert_int_equal(resolver.asked, 4);
	addresses_drop(&a);
	assert_null(a.list);
}

static struct gkv_session *open_by_name(unsigned port, unsigned timeout_ms)
{
	struct gkv_session *session;
	struct gkv_options o;
	char server[32], text[700];

	snprintf(server, sizeof(server), NAME ":%u", port);
	gkv_options_init(&o);
	o.server = server;
	o.device = "soft0";
	o.timeout_ms = timeout_ms;
	if (gkv_session_open(&o, &session, text, sizeof(text)))
		fail_msg("%s", text);
	return session;
}

UNIT_TEST(test_coming_back_asks_no_resolver, setup)
{
	unsigned port = 0;
	pid_t server = server_start(&port, "64M");
	struct gkv_session *session = open_by_name(port, 20000);
	struct gkv *kv;

	assert_int_equal(gkv_open(session, NULL, &kv, NULL, 0), 0);
	assert_int_equal(resolver.asked, 1);
	resolver.down = true;
	for (unsigned i = 0; i < 2; i++) {
		server_stop(server, SIGKILL);
		server = server_start(&port, "64M");
		assert_int_equal(gkv_put(kv, "k", 1, "v", 1, NULL), 0);
	}
	assert_int_equal(resolver.asked, 1);
	gkv_close(kv);
	gkv_session_close(session);
	server_stop(server, SIGKILL);
}

static void await_queries(unsigned count)
{
	for (unsigned ms = 0; resolver.held != count && ms < HOLD_MS; ms += 5)
		usleep(5000);
	assert_int_equal(resolver.held, count);
}

static void let_go(void)
{
	resolver.hold = false;
	await_queries(0);
}

UNIT_TEST(test_a_resolver_that_hangs_ends_no_call_late, setup)
{
	struct gkv_session *session = NULL;
	struct gkv *kv = NULL;
	struct gkv_options o;
	char why[640];

	gkv_options_init(&o);
	o.server = NAME ":1";
	o.device = "soft0";
	o.timeout_ms = 300;
	resolver.hold = true;
	assert_int_equal(gkv_session_open(&o, &session, why, sizeof(why)), -ETIMEDOUT);
	await_queries(1);
	assert_non_null(strstr(why, "looking up '" NAME "'"));
	assert_int_equal(gkv_connect(NULL, &o, &kv, why, sizeof(why)), -ETIMEDOUT);
	await_queries(2);
	assert_null(kv);
	let_go();
}

/* What it says late is there for the next call. */
UNIT_TEST(test_a_late_answer_of_the_resolver_is_of_use, setup)
{
	struct addresses a = { 0 };
	struct error err = { 0 };

	resolver.hold = true;
	assert_int_equal(addresses_find(&a, NAME, "1", time_now_ns() + 50 * NS_PER_MS, &err),
			 -ETIMEDOUT);
	assert_non_null(a.query);
	let_go();
	assert_int_equal(find(&a, &err), 0);
	assert_null(a.query);
	assert_int_equal(resolver.asked, 1);
	addresses_drop(&a);
}

/* A server that comes back where it was is found, whatever the resolver does. */
UNIT_TEST(test_a_resolver_that_hangs_keeps_nobody_from_coming_back, setup)
{
	unsigned port = 0;
	pid_t server = server_start(&port, "64M");
	struct gkv_session *session = open_by_name(port, 20000);
	uint64_t from_ns;
	struct gkv *kv;

	assert_int_equal(gkv_open(session, NULL, &kv, NULL, 0), 0);
	server_stop(server, SIGKILL);
	session->settings.timeout_ms = 2000;
	assert_int_equal(gkv_ping(kv, NULL), -ECONNREFUSED);
	session->addresses[0].asked_ns -= ADDRESSES_AGAIN_MS * NS_PER_MS;
	resolver.hold = true;
	from_ns = time_now_ns();
	assert_int_equal(gkv_ping(kv, NULL), -ECONNREFUSED);
	assert_true(time_now_ns() - from_ns < 10 * NS_PER_S);
	await_queries(1);
	server = server_start(&port, "64M");
	session->settings.timeout_ms = 20000;
	assert_int_equal(gkv_ping(kv, NULL), 0);
	assert_true(resolver.held);
	assert_int_equal(resolver.asked, 2);
	gkv_close(kv);
	gkv_session_close(session); /* waits for no resolver either */
	assert_true(resolver.held);
	server_stop(server, SIGKILL);
	let_go();
}

static void *ping(void *kv)
{
	gkv_ping(kv, NULL);
	return NULL;
}

/* One thread waits for the resolver, under the session's lock: the calls of others end in time. */
UNIT_TEST(test_calls_end_while_another_thread_connects, setup)
{
	unsigned port = 0;
	pid_t server = server_start(&port, "64M");
	struct gkv_session *session = open_by_name(port, 1000);
	struct gkv *kv, *other, *none = NULL;
	char why[640];
	pthread_t thread;

	assert_int_equal(gkv_open(session, NULL, &kv, NULL, 0), 0);
	assert_int_equal(gkv_open(session, NULL, &other, NULL, 0), 0);
	server_stop(server, SIGKILL);
	session->settings.timeout_ms = HOLD_MS;
	addresses_drop(&session->addresses[0]); /* as if it had never been found */
	resolver.hold = true;
	assert_int_equal(pthread_create(&thread, NULL, ping, kv), 0);
	await_queries(1);
	session->settings.timeout_ms = 1000;
	assert_int_equal(gkv_open(session, NULL, &none, why, sizeof(why)), -ETIMEDOUT);
	assert_true(resolver.held);
	assert_non_null(strstr(why, "another thread was still connecting"));
	gkv_close(other);
	assert_true(resolver.held);
	let_go();
	pthread_join(thread, NULL);
	gkv_close(kv);
	gkv_session_close(session);
}

static void *go_on_later(void *server)
{
	usleep(300 * 1000);
	kill(*(pid_t *)server, SIGCONT);
	return NULL;
}

/* A life line that says something while another handle's connecting holds the session's lock. */
UNIT_TEST(test_a_live_handle_does_not_wait_for_who_connects, setup)
{
	unsigned port = 0;
	pid_t server = server_start(&port, "64M");
	struct gkv_session *session = open_by_name(port, 20000);
	uint64_t from_ns = time_now_ns();
	int lifeline, ends[2];
	pthread_t thread;
	struct gkv *kv;

	session->settings.lifeline_ms = 20000;
	assert_int_equal(gkv_open(session, NULL, &kv, NULL, 0), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(write(ends[1], "?", 1), 1);
	lifeline = kv->link.lifeline;
	kv->link.lifeline = ends[0];
	assert_int_equal(session_lock(session, from_ns + 60 * NS_PER_S, &kv->error), 0);
	kv->call.clock_at_ns = 0; /* nothing was heard for long: the probe before a write looks */
	assert_int_equal(gkv_put(kv, "k", 1, "v", 1, NULL), 0);
	server_pause(server);
	assert_int_equal(pthread_create(&thread, NULL, go_on_later, &server), 0);
	assert_int_equal(gkv_ping(kv, NULL), 0); /* sleeps between polls */
	pthread_join(thread, NULL);
	assert_in_range(time_now_ns() - from_ns, 0, 15 * NS_PER_S);
	session_unlock(session);
	kv->link.lifeline = lifeline;
	close(ends[0]);
	close(ends[1]);
	gkv_close(kv);
	gkv_session_close(session);
	server_stop(server, SIGKILL);
}

/* A frame that nobody asked for ends the connection: that is no reason to give up the session. */
UNIT_TEST(test_what_a_life_line_said_last_ends_no_session, setup)
{
	const struct wire_frame unasked = { .type = WIRE_QP_LIVE };
	const uint64_t later_ns = time_now_ns() + 60 * NS_PER_S;
	struct gkv_session s = { .connected = true };
	struct error err = { 0 };
	uint64_t now;
	int ends[2], rc;

	pthread_mutex_init(&s.lock, NULL);
	atomic_init(&s.number, 1);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	s.lifeline = ends[0];
	assert_int_equal(exchange_send(ends[1], &unasked, later_ns, &err), 0);
	assert_int_equal(session_check(&s, 1, later_ns, &err), -ECONNRESET);
	assert_false(s.connected);
	assert_int_equal(session_lock(&s, later_ns, &err), 0);
	now = time_now_ns();
	backoff_attempted(&s.backoff, now, now, 0);
	s.backoff.not_before_ns = later_ns; /* BACKOFF_CALM_MS from here to the look at it */
	rc = session_connect(&s, later_ns, &err);
	session_unlock(&s);
	assert_true(session_worth_another(rc));
	assert_non_null(strstr(err.text, "unasked"));
	close(ends[1]);
	pthread_mutex_destroy(&s.lock);
}
