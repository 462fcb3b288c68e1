/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The client's device fails, and is opened again, under a session whose handles stay. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/src/keeper/housekeeper.h"
#include "client/src/link/device.h"
#include "client/src/link/handle.h"
#include "common/base/time.h"
#include "tests/lib/fake_device.h"
#include "tests/lib/unit.h"
#include "with_server.h"

#define THREADS	   4u
#define FAILURES   12u
#define SLACK_NS   (4 * NS_PER_S) /* of a busy machine */
#define LARGE	   (256u << 10) /* staged, and pulled */
#define FLIGHT	   48u
#define TIMEOUT_MS 30000u

static unsigned port;
static pid_t server;
static struct gkv_session *session;
static unsigned left; /* contexts that a test leaves open */

static int open_session(unsigned timeout_ms, unsigned housekeeper)
{
	char address[32], why[640] = "";
	struct gkv_options o;
	int rc;

	gkv_options_init(&o);
	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	o.server = address;
	o.device = "auto";
	o.timeout_ms = timeout_ms;
	o.housekeeper = housekeeper;
	rc = gkv_session_open(&o, &session, why, sizeof(why));
	if (rc)
		printf("%s\n", why);
	return rc;
}

static int begin(unsigned timeout_ms, unsigned housekeeper)
{
	port = 0;
	server = server_start(&port, "64M");
	fake_reset();
	fake_say("device mlx5_0");
	fake_say("device mlx5_1"); /* which "auto" must not take instead */
	return open_session(timeout_ms, housekeeper);
}

static int set_up(void **state)
{
	return begin(TIMEOUT_MS, GKV_HOUSEKEEPER_THREAD);
}

static int set_up_short(void **state)
{
	return begin(700, GKV_HOUSEKEEPER_THREAD);
}

static int set_up_tick(void **state)
{
	return begin(TIMEOUT_MS, GKV_HOUSEKEEPER_TICK);
}

static int tear_down(void **state)
{
	gkv_session_close(session);
	server_stop(server, SIGKILL);
	assert_int_equal(fake_opened(), left);
	return 0;
}

static struct gkv *handle(void)
{
	struct gkv *kv;

	assert_ok(server_handle(session, &kv));
	return kv;
}

/* It fails, and the session has seen it: the handle is to get another queue pair. */
static void fail_device(struct gkv *kv)
{
	const uint64_t until_ns = time_now_ns() + TIMEOUT_MS * NS_PER_MS;

	fake_say("event mlx5_0 device_fatal");
	while (handle_current(kv)) {
		assert_true(time_now_ns() < until_ns);
		usleep(1000);
	}
}

/* So many devices are open, once the housekeeper, too, has let go of one that it was looking at. */
static void await_opened(unsigned count)
{
	const uint64_t until_ns = time_now_ns() + TIMEOUT_MS * NS_PER_MS;

	while (fake_opened() != count && time_now_ns() < until_ns)
		usleep(1000);
	assert_int_equal(fake_opened(), count);
}

static void put_and_get(struct gkv *kv, const char *key, const char *value)
{
	char back[16] = "";
	size_t len;

	assert_ok(gkv_put(kv, key, strlen(key), value, strlen(value), NULL));
	assert_ok(gkv_get(kv, key, strlen(key), back, sizeof(back), &len));
	assert_int_equal(len, strlen(value));
	assert_memory_equal(back, value, len);
}

UNIT_TEST(a_handle_goes_on, set_up, tear_down)
{
	struct gkv *kv = handle(), *idle = handle();
	const char *words = gkv_session_describe(session);
	char value[8];

	assert_null(strstr(words, "opened again"));
	put_and_get(kv, "k", "before");
	fail_device(kv);
	assert_ok(gkv_get(kv, "k", 1, value, sizeof(value), NULL));
	assert_non_null(
		strstr(gkv_session_describe(session), "it has failed, and was opened again"));
	assert_null(strstr(words, "opened again")); /* and they stand still */
	assert_memory_equal(value, "before", 6);
	put_and_get(kv, "k", "after");
	assert_string_equal(session->device->rdma->name, "mlx5_0");
	assert_int_equal(fake_calls("open_device"), 3); /* both at first, then the one */
	await_opened(2); /* a handle that sleeps keeps the old one */
	put_and_get(idle, "k", "idle");
	await_opened(1);
	gkv_close(idle);
	gkv_close(kv);
}

struct worker {
	pthread_t thread;
	struct gkv *kv;
	unsigned number;
	int64_t sum;
	uint64_t rounds;
	int rc;
	char what[700];
};

static _Atomic bool enough;

static int went_wrong(struct worker *w, int rc, const char *what)
{
	w->rc = rc;
	snprintf(w->what, sizeof(w->what), "%s: %s", what, gkv_error(w->kv));
	return rc;
}

/* What was acknowledged is there, once, with bytes of one version. */
static int work_round(struct worker *w, uint8_t *value, uint8_t *back)
{
	struct gkv *kv = w->kv;
	char key[16], counter[16];
	int64_t sum = 0;
	size_t len;
	int rc;

	snprintf(key, sizeof(key), "value%u", w->number);
	snprintf(counter, sizeof(counter), "sum%u", w->number);
	memset(value, (int)(w->rounds % 251), LARGE);
	rc = gkv_put(kv, key, strlen(key), value, LARGE, NULL);
	if (rc)
		return went_wrong(w, rc, "put");
	rc = gkv_get(kv, key, strlen(key), back, LARGE, &len);
	if (rc)
		return went_wrong(w, rc, "get");
	if (len != LARGE || memcmp(value, back, LARGE) != 0)
		return went_wrong(w, -EILSEQ, "another value");
	rc = gkv_incr(kv, counter, strlen(counter), 1, &sum);
	if (rc)
		return went_wrong(w, rc, "incr");
	if (sum != ++w->sum)
		return went_wrong(w, -EILSEQ, "another sum");
	w->rounds++;
	return 0;
}

static void *work(void *arg)
{
	uint8_t *value = malloc(LARGE), *back = malloc(LARGE);
	struct worker *w = arg;

	assert(value && back);
	while (!atomic_load(&enough) && work_round(w, value, back) == 0)
		;
	gkv_close(w->kv);
	free(value);
	free(back);
	return NULL;
}

UNIT_TEST(threads_go_on_under_failures, set_up, tear_down)
{
	struct worker w[THREADS];
	uint64_t rounds = 0;

	atomic_store(&enough, false);
	for (unsigned i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .number = i, .kv = handle() };
		assert_ok(pthread_create(&w[i].thread, NULL, work, &w[i]));
	}
	for (unsigned i = 0; i < FAILURES; i++) {
		usleep(150000);
		fake_say("event mlx5_0 device_fatal");
	}
	usleep(150000);
	atomic_store(&enough, true);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		if (w[i].rc)
			fail_msg("thread %u, round %lu: %s", i, (unsigned long)w[i].rounds,
				 w[i].what);
		rounds += w[i].rounds;
	}
	printf("%lu rounds, %u openings\n", (unsigned long)rounds, fake_calls("open_device"));
	assert_true(fake_calls("open_device") >= 5);
	assert_true(session->reconnects >= 3);
}

/* Calls end in time while it is away, with why; when it is back, so is the handle. */
UNIT_TEST(a_device_that_is_away_for_a_while, set_up_short, tear_down)
{
	struct gkv *kv = handle(), *other = NULL;
	unsigned told = 0;
	uint64_t from_ns;
	char value[8], why[640];
	int rc;

	put_and_get(kv, "k", "before");
	fake_say("fail open_device ENODEV");
	fail_device(kv);
	for (unsigned i = 0; i < 3; i++) {
		from_ns = time_now_ns();
		rc = gkv_get(kv, "k", 1, value, sizeof(value), NULL);
		told += rc == -ENODEV;
		assert_non_null(strstr(gkv_error(kv), rc == -ENODEV
							      ? "ibv_open_device of mlx5_0 failed"
							      : "was still connecting"));
		assert_true(time_now_ns() - from_ns >= 500 * NS_PER_MS); /* it is tried again */
		assert_true(time_now_ns() - from_ns < 700 * NS_PER_MS + SLACK_NS);
	}
	assert_true(told > 0);
	assert_int_equal(gkv_open(session, NULL, &other, why, sizeof(why)), -ENODEV);
	assert_true(fake_calls("open_device") <= 30); /* with pauses */
	fake_say("fail open_device 0");
	usleep(600000); /* longer than a pause of the back-off */
	assert_ok(gkv_get(kv, "k", 1, value, sizeof(value), NULL));
	assert_memory_equal(value, "before", 6);
	other = handle();
	put_and_get(other, "k", "other");
	gkv_close(other);
	gkv_close(kv);
}

/* The handle and the session are closed while there is no device. */
UNIT_TEST(closing_without_a_device, set_up_short, tear_down)
{
	struct gkv *kv = handle();
	char value[8];

	put_and_get(kv, "k", "before");
	fake_say("fail open_device EIO");
	fail_device(kv);
	assert_int_equal(gkv_get(kv, "k", 1, value, sizeof(value), NULL), -EIO);
	gkv_close(kv);
}

/* Another failure while all is made afresh: verbs fail at any of their calls. */
UNIT_TEST(failing_again_on_the_way, set_up, tear_down)
{
	static const char *const calls[] = { "alloc_pd", "reg_mr", "create_cq", "create_qp",
					     "to_init",	 "to_rtr", "query_port" };
	struct gkv *kv = handle();

	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		fail_device(kv);
		fake_say("delay %s 30000", calls[i]);
		fake_say("event mlx5_0 device_fatal"); /* for who is opening it */
		put_and_get(kv, "k", calls[i]);
		fake_say("delay %s 0", calls[i]);
	}
	gkv_close(kv);
}

UNIT_TEST(what_is_in_flight_ends_well, set_up, tear_down)
{
	static uint8_t value[FLIGHT][2][20000]; /* some are staged */
	struct gkv_completion done[FLIGHT];
	struct gkv *kv = handle();
	char key[FLIGHT][8];

	for (unsigned round = 0; round < 6; round++) {
		struct gkv_request q[FLIGHT];
		const bool puts = round % 2 == 0;
		unsigned ended = 0;

		for (unsigned i = 0; i < FLIGHT; i++) {
			size_t len = i % 3 ? 100 : sizeof(value[i][0]);

			snprintf(key[i], sizeof(key[i]), "k%u", i);
			if (puts)
				memset(value[i][0], (int)(i + round), len);
			gkv_request_init(&q[i], puts ? GKV_OP_PUT : GKV_OP_GET, key[i],
					 strlen(key[i]), &q[i]);
			q[i].value = value[i][!puts];
			q[i].len = puts ? len : sizeof(value[i][1]);
		}
		assert_int_equal(gkv_submit(kv, q, FLIGHT), FLIGHT);
		if (round >= 2)
			fail_device(kv);
		while (ended < FLIGHT) {
			int n = gkv_wait(kv, done, FLIGHT, TIMEOUT_MS);

			assert_true(n > 0);
			for (int i = 0; i < n; i++)
				assert_int_equal(done[i].status, 0);
			ended += (unsigned)n;
		}
		for (unsigned i = 0; i < FLIGHT && !puts; i++)
			assert_memory_equal(value[i][0], value[i][1],
					    i % 3 ? 100 : sizeof(value[i][0]));
	}
	gkv_close(kv);
}

/* What it was registered on is gone: values are copied to it. */
UNIT_TEST(registered_memory_stays_of_use, set_up, tear_down)
{
	static uint8_t place[65536] __attribute__((aligned(4096)));
	struct gkv_memory *memory, *fresh;
	struct gkv *kv = handle();
	struct gkv_completion done;
	struct gkv_request q;
	char why[640];

	assert_ok(gkv_memory_register(session, place, sizeof(place), &memory, why, sizeof(why)));
	assert_ok(gkv_put(kv, "k", 1, "value", 5, NULL));
	assert_ok(gkv_get_into(kv, "k", 1, memory, place, sizeof(place), NULL));
	gkv_request_init(&q, GKV_OP_GET, "k", 1, NULL);
	q.value = place + 4096;
	q.len = 4096;
	q.memory = memory;
	assert_int_equal(gkv_submit(kv, &q, 1), 1); /* its key is the old device's */
	fail_device(kv);
	assert_int_equal(gkv_wait(kv, &done, 1, TIMEOUT_MS), 1);
	assert_int_equal(done.status, 0);
	assert_memory_equal(place + 4096, "value", 5);
	memset(place, 0, sizeof(place));
	assert_ok(gkv_get_into(kv, "k", 1, memory, place, sizeof(place), NULL));
	assert_memory_equal(place, "value", 5);
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	assert_int_equal(gkv_wait(kv, &done, 1, TIMEOUT_MS), 1);
	assert_int_equal(done.status, 0);
	assert_memory_equal(place + 4096, "value", 5);
	await_opened(2);
	assert_ok(gkv_memory_register(session, place, sizeof(place), &fresh, why, sizeof(why)));
	assert_ok(gkv_memory_release(memory));
	await_opened(1);
	assert_ok(gkv_get_into(kv, "k", 1, fresh, place, sizeof(place), NULL));
	assert_ok(gkv_memory_release(fresh));
	gkv_close(kv);
}

UNIT_TEST(without_a_thread_of_the_librarys, set_up_tick, tear_down)
{
	struct gkv *kv = handle();
	char value[8];

	put_and_get(kv, "k", "before");
	fake_say("event mlx5_0 device_fatal");
	for (unsigned i = 0; i < 200 && handle_current(kv); i++) {
		assert_true(gkv_tick(session, NULL, 0) >= 0);
		usleep(10000);
	}
	assert_false(handle_current(kv));
	assert_ok(gkv_get(kv, "k", 1, value, sizeof(value), NULL));
	for (unsigned i = 0; i < 20; i++) {
		assert_true(gkv_tick(session, NULL, 0) >= 0);
		usleep(10000);
	}
	put_and_get(kv, "k", "after");
	await_opened(1);
	gkv_close(kv);
}

/* Their memory is left to the device, mapped, and what may write to it as well. */
UNIT_TEST(keys_that_do_not_die, set_up, tear_down)
{
	static uint8_t value[LARGE], back[LARGE];
	static const struct ibv_mr *kept[4]; /* what is not lost, LeakSanitizer does not miss */
	struct gkv *kv = handle();
	const void *fetch, *arena;

	put_and_get(kv, "k", "before");
	fetch = kv->fetch.addr;
	arena = kv->arena.addr;
	kept[0] = kv->fetch.region.mr;
	kept[1] = kv->frames.region.mr;
	kept[2] = kv->arena.region.mr;
	kept[3] = session->keeper->h->fetch.region.mr;
	fake_say("fail dereg_mr EIO");
	fail_device(kv);
	put_and_get(kv, "k", "after");
	for (unsigned i = 0; i < 2000 && fake_failed("dereg_mr") < 4; i++)
		usleep(5000); /* the housekeeper's handle follows on its own thread */
	assert_int_equal(fake_failed("dereg_mr"), 4);
	fake_say("fail dereg_mr 0");
	assert_ptr_not_equal(kv->fetch.addr, fetch);
	assert_ptr_not_equal(kv->arena.addr, arena);
	assert_int_equal(*(volatile const uint8_t *)fetch, *(const uint8_t *)fetch);
	assert_int_equal(*(volatile const uint8_t *)arena, *(const uint8_t *)arena);
	memset(value, 7, sizeof(value));
	assert_ok(gkv_put(kv, "large", 5, value, LARGE, NULL));
	assert_ok(gkv_get(kv, "large", 5, back, LARGE, NULL));
	assert_memory_equal(value, back, LARGE);
	for (unsigned i = 0; i < 4; i++)
		assert_non_null(kept[i]->pd);
	left = 1;
	gkv_close(kv);
}
