/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Operations in flight: many at once, wrong ones, cancelled, too late, beside other calls. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/src/flight/async.h"
#include "tests/lib/unit.h"
#include "flight.h"
#include "with_server.h"

UNIT_TEST(test_many_in_flight, set_up, tear_down)
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
UNIT_TEST(test_one_call_is_one_chain, set_up, tear_down)
{
	struct gkv_request q[DEPTH];
	struct gkv_completion c[DEPTH];
	uint64_t chains;
	unsigned done = 0;

	for (unsigned i = 0; i < DEPTH; i++)
		q[i] = request(GKV_OP_GET, i, i);
	assert_int_equal(gkv_exists(kv, q, 4, NULL), -ENOENT); /* the extent is known now */
	chains = kv->link.chains_posted;
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
	assert_int_equal(kv->link.chains_posted - chains,
			 1); /* the buckets say that there is none */
	memset(slot, 0, sizeof(slot));
}

UNIT_TEST(test_wrong_requests_complete, set_up, tear_down)
{
	struct gkv_request q[] = {
		{ .op = 0, .key = "k", .key_len = 1 },
		{ .op = 8, .key = "k", .key_len = 1 },
		{ .op = GKV_OP_GET, .key = NULL, .key_len = 1 },
		{ .op = GKV_OP_GET, .key = "k", .key_len = 0 },
		{ .op = GKV_OP_GET, .key = "k", .key_len = 1025 },
		{ .op = GKV_OP_GET, .key = "k", .key_len = 1, .len = 1 },
		{ .op = GKV_OP_PUT, .key = "k", .key_len = 1, .len = 1 },
		{ .op = GKV_OP_PUT, .key = "k", .key_len = 1, .value = slot, .len = SIZE_MAX },
		{ .op = GKV_OP_PUT, .key = "k", .key_len = 1, .options.condition = 4 },
		{ .op = GKV_OP_DEL, .key = "k", .key_len = 1, .options.condition = 1 },
		{ .op = GKV_OP_TOUCH, .key = "k", .key_len = 1, .options.ttl_ms = UINT64_MAX },
	};
	struct gkv_completion c[DEPTH];
	const size_t count = sizeof(q) / sizeof(*q);
	struct gkv_stats stats;

	for (size_t i = 0; i < count; i++)
		q[i].user = &q[i];
	assert_int_equal(gkv_submit(kv, q, count), count);
	assert_int_equal(gkv_poll(kv, c, DEPTH), count);
	for (size_t i = 0; i < count; i++) {
		assert_ptr_equal(c[i].user, &q[i]);
		assert_int_equal(c[i].status, -EINVAL);
	}
	assert_int_equal(gkv_submit(kv, NULL, 1), -EINVAL);
	assert_int_equal(gkv_poll(kv, NULL, 1), -EINVAL);
	assert_int_equal(gkv_wait(kv, c, 1, 86400001), -EINVAL);
	assert_int_equal(gkv_wait(kv, c, 1, 0), 0);
	assert_int_equal(gkv_poll(kv, NULL, 0), 0);
	gkv_stats_get(kv, &stats);
	assert_int_equal(stats.submitted, count);
	assert_int_equal(stats.gets, 0); /* as where they are waited for */
}

/* Without a copy: warm, cold, on another life of the server, and what is refused. */
UNIT_TEST(test_gets_into_registered_memory, set_up, tear_down)
{
	struct gkv_memory *memory;
	struct gkv_request q;

	all_keys(GKV_OP_PUT, 1);
	assert_int_equal(gkv_memory_register(session, slot, sizeof(slot), &memory, NULL, 0), 0);
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
	assert_int_equal(gkv_open(session, NULL, &kv, NULL, 0), 0);
	memset(slot, 0, sizeof(slot));
}

/* Its time is over while its READ is under way: the queue pair goes with it, and it ends once. */
UNIT_TEST(test_late_get_into_registered_memory_ends_once, set_up, tear_down)
{
	struct gkv_memory *memory;
	struct gkv_completion c;

	all_keys(GKV_OP_PUT, 1);
	assert_int_equal(gkv_memory_register(session, slot, sizeof(slot), &memory, NULL, 0), 0);
	for (unsigned cancelled = 0; cancelled < 2; cancelled++) {
		struct gkv_request q = request(GKV_OP_GET, 1, 0);

		q.memory = memory;
		q.timeout_ms = 1;
		assert_int_equal(gkv_ping(kv, NULL), 0); /* connected again */
		assert_int_equal(gkv_submit(kv, &q, 1), 1);
		assert_int_equal(kv->async->reads, 1);
		assert_int_equal(gkv_cancel(kv, &slot[cancelled ? 0 : 1]), cancelled ? 1 : -ENOENT);
		usleep(2000);
		channel_fail(kv, "this test says so");
		c = wait_one();
		assert_int_equal(c.status, cancelled ? -ECANCELED : -ETIMEDOUT);
		assert_int_equal(gkv_pending(kv), 0);
		assert_int_equal(gkv_poll(kv, &c, 1), 0);
	}
	assert_int_equal(gkv_memory_release(memory), 0);
	all_keys(GKV_OP_GET, 1);
}

UNIT_TEST(test_options_and_sums, set_up, tear_down)
{
	struct gkv_request q;
	struct gkv_completion c;
	uint64_t version;

	gkv_request_incr(&q, "n", 1, 5, slot);
	for (unsigned i = 1; i < 10; i++) {
		assert_int_equal(gkv_submit(kv, &q, 1), 1);
		c = wait_one();
		assert_int_equal(c.status, 0);
		assert_int_equal(c.sum, 5 * i);
	}
	version = c.meta.version;
	gkv_request_put(&q, "n", 1, slot, 1, slot);
	q.options.condition = GKV_IF_ABSENT;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	c = wait_one();
	assert_int_equal(c.status, -EEXIST);
	assert_int_equal(c.meta.version, version);
	q.options = (struct gkv_write_options){ .condition = GKV_IF_VERSION, .version = version };
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	assert_int_equal(wait_one().status, 0);
	q.op = GKV_OP_INCR;
	q.options = (struct gkv_write_options){ .condition = GKV_IF_PRESENT };
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	assert_int_equal(wait_one().status, -EDOM);
}

/* A server that stands still answers no request; READs are served. */
UNIT_TEST(test_deadlines_and_cancels, set_up, tear_down)
{
	struct gkv_request q;

	assert_int_equal(gkv_put(kv, "k", 1, "value", 5, NULL), 0);
	server_pause(server);
	for (unsigned i = 0; i < HANDLE_CREDITS + 2; i++) {
		q = request(GKV_OP_PUT, i, i);
		q.len = 10;
		q.timeout_ms = 1000;
		q.user = &slot[i < HANDLE_CREDITS ? 1 : 2];
		assert_int_equal(gkv_submit(kv, &q, 1), 1);
	}
	q = request(GKV_OP_GET, 0, 20);
	q.key = "k";
	q.key_len = 1;
	assert_int_equal(gkv_submit(kv, &q, 1), 1);
	assert_ptr_equal(wait_one().user, &slot[20]);
	/* those that were sent are not taken back, those that wait are */
	assert_int_equal(gkv_cancel(kv, &slot[1]), -ENOENT);
	assert_int_equal(gkv_cancel(kv, &slot[3]), -ENOENT);
	assert_int_equal(gkv_cancel(kv, &slot[2]), 2);
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
UNIT_TEST(test_calls_in_between, set_up, tear_down)
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

/* A write that is not answered ends in its time beside gets that complete in each poll. */
UNIT_TEST(test_deadline_beside_gets_that_keep_coming, set_up, tear_down)
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
			ended = ended || c[i].user == slot;
	}
	assert_true(ended);
	kill(server, SIGCONT);
	while (gkv_pending(kv))
		assert_true(gkv_wait(kv, c, DEPTH, WAIT_MS) > 0);
	memset(slot, 0, sizeof(slot));
}

UNIT_TEST(test_closing_with_operations_in_flight, set_up, tear_down)
{
	struct gkv_request q[DEPTH];

	all_keys(GKV_OP_PUT, 1);
	for (unsigned i = 0; i < DEPTH; i++)
		q[i] = request(i % 2 ? GKV_OP_GET : GKV_OP_INCR, i + 100, i);
	assert_int_equal(gkv_submit(kv, q, DEPTH), DEPTH);
	gkv_close(kv);
	memset(slot, 0, sizeof(slot));
	assert_int_equal(gkv_open(session, NULL, &kv, NULL, 0), 0);
	assert_int_equal(gkv_ping(kv, NULL), 0);
	/* while it is being connected again */
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

UNIT_TEST(test_many_writes_of_one_call, set_up, tear_down)
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
		item[i].options =
			(struct gkv_write_options){ .condition = GKV_IF_VERSION,
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
		item[i].options = (struct gkv_write_options){ 0 };
	assert_int_equal(gkv_mput(kv, item, KEYS), -ETIMEDOUT);
	for (unsigned i = 8; i < KEYS; i++)
		assert_int_equal(item[i].status, i <= HANDLE_CREDITS ? -ETIMEDOUT : -ECANCELED);
	kill(server, SIGCONT);
	kv->session->settings.timeout_ms = WAIT_MS;
	assert_int_equal(gkv_mput(kv, item + 8, KEYS - 8), 0);
}
