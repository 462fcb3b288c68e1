/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Operations in flight: many at once, cancelled, too late, over connections that are lost. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/src/async.h"
#include "with_server.h"

#define KEYS	500u
#define DEPTH	32u
#define LARGE	(100u << 10)
#define WAIT_MS 20000u /* for what takes milliseconds on an idle machine */

static unsigned port;
static pid_t server;
static struct gkv_session *session;
static struct gkv *kv;

struct slot {
	unsigned key;
	bool busy;
	uint8_t value[LARGE + KEYS];
};

static struct slot slot[DEPTH];
static unsigned key_of[KEYS];

static int start(unsigned housekeeper, unsigned timeout_ms)
{
	struct gkv_handle_options ho;
	struct gkv_options o;
	char address[32], text[700];

	memset(slot, 0, sizeof(slot)); /* of a test that failed */
	port = 0;
	server = server_start(&port, "128M");
	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	gkv_options_init(&o);
	o.server = address;
	o.device = "soft0";
	o.timeout_ms = timeout_ms;
	o.housekeeper = housekeeper;
	if (gkv_session_open(&session, &o, text, sizeof(text))) {
		printf("%s\n", text);
		return -1;
	}
	gkv_handle_options_init(&ho);
	ho.depth = DEPTH;
	return gkv_open_with(session, &ho, &kv);
}

static int set_up(void **state)
{
	return start(GKV_HOUSEKEEPER_THREAD, WAIT_MS);
}

static int set_up_tick(void **state)
{
	return start(GKV_HOUSEKEEPER_TICK, WAIT_MS);
}

static int tear_down(void **state)
{
	gkv_close(kv);
	gkv_session_close(session);
	server_stop(server, SIGKILL);
	return 0;
}

/* What key @i has: its length and bytes are the key's own. */
static size_t fill(unsigned i, unsigned life, uint8_t *value)
{
	size_t len = i % 50 == 7 ? LARGE + i : i % 9 == 3 ? 9000 + i : i % 200;

	for (size_t j = 0; j < len; j++)
		value[j] = (uint8_t)(i * 31 + j * 7 + life);
	return len;
}

static struct gkv_request request(unsigned op, unsigned key, unsigned at)
{
	slot[at].key = key_of[key] = key;
	slot[at].busy = true;
	return (struct gkv_request){
		.op = op,
		.key = &key_of[key],
		.key_len = sizeof(unsigned),
		.value = slot[at].value,
		.len = sizeof(slot[at].value),
		.user_data = at,
	};
}

static struct gkv_completion wait_one(void)
{
	struct gkv_completion c;

	assert_int_equal(gkv_wait(kv, &c, 1, WAIT_MS), 1);
	assert_true(c.user_data < DEPTH);
	slot[c.user_data].busy = false;
	return c;
}

static unsigned free_slot(void)
{
	for (unsigned i = 0; i < DEPTH; i++) {
		if (!slot[i].busy)
			return i;
	}
	return DEPTH;
}

static void expect_life(const struct gkv_completion *c, unsigned life)
{
	static uint8_t want[LARGE + KEYS];
	const struct slot *s = &slot[c->user_data];
	size_t len = fill(s->key, life, want);

	assert_int_equal(c->status, 0);
	assert_int_equal(c->len, len);
	assert_int_equal(c->meta.value_len, len);
	assert_memory_equal(s->value, want, len);
}

/* Every key once, with as many in flight as there is room for. */
static void all_keys(unsigned op, unsigned life)
{
	unsigned next = 0, done = 0;

	while (done < KEYS) {
		unsigned at = free_slot();

		if (next < KEYS && at < DEPTH) {
			struct gkv_request q = request(op, next++, at);

			if (op == GKV_OP_PUT)
				q.len = fill(q.user_data == at ? next - 1 : 0, life, q.value);
			assert_int_equal(gkv_submit(kv, &q, 1), 1);
			continue;
		}
		struct gkv_completion c = wait_one();

		if (op == GKV_OP_GET)
			expect_life(&c, life);
		else
			assert_int_equal(c.status, 0);
		done++;
	}
	assert_int_equal(gkv_pending(kv), 0);
}

static void test_many_in_flight(void **state)
{
	struct gkv_stats stats;

	for (unsigned life = 0; life < 3; life++) {
		all_keys(GKV_OP_PUT, life);
		all_keys(GKV_OP_GET, life);
		all_keys(GKV_OP_GET, life);
	}
	all_keys(GKV_OP_EXISTS, 2);
	all_keys(GKV_OP_TOUCH, 2);
	all_keys(GKV_OP_GET, 2);
	all_keys(GKV_OP_DEL, 2);
	gkv_stats_get(kv, &stats);
	assert_int_equal(stats.submitted, 13 * KEYS);
	assert_int_equal(stats.gets, 8 * KEYS);
	assert_int_equal(stats.hits, 8 * KEYS);
	assert_int_equal(stats.writes, 5 * KEYS);
	assert_int_equal(stats.rpc_fallbacks, 0);
}

/* A chain for all that one call hands over. */
static void test_one_call_is_one_chain(void **state)
{
	struct gkv_request q[DEPTH];
	struct gkv_completion c[DEPTH];
	uint64_t chains;
	unsigned done = 0;

	for (unsigned i = 0; i < DEPTH; i++)
		q[i] = request(GKV_OP_GET, i, i);
	assert_int_equal(gkv_exists(kv, q, 4, NULL), -ENOENT); /* the extent is known now */
	chains = kv->chains_posted;
	assert_int_equal(gkv_submit(kv, q, DEPTH), DEPTH);
	assert_int_equal(gkv_submit(kv, q, 1), -EAGAIN);
	assert_int_equal(gkv_pending(kv), DEPTH);
	while (done < DEPTH) {
		int n = gkv_wait(kv, c, DEPTH, WAIT_MS);

		assert_true(n > 0);
		for (int i = 0; i < n; i++)
			assert_int_equal(c[i].status, -ENOENT);
		done += (unsigned)n;
	}
	assert_int_equal(kv->chains_posted - chains, 1); /* the buckets say that there is none */
	memset(slot, 0, sizeof(slot));
}

static void test_wrong_requests_complete(void **state)
{
	struct gkv_request q[] = {
		{ .op = 0, .key = "k", .key_len = 1 },
		{ .op = 7, .key = "k", .key_len = 1 },
		{ .op = GKV_OP_GET, .key = NULL, .key_len = 1 },
		{ .op = GKV_OP_GET, .key = "k", .key_len = 0 },
		{ .op = GKV_OP_GET, .key = "k", .key_len = 1025 },
		{ .op = GKV_OP_GET, .key = "k", .key_len = 1, .len = 1 },
		{ .op = GKV_OP_PUT, .key = "k", .key_len = 1, .len = 1 },
		{ .op = GKV_OP_PUT, .key = "k", .key_len = 1, .value = slot, .len = SIZE_MAX },
		{ .op = GKV_OP_PUT, .key = "k", .key_len = 1, .terms.condition = 4 },
		{ .op = GKV_OP_DEL, .key = "k", .key_len = 1, .terms.condition = 1 },
		{ .op = GKV_OP_TOUCH, .key = "k", .key_len = 1, .terms.ttl_ms = UINT64_MAX },
	};
	struct gkv_completion c[DEPTH];
	const size_t count = sizeof(q) / sizeof(*q);

	for (size_t i = 0; i < count; i++)
		q[i].user_data = i;
	assert_int_equal(gkv_submit(kv, q, count), count);
	assert_int_equal(gkv_poll(kv, c, DEPTH), count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(c[i].user_data, i);
		assert_int_equal(c[i].status, -EINVAL);
	}
	assert_int_equal(gkv_submit(kv, NULL, 1), -EINVAL);
	assert_int_equal(gkv_poll(kv, NULL, 1), -EINVAL);
	assert_int_equal(gkv_wait(kv, c, 1, 86400001), -EINVAL);
	assert_int_equal(gkv_wait(kv, c, 1, 0), 0);
	assert_int_equal(gkv_poll(kv, NULL, 0), 0);
}

/* Without a copy: warm, cold, on another life of the server, and what is refused. */
static void test_gets_into_registered_memory(void **state)
{
	struct gkv_memory *memory;
	struct gkv_request q;

	all_keys(GKV_OP_PUT, 1);
	assert_int_equal(gkv_memory_register(session, slot, sizeof(slot), &memory), 0);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < KEYS; i++) {
			struct gkv_completion c;

			while (free_slot() == DEPTH) {
				c = wait_one();
				expect_life(&c, 1);
			}
			q = request(GKV_OP_GET, i, free_slot());
			q.memory = memory;
			assert_int_equal(gkv_submit(kv, &q, 1), 1);
		}
		assert_int_equal(gkv_memory_release(memory), -EBUSY);
		while (gkv_pending(kv)) {
			struct gkv_completion c = wait_one();

			expect_life(&c, 1);
		}
		if (round == 0)
			hints_drop_all(&session->hints);
		if (round == 1) {
			server_stop(server, SIGKILL);
			server = server_start(&port, "128M");
			all_keys(GKV_OP_PUT, 1);
		}
	}
	q = request(GKV_OP_GET, 1, 0);
	q.memory = memory;
	q.value = key_of; /* not in it */
	q.len = 1;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	assert_int_equal(wait_one().status, -EINVAL);
	q = request(GKV_OP_PUT, 1, 0);
	q.memory = memory;
	q.len = 1;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	assert_int_equal(wait_one().status, -EINVAL);
	/* one that is not polled, nor ended, is let go with its handle */
	q = request(GKV_OP_GET, 1, 0);
	q.memory = memory;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	gkv_close(kv);
	assert_int_equal(gkv_memory_release(memory), 0);
	assert_int_equal(gkv_open(session, &kv), 0);
	memset(slot, 0, sizeof(slot));
}

static void test_terms_and_sums(void **state)
{
	struct gkv_request q = { .op = GKV_OP_INCR, .key = "n", .key_len = 1, .delta = 5 };
	struct gkv_completion c;
	uint64_t version;

	for (unsigned i = 1; i < 10; i++) {
		assert_int_equal(gkv_submit(kv, &q, 1), 1);
		c = wait_one();
		assert_int_equal(c.status, 0);
		assert_int_equal(c.sum, 5 * i);
	}
	version = c.meta.version;
	q = (struct gkv_request){ .op = GKV_OP_PUT,
				  .key = "n",
				  .key_len = 1,
				  .value = slot,
				  .len = 1,
				  .terms = { .condition = GKV_IF_ABSENT } };
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	c = wait_one();
	assert_int_equal(c.status, -EEXIST);
	assert_int_equal(c.meta.version, version);
	q.terms = (struct gkv_terms){ .condition = GKV_IF_VERSION, .version = version };
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	assert_int_equal(wait_one().status, 0);
	q.op = GKV_OP_INCR;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	assert_int_equal(wait_one().status, -EDOM);
}

/* A server that stands still answers no request; READs are served. */
static void test_deadlines_and_cancels(void **state)
{
	struct gkv_request q;

	assert_int_equal(gkv_put(kv, "k", 1, "value", 5, NULL), 0);
	server_pause(server);
	for (unsigned i = 0; i < HANDLE_CREDITS + 2; i++) {
		q = request(GKV_OP_PUT, i, i);
		q.len = 10;
		q.timeout_ms = 1000;
		q.user_data = i < HANDLE_CREDITS ? 1 : 2;
		assert_int_equal(gkv_submit(kv, &q, 1), 1);
	}
	q = request(GKV_OP_GET, 0, 20);
	q.key = "k";
	q.key_len = 1;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	assert_int_equal(wait_one().user_data, 20);
	/* those that were sent are not taken back, those that wait are */
	assert_int_equal(gkv_cancel(kv, 1), -ENOENT);
	assert_int_equal(gkv_cancel(kv, 3), -ENOENT);
	assert_int_equal(gkv_cancel(kv, 2), 2);
	assert_int_equal(wait_one().status, -ECANCELED);
	assert_int_equal(wait_one().status, -ECANCELED);
	for (unsigned i = 0; i < HANDLE_CREDITS; i++)
		assert_int_equal(wait_one().status, -ETIMEDOUT);
	assert_non_null(strstr(gkv_error(kv), "not known"));
	assert_int_equal(gkv_pending(kv), 0);
	/* late replies free what they had */
	kill(server, SIGCONT);
	q = request(GKV_OP_INCR, 100, 0);
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	assert_int_equal(wait_one().status, 0);
	memset(slot, 0, sizeof(slot));
}

/* Calls that wait go on beside operations in flight, also where these have all slots. */
static void test_calls_in_between(void **state)
{
	static uint8_t large[20000], back[20000];
	struct gkv_request q[DEPTH];
	struct gkv_completion c[DEPTH];
	size_t len;

	all_keys(GKV_OP_PUT, 1);
	for (unsigned round = 0; round < 50; round++) {
		unsigned n = 0;

		for (unsigned i = 0; i < DEPTH; i++) {
			q[i] = request(i % 2 ? GKV_OP_GET : GKV_OP_PUT, (round * DEPTH + i) % KEYS,
				       i);
			if (q[i].op == GKV_OP_PUT)
				q[i].len = fill(slot[i].key, 1, q[i].value);
		}
		assert_int_equal(gkv_submit(kv, q, DEPTH), DEPTH);
		memset(large, (int)round, sizeof(large));
		assert_int_equal(gkv_put(kv, "large", 5, large, sizeof(large), NULL), 0);
		assert_int_equal(gkv_get(kv, "large", 5, back, sizeof(back), &len), 0);
		assert_memory_equal(large, back, len);
		assert_int_equal(gkv_ping(kv, NULL), 0);
		while (n < DEPTH) {
			int got = gkv_wait(kv, c, DEPTH, WAIT_MS);

			assert_true(got > 0);
			for (int i = 0; i < got; i++) {
				if (c[i].op == GKV_OP_GET)
					expect_life(&c[i], 1);
				assert_int_equal(c[i].status, 0);
			}
			n += (unsigned)got;
		}
	}
	memset(slot, 0, sizeof(slot));
}

/* The server is another one: what was in flight is done there, or at its end. */
static void test_server_started_anew(void **state)
{
	struct gkv_request q;

	all_keys(GKV_OP_PUT, 1);
	all_keys(GKV_OP_GET, 1);
	for (unsigned i = 0; i < 10; i++) {
		q = request(GKV_OP_GET, i, i);
		assert_int_equal(gkv_submit(kv, &q, 1), 1);
	}
	server_stop(server, SIGKILL);
	for (unsigned i = 10; i < 20; i++) {
		q = request(GKV_OP_GET, i, i);
		assert_int_equal(gkv_submit(kv, &q, 1), 1);
	}
	server = server_start(&port, "64M");
	for (unsigned i = 0; i < 20; i++) {
		struct gkv_completion c = wait_one();

		if (c.status != -ENOENT) /* READ from the one that was */
			expect_life(&c, 1);
	}
	all_keys(GKV_OP_PUT, 5);
	all_keys(GKV_OP_GET, 5);
	assert_true(kv->reader.stats.reconnects >= 1);
}

/* Nobody is there: each ends in its time, and no poll waits for it. */
static void test_server_gone(void **state)
{
	struct gkv_completion c;
	struct gkv_request q;
	uint64_t start, longest = 0;

	all_keys(GKV_OP_PUT, 1);
	server_stop(server, SIGKILL);
	start = time_now_ns();
	for (unsigned i = 0; i < 4; i++) {
		q = request(i % 2 ? GKV_OP_GET : GKV_OP_PUT, i, i);
		q.len = 10;
		q.timeout_ms = 700;
		assert_int_equal(gkv_submit(kv, &q, 1), 1);
	}
	while (gkv_pending(kv)) {
		uint64_t before = time_now_ns();
		int n = gkv_poll(kv, &c, 1);

		before = time_now_ns() - before;
		longest = before > longest ? before : longest;
		if (n)
			assert_true(c.status == -ETIMEDOUT || c.status == -ECONNREFUSED ||
				    c.status == -ECONNRESET || c.status == -EREMOTEIO);
		usleep(1000);
	}
	assert_true(time_now_ns() - start >= 650 * NS_PER_MS);
	assert_true(longest < 500 * NS_PER_MS); /* an attempt may take seconds */
	memset(slot, 0, sizeof(slot));
	server = server_start(&port, "64M");
	all_keys(GKV_OP_PUT, 2);
	all_keys(GKV_OP_GET, 2);
}

static void sleep_and_poll(int fd, struct gkv_completion *c)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int rc;

	for (;;) {
		rc = gkv_poll(kv, c, 1);
		assert_true(rc >= 0);
		if (rc)
			return;
		rc = gkv_arm(kv);
		if (rc == -EAGAIN)
			continue;
		assert_int_equal(rc, 0);
		assert_int_equal(poll(&p, 1, (int)WAIT_MS), 1); /* or the wake-up was missed */
	}
}

static void test_sleeping_on_the_descriptor(void **state)
{
	int fd = gkv_fd(kv);
	struct gkv_completion c;
	struct gkv_request q;

	assert_true(fd >= 0);
	assert_int_equal(gkv_fd(kv), fd);
	for (unsigned i = 0; i < 300; i++) {
		q = request(i % 2 ? GKV_OP_GET : GKV_OP_PUT, i / 2, 0);
		q.len = i % 2 ? q.len : 10;
		assert_int_equal(gkv_submit(kv, &q, 1), 1);
		sleep_and_poll(fd, &c);
		assert_int_equal(c.status, 0);
	}
	/* a deadline wakes it */
	server_pause(server);
	q = request(GKV_OP_INCR, 1, 0);
	q.timeout_ms = 50;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	sleep_and_poll(fd, &c);
	assert_int_equal(c.status, -ETIMEDOUT);
	/* so does a server that is gone, and another one */
	server_stop(server, SIGKILL);
	q = request(GKV_OP_GET, 1, 0);
	q.timeout_ms = 300;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	sleep_and_poll(fd, &c);
	server = server_start(&port, "64M");
	q = request(GKV_OP_PUT, 1, 0);
	q.len = 10;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	sleep_and_poll(fd, &c);
	assert_int_equal(c.status, 0);
	assert_int_equal(gkv_fd(kv), fd);
	memset(slot, 0, sizeof(slot));
}

/* Whether the descriptor lets its owner sleep: after a few rounds it is not readable any more. */
static bool comes_to_rest(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	const uint64_t end_ns = time_now_ns() + WAIT_MS * NS_PER_MS;
	struct gkv_completion c;

	do {
		int rc = gkv_arm(kv);

		if (rc == 0 && poll(&p, 1, 100) == 0)
			return true;
		assert_int_equal(gkv_poll(kv, &c, 1), 0);
	} while (time_now_ns() < end_ns);
	return false;
}

/* More completions than one look takes come before the arming, and end nothing. */
static void test_sleeping_on_what_came_before(void **state)
{
	struct pollfd p = { .fd = gkv_fd(kv), .events = POLLIN };
	struct gkv_request q[HANDLE_CREDITS];
	struct gkv_completion c;

	for (unsigned i = 0; i < HANDLE_CREDITS; i++)
		q[i] = request(GKV_OP_INCR, i, i);
	assert_int_equal(gkv_submit(kv, q, HANDLE_CREDITS), HANDLE_CREDITS);
	usleep(300000);
	if (gkv_arm(kv) == 0)
		assert_int_equal(poll(&p, 1, 5000), 1);
	for (unsigned i = 0; i < HANDLE_CREDITS; i++) {
		sleep_and_poll(p.fd, &c);
		assert_int_equal(c.status, 0);
	}
	memset(slot, 0, sizeof(slot));
}

/* With nothing in flight a connection that is lost wakes its owner, and lets it sleep again. */
static void test_sleeping_beside_a_lost_connection(void **state)
{
	struct gkv_request q = request(GKV_OP_INCR, 1, 0);
	struct gkv_completion c;
	int fd = gkv_fd(kv);

	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	sleep_and_poll(fd, &c);
	assert_true(comes_to_rest(fd));
	server_stop(server, SIGKILL);
	assert_true(comes_to_rest(fd));
	server = server_start(&port, "64M");
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	sleep_and_poll(fd, &c);
	assert_int_equal(c.status, 0);
	assert_true(comes_to_rest(fd)); /* the connector's signal was taken */
	memset(slot, 0, sizeof(slot));
}

/* A write that is not answered ends in its time beside gets that complete in each poll. */
static void test_deadline_beside_gets_that_keep_coming(void **state)
{
	struct gkv_request put, get = request(GKV_OP_GET, 1, 1);
	struct gkv_completion c[DEPTH];
	const uint64_t end_ns = time_now_ns() + WAIT_MS / 2 * NS_PER_MS;
	bool ended = false;

	all_keys(GKV_OP_PUT, 1);
	server_pause(server);
	put = request(GKV_OP_INCR, 2, 0);
	put.timeout_ms = 100;
	assert_int_equal(gkv_submit(kv, &put, 1), 1);
	kv->async->polls |= 1; /* two calls more for each round: it stays odd */
	while (!ended && time_now_ns() < end_ns) {
		int n;

		n = gkv_submit(kv, &get, 1);
		assert_true(n == 1 || n == -EAGAIN); /* on a slow device all are in flight */
		n = gkv_poll(kv, c, DEPTH);
		assert_true(n >= 0);
		for (int i = 0; i < n; i++)
			ended = ended || c[i].user_data == 0;
	}
	assert_true(ended);
	kill(server, SIGCONT);
	while (gkv_pending(kv))
		assert_true(gkv_wait(kv, c, DEPTH, WAIT_MS) > 0);
	memset(slot, 0, sizeof(slot));
}

/* Who submits and does not poll holds no memory back for longer than the housekeeper's patience. */
static void test_sections_of_a_handle_that_nobody_polls_end(void **state)
{
	struct gkv_session_stats before, now;
	struct gkv_request q[DEPTH];
	struct gkv *other;

	all_keys(GKV_OP_PUT, 1);
	assert_int_equal(gkv_open(session, &other), 0);
	for (unsigned i = 0; i < DEPTH; i++)
		q[i] = request(GKV_OP_GET, i, i);
	assert_int_equal(gkv_submit(kv, q, DEPTH), DEPTH);
	gkv_session_stats_get(session, &before);
	for (unsigned i = 0; i < 10000; i++) {
		assert_int_equal(gkv_put(other, "other", 5, &i, sizeof(i), NULL), 0);
		gkv_session_stats_get(session, &now);
		if (now.polled && now.announced > before.epoch)
			break;
		usleep(1000);
	}
	assert_true(now.polled > 0);
	assert_true(now.announced > before.epoch);
	assert_int_equal(now.reconnects, 0);
	for (unsigned i = 0; i < DEPTH; i++) {
		struct gkv_completion c = wait_one();

		expect_life(&c, 1);
	}
	gkv_close(other);
}

/* Lanes follow each other without a gap, and what is announced advances. */
static void test_sections_that_overlap_hold_nothing_back(void **state)
{
	struct gkv_session_stats stats;
	struct gkv_completion c[DEPTH];
	uint64_t first, end_ns;
	struct gkv *other;
	unsigned writes = 0;

	all_keys(GKV_OP_PUT, 1);
	assert_int_equal(gkv_open(session, &other), 0);
	for (unsigned i = 0; i < DEPTH; i++) {
		struct gkv_request q = request(GKV_OP_GET, i, i);

		assert_int_equal(gkv_submit(kv, &q, 1), 1);
	}
	assert_true(kv->sections > 1);
	gkv_session_stats_get(session, &stats);
	first = stats.epoch;
	end_ns = time_now_ns() + WAIT_MS * NS_PER_MS;
	do {
		int n = gkv_poll(kv, c, 1);

		assert_true(n >= 0);
		if (n) {
			struct gkv_request q = request(GKV_OP_GET, writes % KEYS, c->user_data);

			assert_int_equal(gkv_submit(kv, &q, 1), 1);
		}
		assert_true(kv->sections > 0 || gkv_pending(kv));
		if (++writes % 16 == 0)
			assert_int_equal(gkv_put(other, "other", 5, &writes, 4, NULL), 0);
		gkv_session_stats_get(session, &stats);
	} while (stats.announced < first + 5 && time_now_ns() < end_ns);
	assert_true(stats.announced >= first + 5);
	assert_int_equal(stats.polled, 0);
	gkv_close(other);
	memset(slot, 0, sizeof(slot));
}

static void submit_gets(void)
{
	struct gkv_request q[DEPTH];

	all_keys(GKV_OP_PUT, 1);
	for (unsigned i = 0; i < DEPTH; i++)
		q[i] = request(GKV_OP_GET, i, i);
	assert_int_equal(gkv_submit(kv, q, DEPTH), DEPTH);
	assert_true(kv->sections > 0);
}

static void expect_gets(void)
{
	while (gkv_pending(kv)) {
		struct gkv_completion c = wait_one();

		expect_life(&c, 1);
	}
}

/* A call that waits for the server does not keep it from memory by sections of its own handle. */
static void test_sections_end_beside_a_call_that_waits(void **state)
{
	submit_gets();
	kv->session->settings.timeout_ms = 1000;
	server_pause(server);
	assert_int_equal(gkv_put(kv, "k", 1, "v", 1, NULL), -ETIMEDOUT);
	assert_int_equal(kv->sections, 0);
	kill(server, SIGCONT);
	kv->session->settings.timeout_ms = WAIT_MS;
	expect_gets();
}

static int wait_for_housekeeper(void *arg, const void *key, size_t key_len, const void *value,
				const struct gkv_meta *meta)
{
	struct gkv_session_stats stats;

	for (unsigned i = 0; i < WAIT_MS; i++) {
		gkv_session_stats_get(session, &stats);
		if (stats.polled)
			return 1;
		assert_int_equal(gkv_ping(kv, NULL), -EDEADLK);
		usleep(1000);
	}
	return 2;
}

/* The same of a visitor that takes long. */
static void test_sections_end_beside_a_visitor(void **state)
{
	submit_gets();
	assert_int_equal(gkv_scan(kv, wait_for_housekeeper, NULL), 1);
	assert_int_equal(kv->sections, 0);
	expect_gets();
}

/*
 * A handle that nobody polls keeps no pin of a connection that was lost: over the next one, another
 * handle's, nothing would be announced.
 */
static void test_sections_of_a_lost_connection_end(void **state)
{
	struct gkv_session_stats stats;
	struct gkv *other;
	uint64_t first = 0;

	submit_gets();
	assert_int_equal(gkv_open(session, &other), 0);
	/* the transport is lost before it has brought anything */
	channel_fail(kv, "by hand");
	for (unsigned i = 0; i < WAIT_MS; i++) {
		assert_int_equal(gkv_put(other, "other", 5, &i, sizeof(i), NULL), 0);
		gkv_session_stats_get(session, &stats);
		if (!first)
			first = stats.epoch;
		if (stats.announced > first)
			break;
		usleep(1000);
	}
	assert_true(stats.announced > first);
	expect_gets();
	gkv_close(other);
}

static void test_closing_with_operations_in_flight(void **state)
{
	struct gkv_request q[DEPTH];

	all_keys(GKV_OP_PUT, 1);
	for (unsigned i = 0; i < DEPTH; i++)
		q[i] = request(i % 2 ? GKV_OP_GET : GKV_OP_INCR, i + 100, i);
	assert_int_equal(gkv_submit(kv, q, DEPTH), DEPTH);
	gkv_close(kv);
	memset(slot, 0, sizeof(slot));
	assert_int_equal(gkv_open(session, &kv), 0);
	assert_int_equal(gkv_ping(kv, NULL), 0);
	/* while it is being connected anew */
	server_stop(server, SIGKILL);
	q[0] = request(GKV_OP_GET, 1, 0);
	assert_int_equal(gkv_submit(kv, q, 1), 1);
	for (unsigned i = 0; i < 100; i++) {
		struct gkv_completion c;

		gkv_poll(kv, &c, 1);
		usleep(300);
	}
	memset(slot, 0, sizeof(slot));
}

static void test_many_writes_of_one_call(void **state)
{
	static struct gkv_item item[KEYS];
	static uint8_t value[KEYS][256];

	for (unsigned i = 0; i < KEYS; i++) {
		key_of[i] = i;
		memset(value[i], (int)i, sizeof(value[i]));
		item[i] = (struct gkv_item){ .key = &key_of[i],
					     .key_len = sizeof(unsigned),
					     .value = value[i],
					     .len = i % 256 };
	}
	item[7].key_len = 0;
	assert_int_equal(gkv_mput(kv, item, KEYS), 0);
	for (unsigned i = 0; i < KEYS; i++) {
		assert_int_equal(item[i].status, i == 7 ? -EINVAL : 0);
		assert_true(i == 7 || item[i].meta.version > 0);
		item[i].terms = (struct gkv_terms){ .condition = GKV_IF_VERSION,
						    .version = item[i].meta.version + (i == 9) };
	}
	assert_int_equal(gkv_mdel(kv, item, KEYS / 2), 0);
	for (unsigned i = 0; i < KEYS / 2; i++)
		assert_int_equal(item[i].status, i == 7 ? -EINVAL : i == 9 ? -EEXIST : 0);
	for (unsigned i = 0; i < KEYS; i++) {
		uint8_t back[256];
		size_t len;

		if (i == 7)
			continue;
		assert_int_equal(gkv_get(kv, &key_of[i], sizeof(unsigned), back, 256, &len),
				 i == 9 || i >= KEYS / 2 ? 0 : -ENOENT);
		if (i >= KEYS / 2) {
			assert_int_equal(len, i % 256);
			assert_memory_equal(back, value[i], len);
		}
	}
	assert_int_equal(gkv_mput(kv, NULL, 1), -EINVAL);
	assert_int_equal(gkv_mput(kv, NULL, 0), 0);
	/* a server that stands still: what was begun is not known, the rest was not begun */
	kv->session->settings.timeout_ms = 100;
	server_pause(server);
	for (unsigned i = 0; i < KEYS; i++)
		item[i].terms = (struct gkv_terms){ 0 };
	assert_int_equal(gkv_mput(kv, item, KEYS), -ETIMEDOUT);
	for (unsigned i = 8; i < KEYS; i++)
		assert_int_equal(item[i].status, i <= HANDLE_CREDITS ? -ETIMEDOUT : -ECANCELED);
	kill(server, SIGCONT);
	kv->session->settings.timeout_ms = WAIT_MS;
	assert_int_equal(gkv_mput(kv, item + 8, KEYS - 8), 0);
}

#define SHORT_MS 500u

/* Something listens where the server was, and is silent. Returns its descriptor. */
static int listen_silently(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

/* Without a thread gkv_poll() connects: it waits for who does not answer, but not for longer than
 * its own time. */
static void test_poll_that_connects_ends_in_time(void **state)
{
	struct gkv_completion c = { 0 };
	struct gkv_request q;
	uint64_t from, longest = 0;
	int fd, n;

	all_keys(GKV_OP_PUT, 0);
	server_stop(server, SIGKILL);
	fd = listen_silently();
	kv->session->settings.timeout_ms = SHORT_MS;
	q = request(GKV_OP_PUT, 1, 0);
	q.len = 10;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	do {
		from = time_now_ns();
		n = gkv_poll(kv, &c, 1);
		if (time_now_ns() - from > longest)
			longest = time_now_ns() - from;
	} while (n == 0);
	assert_int_equal(n, 1);
	assert_int_not_equal(c.status, 0);
	assert_in_range(longest / NS_PER_MS, 0, EXCHANGE_DEADLINE_MS / 2);
	close(fd);
	memset(slot, 0, sizeof(slot));
	kv->session->settings.timeout_ms = WAIT_MS;
	server = server_start(&port, "128M");
}

int main(int argc, char **argv)
{
#define TEST(name)	cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_TICK(name) cmocka_unit_test_setup_teardown(name, set_up_tick, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_many_in_flight),
		TEST(test_one_call_is_one_chain),
		TEST(test_wrong_requests_complete),
		TEST(test_gets_into_registered_memory),
		TEST(test_terms_and_sums),
		TEST(test_deadlines_and_cancels),
		TEST(test_calls_in_between),
		TEST(test_server_started_anew),
		TEST_TICK(test_server_started_anew),
		TEST(test_server_gone),
		TEST_TICK(test_poll_that_connects_ends_in_time),
		TEST(test_sleeping_on_the_descriptor),
		TEST(test_sleeping_on_what_came_before),
		TEST(test_sleeping_beside_a_lost_connection),
		TEST_TICK(test_sleeping_beside_a_lost_connection),
		TEST(test_deadline_beside_gets_that_keep_coming),
		TEST(test_sections_of_a_handle_that_nobody_polls_end),
		TEST(test_sections_end_beside_a_call_that_waits),
		TEST(test_sections_end_beside_a_visitor),
		TEST(test_sections_of_a_lost_connection_end),
		TEST(test_sections_that_overlap_hold_nothing_back),
		TEST(test_closing_with_operations_in_flight),
		TEST(test_many_writes_of_one_call),
	};

	server_program(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
