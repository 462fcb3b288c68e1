/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What gkv_stats_get() and gkv_session_stats_get() count. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tests/lib/unit.h"
#include "tests/unit/api/api.h"
#include "tests/unit/client/with_server.h"

#define RECORDS 10u
#define WRITES	40u
#define WAIT_MS 60000u

static size_t key_of(unsigned i, char key[16])
{
	return (size_t)snprintf(key, 16, "record %u", i);
}

static struct gkv_session_stats of(const struct gkv_session *s)
{
	struct gkv_session_stats stats;

	gkv_session_stats_get(s, &stats);
	return stats;
}

/* Read all records, time and again, until there is a hint for each. */
static void read_until_hinted(struct gkv_session *s, struct gkv *kv)
{
	const uint64_t until = time_now_ns() + WAIT_MS * NS_PER_MS;
	char key[16], value[16];

	while (of(s).hints < RECORDS) {
		assert_true(time_now_ns() < until);
		for (unsigned i = 0; i < RECORDS; i++)
			assert_ok(gkv_get(kv, key, key_of(i, key), value, sizeof(value), NULL));
		usleep(1000); /* they count from a round of the housekeeper on */
	}
}

UNIT_TEST(test_hints, api_set_up, api_tear_down)
{
	uint64_t until;
	struct gkv_session *s;
	struct gkv_options o;
	struct gkv_stats stats;
	struct gkv *kv;
	char key[16];

	api_options(&o);
	o.hint_bytes = 64u << 10; /* so few are counted, not estimated */
	assert_int_equal(gkv_session_open(&o, &s, NULL, 0), 0);
	assert_int_equal(gkv_open(s, NULL, &kv, NULL, 0), 0);
	assert_int_equal(of(s).hint_bytes, o.hint_bytes);
	assert_int_equal(of(s).hints, 0);
	for (unsigned i = 0; i < RECORDS; i++)
		assert_int_equal(gkv_put(api_kv, key, key_of(i, key), "value", 5, NULL), 0);
	read_until_hinted(s, kv);
	assert_int_equal(of(s).hints, RECORDS);
	read_until_hinted(s, kv); /* one for each, however often it is read */
	assert_int_equal(of(s).hints, RECORDS);
	assert_int_equal(of(s).hints_dropped, 0);
	gkv_stats_get(kv, &stats);
	assert_int_equal(stats.hits, stats.gets);
	/* another server: none of them is of use */
	server_stop(api_server, SIGKILL);
	api_server = server_start(&api_port, "128M");
	until = time_now_ns() + WAIT_MS * NS_PER_MS;
	while (of(s).hints_dropped == 0) {
		assert_true(time_now_ns() < until);
		gkv_exists(kv, "nobody", 6, NULL);
		usleep(1000);
	}
	assert_int_equal(of(s).hints, 0);
	gkv_close(kv);
	gkv_session_close(s);
}

UNIT_TEST(test_no_hints, api_set_up, api_tear_down)
{
	struct gkv_session *s;
	struct gkv_options o;
	struct gkv *kv;

	api_options(&o);
	o.hint_bytes = 0;
	assert_int_equal(gkv_session_open(&o, &s, NULL, 0), 0);
	assert_int_equal(gkv_open(s, NULL, &kv, NULL, 0), 0);
	for (unsigned i = 0; i < 20; i++) {
		api_works(kv);
		usleep(1000);
	}
	assert_true(of(s).hint_bytes == 0 && of(s).hints == 0 && of(s).hints_dropped == 0);
	gkv_close(kv);
	gkv_session_close(s);
}

/* The server stands still, so that most of them are not sent. */
UNIT_TEST(test_cancelled, api_set_up, api_tear_down)
{
	struct gkv_request request[WRITES];
	struct gkv_completion done[WRITES];
	struct gkv_stats before, stats;
	unsigned n = 0, cancelled = 0;
	int rc;

	api_works(api_kv);
	for (unsigned i = 0; i < WRITES; i++)
		request[i] = (struct gkv_request){
			.op = GKV_OP_PUT, .key = "k", .key_len = 1, .user = &n
		};
	gkv_stats_get(api_kv, &before);
	assert_int_equal(before.cancelled, 0);
	server_pause(api_server);
	assert_int_equal(gkv_submit(api_kv, request, WRITES), WRITES);
	rc = gkv_cancel(api_kv, &n);
	kill(api_server, SIGCONT);
	assert_true(rc > 0);
	while (n < WRITES) {
		int got = gkv_wait(api_kv, done, WRITES, WAIT_MS);

		assert_true(got > 0);
		for (int i = 0; i < got; i++)
			cancelled += done[i].status == -ECANCELED;
		n += (unsigned)got;
	}
	assert_int_equal(cancelled, rc);
	gkv_stats_get(api_kv, &stats);
	assert_int_equal(stats.cancelled, rc);
	assert_int_equal(stats.submitted - before.submitted, WRITES);
	assert_int_equal(stats.puts - before.puts, WRITES - (unsigned)rc);
	assert_int_equal(stats.gets, before.gets);
	api_works(api_kv);
}
