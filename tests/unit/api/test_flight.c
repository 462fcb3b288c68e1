/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Operations in flight: gkv_submit(), gkv_poll(), gkv_wait(), gkv_cancel(), gkv_fd(), gkv_arm(). */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tests/lib/unit.h"
#include "tests/unit/api/api.h"
#include "tests/unit/api/api_more.h"
#include "tests/unit/client/with_server.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define DAY_MS	     (24u * 3600 * 1000)
#define WAIT_MS	     60000u
#define DEPTH	     4u

static char key[GKV_KEY_MAX + 1], room[16], five[] = "value";

#define REQUEST(...) ((struct gkv_request){ .key = "k", .key_len = 1, __VA_ARGS__ })

/* What is wrong with a request is told by its completion, and the next one is not its business. */
UNIT_TEST(test_requests, api_set_up, api_tear_down)
{
	const struct gkv_request bad[] = {
		REQUEST(.op = 0),
		REQUEST(.op = 8),
		REQUEST(.op = UINT_MAX),
		{ .op = GKV_OP_GET, .key_len = 1 },
		{ .op = GKV_OP_GET, .key = "k" },
		{ .op = GKV_OP_EXISTS, .key = key, .key_len = sizeof(key) },
		{ .op = GKV_OP_DEL, .key = key, .key_len = SIZE_MAX },
		{ .op = GKV_OP_INCR, .key_len = 4 },
		{ .op = GKV_OP_TOUCH, .key = "k" },
		REQUEST(.op = GKV_OP_GET, .value = NULL, .len = 8),
		REQUEST(.op = GKV_OP_PUT, .value = NULL, .len = 1),
		REQUEST(.op = GKV_OP_PUT, .value = room, .len = GKV_VALUE_MAX + 1ul),
		REQUEST(.op = GKV_OP_PUT, .value = room, .len = SIZE_MAX),
		REQUEST(.op = GKV_OP_GET, .reserved = { 1 }),
		REQUEST(.op = GKV_OP_EXISTS, .reserved = { [3] = 1ull << 63 }),
		REQUEST(.op = GKV_OP_PUT, .reserved = { [1] = 1 }),
		REQUEST(.op = GKV_OP_DEL, .reserved = { [2] = 1 }),
		REQUEST(.op = GKV_OP_PUT, .options = { .condition = 4 }),
		REQUEST(.op = GKV_OP_PUT, .options = { .flags = 2 }),
		REQUEST(.op = GKV_OP_APPEND, .options = { .flags = 1 }),
		REQUEST(.op = GKV_OP_APPEND, .value = NULL, .len = 1),
		REQUEST(.op = GKV_OP_INCR, .options = { .condition = GKV_IF_VERSION }),
		REQUEST(.op = GKV_OP_DEL, .options = { .flags = 1u << 31 }),
		REQUEST(.op = GKV_OP_INCR, .options = { .flags = 2 }),
		REQUEST(.op = GKV_OP_TOUCH, .options = { .flags = 1 }),
		REQUEST(.op = GKV_OP_PUT, .options = { .reserved = 1 }),
		REQUEST(.op = GKV_OP_INCR, .options = { .reserved = 1 }),
		REQUEST(.op = GKV_OP_PUT, .options = { .version = 1 }),
		REQUEST(.op = GKV_OP_PUT, .options = { .ttl_ms = GKV_TTL_MAX + 1 }),
		REQUEST(.op = GKV_OP_DEL, .options = { .condition = 4 }),
		REQUEST(.op = GKV_OP_DEL, .options = { .version = 1 }),
		REQUEST(.op = GKV_OP_TOUCH, .options = { .ttl_ms = GKV_TTL_MAX + 1 }),
	};
	struct gkv_completion done;

	assert_int_equal(gkv_put(api_kv, "k", 1, "value", 5, NULL), 0);
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct gkv_request r = bad[i];
		int rc;

		r.user = &room[i % sizeof(room)];
		rc = api_submit(api_kv, &r, &done);
		if (rc != -EINVAL)
			fail_msg("request %zu: %d", i, rc);
		assert_int_equal(gkv_pending(api_kv), 0);
		api_works(api_kv);
	}
	assert_int_equal(api_submit(api_kv, &REQUEST(.op = GKV_OP_EXISTS), &done), 0);
	assert_int_equal(done.meta.value_len, 5);
}

/* Each helper sets what its operation takes, and zeroes the rest. */
UNIT_TEST(test_filled_requests, api_set_up, api_tear_down)
{
	const struct gkv_request want[] = {
		REQUEST(.op = GKV_OP_PUT, .value = five, .len = 1, .user = room),
		REQUEST(.op = GKV_OP_GET, .value = room, .len = 2, .user = five),
		REQUEST(.op = GKV_OP_EXISTS, .user = key),
		REQUEST(.op = GKV_OP_TOUCH, .options = { .ttl_ms = 3600000 }, .user = key),
		REQUEST(.op = GKV_OP_APPEND, .value = five, .len = 5, .user = key),
		REQUEST(.op = GKV_OP_DEL, .user = NULL),
		REQUEST(.op = GKV_OP_INCR, .delta = -7, .user = key),
	};
	struct gkv_completion done;
	struct gkv_request r[COUNT(want)];
	const char *k = want[0].key;

	memset(r, 0xee, sizeof(r));
	gkv_request_put(&r[0], k, 1, five, 1, room);
	gkv_request_get(&r[1], k, 1, room, 2, five);
	gkv_request_exists(&r[2], k, 1, key);
	gkv_request_touch(&r[3], k, 1, 3600000, key);
	gkv_request_append(&r[4], k, 1, five, 5, key);
	gkv_request_del(&r[5], k, 1, NULL);
	gkv_request_incr(&r[6], k, 1, -7, key);
	assert_memory_equal(r, want, sizeof(r));
	memset(&r[0], 0xee, sizeof(r[0]));
	gkv_request_init(&r[0], GKV_OP_PUT, k, 1, room);
	r[0].value = five;
	r[0].len = 1;
	assert_memory_equal(&r[0], &want[0], sizeof(r[0]));
	for (size_t i = 0; i < COUNT(r); i++) {
		memset(&done, 0xee, sizeof(done));
		assert_int_equal(api_submit(api_kv, &r[i], &done), 0);
		assert_true(done.reserved == 0 && done.meta.reserved == 0);
		assert_true(r[i].op != GKV_OP_GET || done.len == 1);
		assert_true(r[i].op != GKV_OP_TOUCH || done.meta.expiry_ms);
	}
	assert_int_equal(done.sum, -7);
	assert_int_equal(gkv_del(api_kv, k, 1), 0);
}

/* Statuses are those of the synchronous calls. */
UNIT_TEST(test_statuses, api_set_up, api_tear_down)
{
	struct gkv_completion done;
	struct gkv_request put = REQUEST(.op = GKV_OP_PUT, .value = five, .len = 5);
	struct gkv_request get = REQUEST(.op = GKV_OP_GET, .value = room, .len = 3);
	struct gkv_request touch = REQUEST(.op = GKV_OP_TOUCH), del = REQUEST(.op = GKV_OP_DEL);
	struct gkv_request incr = REQUEST(.op = GKV_OP_INCR, .delta = 5);
	uint64_t version;

	gkv_del(api_kv, "k", 1);
	assert_int_equal(api_submit(api_kv, &touch, &done), -ENOENT);
	assert_int_equal(api_submit(api_kv, &del, &done), -ENOENT);
	assert_int_equal(api_submit(api_kv, &get, &done), -ENOENT);
	assert_int_equal(api_submit(api_kv, &put, &done), 0);
	version = done.meta.version;
	assert_true(version > 0);
	assert_int_equal(api_submit(api_kv, &get, &done), -EMSGSIZE);
	assert_int_equal(done.len, 5);
	assert_memory_equal(room, "val", 3);
	assert_int_equal(api_submit(api_kv, &incr, &done), -EDOM);
	put.options.condition = GKV_IF_ABSENT;
	assert_int_equal(api_submit(api_kv, &put, &done), -EEXIST);
	assert_int_equal(done.meta.version, version);
	del.options =
		(struct gkv_write_options){ .condition = GKV_IF_VERSION, .version = version + 1 };
	assert_int_equal(api_submit(api_kv, &del, &done), -EEXIST);
	del.options.version = version;
	assert_int_equal(api_submit(api_kv, &del, &done), 0);
	assert_int_equal(api_submit(api_kv, &incr, &done), 0);
	assert_int_equal(done.sum, 5);
}

UNIT_TEST(test_arguments, api_set_up, api_tear_down)
{
	struct gkv_request request = REQUEST(.op = GKV_OP_EXISTS);
	struct gkv_completion done;
	uint64_t start;

	assert_int_equal(gkv_submit(NULL, &request, 1), -EINVAL);
	assert_int_equal(gkv_poll(NULL, &done, 1), -EINVAL);
	assert_int_equal(gkv_wait(NULL, &done, 1, 0), -EINVAL);
	assert_int_equal(gkv_cancel(NULL, NULL), -EINVAL);
	assert_int_equal(gkv_fd(NULL), -EINVAL);
	assert_int_equal(gkv_arm(NULL), -EINVAL);
	assert_int_equal(gkv_pending(NULL), 0);
	REFUSED(gkv_submit(api_kv, NULL, 1), -EINVAL, "NULL");
	REFUSED(gkv_submit(api_kv, NULL, SIZE_MAX), -EINVAL, "NULL");
	assert_int_equal(gkv_submit(api_kv, NULL, 0), 0);
	REFUSED(gkv_poll(api_kv, NULL, 1), -EINVAL, "NULL");
	assert_int_equal(gkv_poll(api_kv, NULL, 0), 0);
	assert_int_equal(gkv_poll(api_kv, &done, 1), 0);
	REFUSED(gkv_wait(api_kv, NULL, 1, 0), -EINVAL, "NULL");
	REFUSED(gkv_wait(api_kv, &done, 1, DAY_MS + 1), -EINVAL, "day");
	REFUSED(gkv_wait(api_kv, &done, 1, UINT_MAX), -EINVAL, "day");
	start = time_now_ns();
	assert_int_equal(gkv_wait(api_kv, &done, 1, 20), 0); /* nothing is in flight */
	assert_true(time_now_ns() - start < (20 + API_SLACK_MS) * NS_PER_MS);
	assert_int_equal(gkv_cancel(api_kv, NULL), -ENOENT);
	assert_int_equal(gkv_pending(api_kv), 0);
	api_works(api_kv);
}

/* As many as the handle's depth, and no more until some were polled. */
UNIT_TEST(test_depth, api_set_up, api_tear_down)
{
	const struct gkv_handle_options o = { .depth = DEPTH };
	struct gkv_request request[DEPTH + 2];
	struct gkv_completion done[DEPTH + 2];
	unsigned seen[DEPTH + 2] = { 0 }, *one, n = 0;
	struct gkv *kv;
	int rc;

	assert_int_equal(gkv_open(api_session, &o, &kv, NULL, 0), 0);
	api_works(kv);
	for (unsigned i = 0; i < DEPTH + 2; i++)
		request[i] = REQUEST(.op = GKV_OP_EXISTS, .user = &seen[i]);
	assert_int_equal(gkv_submit(kv, request, DEPTH + 2), DEPTH);
	assert_int_equal(gkv_pending(kv), DEPTH);
	assert_int_equal(gkv_submit(kv, request, 1), -EAGAIN);
	memset(request, 0xee, sizeof(request)); /* the array is free again */
	while (n < DEPTH) {
		rc = gkv_wait(kv, done, 1, WAIT_MS); /* one by one */
		assert_int_equal(rc, 1);
		one = done[0].user;
		assert_true(one >= seen && one < seen + DEPTH && (*one)++ == 0);
		n++;
		assert_int_equal(gkv_pending(kv), DEPTH - n);
	}
	assert_int_equal(gkv_poll(kv, done, DEPTH), 0);
	api_works(kv);
	for (unsigned i = 0; i < DEPTH; i++)
		request[i] = REQUEST(.op = GKV_OP_EXISTS);
	assert_int_equal(gkv_submit(kv, request, DEPTH), DEPTH);
	gkv_close(kv); /* they end without a completion */
	api_works(api_kv);
}

UNIT_TEST(test_cancel, api_set_up, api_tear_down)
{
	struct gkv_request request[3];
	struct gkv_completion done[3];
	unsigned n = 0, cancelled = 0;
	int rc;

	for (unsigned i = 0; i < 3; i++)
		request[i] = REQUEST(.op = GKV_OP_EXISTS, .user = i ? five : key);
	assert_int_equal(gkv_submit(api_kv, request, 3), 3);
	assert_int_equal(gkv_cancel(api_kv, five + 1), -ENOENT);
	rc = gkv_cancel(api_kv, five);
	assert_true(rc >= 0 && rc <= 2);
	while (n < 3) {
		int got = gkv_wait(api_kv, done, 3, WAIT_MS);

		assert_true(got >= 1 && got <= (int)(3 - n));
		for (int i = 0; i < got; i++) {
			cancelled += done[i].status == -ECANCELED;
			assert_true(done[i].status != -ECANCELED || done[i].user == five);
		}
		n += (unsigned)got;
	}
	assert_int_equal(cancelled, rc); /* as many as were promised */
	assert_int_equal(gkv_cancel(api_kv, five), -ENOENT);
	api_works(api_kv);
}

UNIT_TEST(test_descriptor, api_set_up, api_tear_down)
{
	struct gkv_request request = REQUEST(.op = GKV_OP_EXISTS);
	struct gkv_completion done;
	int fd = gkv_fd(api_kv);

	assert_true(fd >= 0);
	assert_int_equal(gkv_fd(api_kv), fd);
	for (unsigned i = 0; i < 50; i++) {
		uint64_t start = time_now_ns();

		request.op = i % 2 ? GKV_OP_EXISTS : GKV_OP_PUT; /* an empty value */
		assert_int_equal(gkv_submit(api_kv, &request, 1), 1);
		while (gkv_poll(api_kv, &done, 1) == 0) {
			struct pollfd p = { .fd = fd, .events = POLLIN };
			int rc = gkv_arm(api_kv);

			assert_true(rc == 0 || rc == -EAGAIN);
			if (rc == 0) /* or it would sleep for ever */
				assert_int_equal(poll(&p, 1, WAIT_MS), 1);
			assert_true(time_now_ns() - start < WAIT_MS * NS_PER_MS);
		}
		assert_int_equal(gkv_fd(api_kv), fd);
	}
	api_works(api_kv);
}

/* Memory that an operation names is its own until the completion. */
UNIT_TEST(test_registered_memory, api_set_up, api_tear_down)
{
	struct gkv_completion done;
	struct gkv_request request = REQUEST(.op = GKV_OP_GET, .value = room, .len = 8);

	assert_int_equal(gkv_put(api_kv, "k", 1, "value", 5, NULL), 0);
	assert_ok(gkv_memory_register(api_session, room, sizeof(room), &request.memory, NULL, 0));
	assert_int_equal(gkv_submit(api_kv, &request, 1), 1);
	assert_int_equal(gkv_memory_release(request.memory), -EBUSY);
	assert_int_equal(gkv_wait(api_kv, &done, 1, 60000), 1);
	assert_int_equal(done.status, 0);
	assert_memory_equal(room, "value", 5);
	request.value = room + sizeof(room) - 1;
	assert_int_equal(api_submit(api_kv, &request, NULL), -EINVAL);
	assert_int_equal(gkv_memory_release(request.memory), 0);
	api_works(api_kv);
}

/* All kinds of operations, and a server that has gone or stands still. */
static void each_ends(struct gkv *kv, int stopped)
{
	static const unsigned kinds[] = { GKV_OP_GET,  GKV_OP_EXISTS, GKV_OP_PUT,   GKV_OP_DEL,
					  GKV_OP_INCR, GKV_OP_TOUCH,  GKV_OP_APPEND };

	for (size_t i = 0; i < COUNT(kinds); i++) {
		struct api_call as = { .name = "", .writes = kinds[i] > GKV_OP_EXISTS };
		struct gkv_request r = REQUEST(.op = kinds[i]);
		uint64_t start = time_now_ns();
		int rc;

		r.timeout_ms = i % 2 ? 300 : 0;
		rc = api_submit(kv, &r, NULL);
		if (stopped ? rc && rc != -ENOENT && rc != -EMSGSIZE && rc != -ETIMEDOUT
			    : !api_gone(rc, &as))
			fail_msg("operation %u: %d", kinds[i], rc);
		if (stopped && as.writes)
			assert_int_equal(rc, -ETIMEDOUT);
		assert_true(time_now_ns() - start < (API_BRIEF_MS + API_SLACK_MS) * NS_PER_MS);
	}
}

UNIT_TEST(test_server, api_set_up, api_tear_down)
{
	struct gkv_session *s;
	struct gkv *kv;

	api_open_brief(&s, &kv);
	server_pause(api_server);
	each_ends(kv, 1);
	server_stop(api_server, SIGKILL);
	each_ends(kv, 0);
	api_server = server_start(&api_port, "128M");
	api_works(api_kv);
	assert_int_equal(api_submit(api_kv, &REQUEST(.op = GKV_OP_PUT), NULL), 0);
	gkv_session_close(s);
	assert_int_equal(api_submit(kv, &REQUEST(.op = GKV_OP_PUT), NULL), -ECONNRESET);
	gkv_close(kv);
}

UNIT_TEST(test_child_of_fork, api_set_up, api_tear_down)
{
	struct gkv_request request = REQUEST(.op = GKV_OP_EXISTS);
	struct gkv_completion done;
	int status, bad = 0;
	pid_t pid;

	assert_int_equal(gkv_put(api_kv, "k", 1, "value", 5, NULL), 0);
	assert_int_equal(gkv_submit(api_kv, &request, 1), 1);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		bad |= gkv_submit(api_kv, &request, 1) != -EPERM;
		bad |= (gkv_poll(api_kv, &done, 1) != -EPERM) << 1;
		bad |= (gkv_wait(api_kv, &done, 1, 0) != -EPERM) << 2;
		bad |= (gkv_cancel(api_kv, NULL) != -EPERM) << 3;
		bad |= (gkv_fd(api_kv) != -EPERM) << 4;
		bad |= (gkv_arm(api_kv) != -EPERM) << 5;
		gkv_close(api_kv);
		gkv_session_close(api_session);
		_exit(bad);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(gkv_wait(api_kv, &done, 1, WAIT_MS), 1); /* the parent's goes on */
	assert_int_equal(done.status, 0);
	api_works(api_kv);
}
