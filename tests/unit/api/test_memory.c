/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Registered memory: gkv_memory_register(), gkv_get_into(), gkv_memory_release(). */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tests/lib/unit.h"
#include "tests/unit/api/api.h"
#include "tests/unit/client/with_server.h"

#define BYTES 65536u

static _Alignas(4096) char room[2 * BYTES]; /* the first half is registered */

UNIT_TEST(test_register, api_set_up, api_tear_down)
{
	struct gkv_memory *m;
	char why[640];
	int rc;

	assert_int_equal(gkv_memory_register(NULL, room, BYTES, &m, NULL, 0), -EINVAL);
	assert_int_equal(gkv_memory_register(api_session, NULL, BYTES, &m, NULL, 0), -EINVAL);
	assert_int_equal(gkv_memory_register(api_session, room, 0, &m, NULL, 0), -EINVAL);
	assert_int_equal(gkv_memory_register(api_session, room, BYTES, NULL, why, sizeof(why)),
			 -EINVAL);
	assert_non_null(strstr(why, "out"));
	rc = gkv_memory_register(api_session, room, SIZE_MAX, &m, NULL, 0);
	assert_true(rc == -EINVAL || rc == -ENOMEM);
	assert_int_equal(gkv_memory_release(NULL), 0);
	/* of any address and length, and some of it twice */
	for (unsigned i = 0; i < 4; i++) {
		struct gkv_memory *other;

		assert_ok(gkv_memory_register(api_session, room + i, 1 + i * 1000, &m, NULL, 0));
		assert_int_equal(gkv_memory_register(api_session, room, BYTES, &other, NULL, 0), 0);
		assert_int_equal(gkv_memory_release(m), 0);
		assert_int_equal(gkv_memory_release(other), 0);
	}
	api_works(api_kv);
}

static int into(const void *key, size_t len, struct gkv_memory *m, void *at, size_t cap)
{
	return gkv_get_into(api_kv, key, len, m, at, cap, NULL);
}

UNIT_TEST(test_get_into, api_set_up, api_tear_down)
{
	struct gkv_memory *m;
	struct gkv_meta meta;
	uint64_t version;

	assert_int_equal(gkv_put(api_kv, "k", 1, "value", 5, &version), 0);
	assert_int_equal(gkv_memory_register(api_session, room, BYTES, &m, NULL, 0), 0);
	assert_int_equal(gkv_get_into(NULL, "k", 1, m, room, 8, NULL), -EINVAL);
	REFUSED(into(NULL, 1, m, room, 8), -EINVAL, "key");
	REFUSED(into("k", 0, m, room, 8), -EINVAL, "key");
	REFUSED(into(room, GKV_KEY_MAX + 1, m, room, 8), -EINVAL, "key");
	REFUSED(into("k", 1, NULL, room, 8), -EINVAL, "memory");
	REFUSED(into("k", 1, m, NULL, 8), -EINVAL, "memory");
	REFUSED(into("k", 1, m, room + BYTES, 8), -EINVAL, "memory");
	REFUSED(into("k", 1, m, room + BYTES - 7, 8), -EINVAL, "memory");
	REFUSED(into("k", 1, m, room, BYTES + 1), -EINVAL, "memory");
	REFUSED(into("k", 1, m, room + 8, SIZE_MAX), -EINVAL, "memory");
	REFUSED(into("k", 1, m, room + 8, SIZE_MAX - 7), -EINVAL, "memory");
	REFUSED(into("k", 1, m, room, 3), -EMSGSIZE, "5 bytes");
	assert_int_equal(gkv_get_into(api_kv, "k", 1, m, room, 3, &meta), -EMSGSIZE);
	assert_int_equal(meta.value_len, 5);
	assert_int_equal(into("none", 4, m, room, 8), -ENOENT);
	memset(room, 'x', sizeof(room));
	assert_int_equal(gkv_get_into(api_kv, "k", 1, m, room + 100, 5, &meta), 0);
	assert_memory_equal(room + 100, "value", 5);
	assert_true(meta.version == version && meta.value_len == 5);
	assert_true(room[99] == 'x');
	/* to its very end, and what lies after is not written */
	assert_int_equal(into("k", 1, m, room + BYTES - 5, 5), 0);
	assert_memory_equal(room + BYTES - 5, "valuexx", 7);
	assert_int_equal(gkv_memory_release(m), 0);
	api_works(api_kv);
}

/* It is of one session, for all of its handles. */
UNIT_TEST(test_other_session, api_set_up, api_tear_down)
{
	struct gkv *kv, *second;
	struct gkv_session *s;
	struct gkv_memory *m;
	struct gkv_options o;

	assert_int_equal(gkv_put(api_kv, "k", 1, "value", 5, NULL), 0);
	api_options(&o);
	assert_int_equal(gkv_session_open(&o, &s, NULL, 0), 0);
	assert_int_equal(gkv_open(s, NULL, &kv, NULL, 0), 0);
	assert_int_equal(gkv_open(s, NULL, &second, NULL, 0), 0);
	assert_int_equal(gkv_memory_register(s, room, BYTES, &m, NULL, 0), 0);
	assert_int_equal(gkv_get_into(kv, "k", 1, m, room, 8, NULL), 0);
	assert_int_equal(gkv_get_into(second, "k", 1, m, room, 8, NULL), 0);
	REFUSED(into("k", 1, m, room, 8), -EINVAL, "session");
	gkv_close(kv);
	assert_int_equal(gkv_get_into(second, "k", 1, m, room, 8, NULL), 0);
	assert_int_equal(gkv_memory_release(m), 0);
	gkv_close(second);
	gkv_session_close(s);
}

/* The server has gone, another one comes: the memory stays registered. */
UNIT_TEST(test_server_gone, api_set_up, api_tear_down)
{
	struct gkv_session *s;
	struct gkv_memory *m;
	uint64_t until;
	struct gkv *kv;
	int rc;

	api_open_brief(&s, &kv);
	assert_int_equal(gkv_memory_register(s, room, BYTES, &m, NULL, 0), 0);
	server_stop(api_server, SIGKILL);
	assert_true(api_gone(gkv_get_into(kv, "k", 1, m, room, 8, NULL), &api_calls[0]));
	api_server = server_start(&api_port, "128M");
	api_works(api_kv);
	assert_int_equal(gkv_put(api_kv, "k", 1, "next", 4, NULL), 0);
	until = time_now_ns() + API_SLACK_MS * NS_PER_MS;
	do /* the next attempt to connect may be due later than a call of 400 ms waits */
		rc = gkv_get_into(kv, "k", 1, m, room, 8, NULL);
	while (api_gone(rc, &api_calls[0]) && time_now_ns() < until);
	assert_int_equal(rc, 0);
	assert_memory_equal(room, "next", 4);
	assert_int_equal(gkv_memory_release(m), 0);
	gkv_close(kv);
	gkv_session_close(s);
}

UNIT_TEST(test_child_of_fork, api_set_up, api_tear_down)
{
	struct gkv_memory *m, *other;
	int status;
	pid_t pid;

	assert_int_equal(gkv_put(api_kv, "k", 1, "value", 5, NULL), 0);
	assert_int_equal(gkv_memory_register(api_session, room, BYTES, &m, NULL, 0), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit((gkv_memory_register(api_session, room, BYTES, &other, NULL, 0) != -EPERM) |
		      (gkv_get_into(api_kv, "k", 1, m, room, 8, NULL) != -EPERM) << 1 |
		      (gkv_memory_release(m) != -EPERM) << 2);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(into("k", 1, m, room, 8), 0);
	assert_int_equal(gkv_memory_release(m), 0);
}
