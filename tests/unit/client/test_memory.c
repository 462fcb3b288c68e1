/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Values into registered memory, against a kv-server. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/src/link/device.h"
#include "client/src/link/handle.h"
#include "client/src/link/memory.h"
#include "tests/lib/unit.h"
#include "with_server.h"

#define CANARY 0x5a
#define MARGIN ((size_t)4096)
#define BYTES  (MARGIN + GKV_VALUE_MAX + MARGIN)

static unsigned port;
static pid_t server;
static struct gkv_session *session;
static struct gkv *kv;
static uint8_t *bytes; /* private memory: a device has to copy there */
static uint8_t *value; /* in it */
static struct gkv_memory *memory;

static struct gkv_session *open_session(void)
{
	struct gkv_session *s;
	struct gkv_options o;

	gkv_options_init(&o);
	o.timeout_ms = 60000;
	if (server_session(port, &o, &s))
		return NULL;
	return s;
}

static int set_up(void **state)
{
	port = 0;
	server = server_start(&port, "256M");
	session = open_session();
	if (!session || server_handle(session, &kv))
		return -1;
	bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED)
		return -1;
	value = bytes + MARGIN + 3;
	return gkv_memory_register(session, bytes, BYTES, &memory, NULL, 0);
}

static int tear_down(void **state)
{
	int rc = gkv_memory_release(memory);

	gkv_close(kv);
	gkv_session_close(session);
	munmap(bytes, BYTES);
	server_stop(server, SIGKILL);
	return rc;
}

static void expect_canaries(const uint8_t *from, const uint8_t *to)
{
	assert_int_equal(*from, CANARY);
	assert_memory_equal(from, from + 1, (size_t)(to - from) - 1);
}

static void fill(uint8_t *at, size_t len, unsigned seed)
{
	for (size_t j = 0; j < len; j++)
		at[j] = (uint8_t)(j * 31 + (j >> 8) + seed);
}

/* Twice: by the index, or a hint from the put, then surely by a hint. */
static void get_and_compare(const void *key, size_t key_len, const uint8_t *want, size_t len,
			    size_t cap)
{
	for (unsigned i = 0; i < 2; i++) {
		struct gkv_meta meta = { 0 };

		memset(bytes, CANARY, BYTES);
		assert_int_equal(gkv_get_into(kv, key, key_len, memory, value, cap, &meta),
				 len <= cap ? 0 : -EMSGSIZE);
		assert_int_equal(meta.value_len, len);
		assert_true(meta.version > 0);
		assert_memory_equal(value, want, len < cap ? len : cap);
		expect_canaries(bytes, value);
		expect_canaries(value + cap, bytes + BYTES);
	}
}

UNIT_TEST(test_sizes, set_up, tear_down)
{
	static const size_t lens[] = { 0, 1, 64, 4096, 1 << 20, GKV_VALUE_MAX };
	uint8_t *want = malloc(GKV_VALUE_MAX);
	char key[GKV_KEY_MAX];

	assert_non_null(want);
	memset(key, 'k', sizeof(key));
	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		const size_t n = lens[i], caps[] = { n, n + 1, GKV_VALUE_MAX, n / 2, 0 };

		fill(want, n, i);
		for (unsigned k = 0; k < 2; k++) {
			size_t key_len = k ? sizeof(key) : 1;

			assert_int_equal(gkv_put(kv, key, key_len, want, n, NULL), 0);
			for (unsigned j = 0; j < sizeof(caps) / sizeof(caps[0]); j++)
				get_and_compare(key, key_len, want, n,
						caps[j] <= GKV_VALUE_MAX ? caps[j] : GKV_VALUE_MAX);
		}
	}
	assert_int_equal(kv->reader.stats.rpc_fallbacks, 0); /* all came by READs */
	free(want);
}

UNIT_TEST(test_a_warm_get_is_one_read, set_up, tear_down)
{
	struct gkv_stats before, after;

	assert_int_equal(gkv_put(kv, "k", 1, "value", 5, NULL), 0);
	assert_int_equal(gkv_get_into(kv, "k", 1, memory, value, 100, NULL), 0);
	for (unsigned i = 0; i < 1000; i++) { /* the housekeeper must have made a round */
		gkv_stats_get(kv, &before);
		assert_int_equal(gkv_get_into(kv, "k", 1, memory, value, 100, NULL), 0);
		gkv_stats_get(kv, &after);
		if (after.hint_hits > before.hint_hits)
			break;
		usleep(10000);
	}
	assert_int_equal(after.hint_hits - before.hint_hits, 1);
	assert_int_equal(after.reads - before.reads, 1);
	assert_int_equal(after.hits - before.hits, 1);
}

UNIT_TEST(test_arguments, set_up, tear_down)
{
	struct gkv_session *other = open_session();
	struct gkv_memory *others, *none = NULL;
	char *end = (char *)bytes + BYTES, why[640];

	assert_int_equal(gkv_put(kv, "k", 1, "value", 5, NULL), 0);
	assert_int_equal(gkv_get_into(NULL, "k", 1, memory, value, 5, NULL), -EINVAL);
	assert_int_equal(gkv_get_into(kv, "", 0, memory, value, 5, NULL), -EINVAL);
	assert_int_equal(gkv_get_into(kv, "k", 1, NULL, value, 5, NULL), -EINVAL);
	assert_non_null(strstr(gkv_error(kv), "gkv_memory_register"));
	assert_int_equal(gkv_get_into(kv, "k", 1, memory, NULL, 5, NULL), -EINVAL);
	assert_non_null(strstr(gkv_error(kv), "not within"));
	assert_int_equal(gkv_get_into(kv, "k", 1, memory, bytes - 1, 5, NULL), -EINVAL);
	assert_int_equal(gkv_get_into(kv, "k", 1, memory, end - 4, 5, NULL), -EINVAL);
	assert_int_equal(gkv_get_into(kv, "k", 1, memory, end, 1, NULL), -EINVAL);
	assert_int_equal(gkv_get_into(kv, "k", 1, memory, end + 1, 1, NULL), -EINVAL);
	assert_int_equal(gkv_get_into(kv, "k", 1, memory, value, SIZE_MAX, NULL), -EINVAL);
	assert_int_equal(
		gkv_get_into(kv, "k", 1, memory, value, SIZE_MAX - (uintptr_t)value + 2, NULL),
		-EINVAL);
	assert_int_equal(gkv_get_into(kv, "k", 1, memory, end - 5, 5, NULL), 0);
	assert_int_equal(gkv_get_into(kv, "k", 1, memory, NULL, 0, NULL), -EMSGSIZE);
	/* the key in the place for the value, and beside it */
	memset(bytes, 'k', 10);
	assert_int_equal(gkv_get_into(kv, bytes + 4, 1, memory, bytes, 5, NULL), -EINVAL);
	assert_non_null(strstr(gkv_error(kv), "key"));
	assert_int_equal(gkv_get_into(kv, bytes, 1, memory, bytes, 5, NULL), -EINVAL);
	assert_int_equal(gkv_get_into(kv, bytes + 5, 1, memory, bytes, 5, NULL), 0);
	assert_non_null(other);
	assert_int_equal(gkv_memory_register(other, bytes, BYTES, &others, NULL, 0), 0);
	assert_int_equal(gkv_get_into(kv, "k", 1, others, value, 5, NULL), -EINVAL);
	assert_non_null(strstr(gkv_error(kv), "another session"));
	assert_int_equal(gkv_memory_release(others), 0);
	gkv_session_close(other);
	assert_int_equal(gkv_memory_register(session, NULL, 10, &none, NULL, 0), -EINVAL);
	assert_int_equal(gkv_memory_register(session, value, 0, &none, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "no memory of 0 bytes"));
	assert_int_equal(gkv_memory_register(session, value, SIZE_MAX, &none, NULL, 0), -EINVAL);
	assert_int_equal(gkv_memory_register(session, value, 10, NULL, NULL, 0), -EINVAL);
	assert_int_equal(gkv_memory_register(NULL, value, 10, &none, NULL, 0), -EINVAL);
	assert_null(none);
	assert_int_equal(gkv_memory_release(NULL), 0);
	assert_int_equal(atomic_load(&memory->in_use), 0); /* also after what was refused */
}

UNIT_TEST(test_not_there, set_up, tear_down)
{
	memset(bytes, CANARY, BYTES);
	assert_int_equal(gkv_get_into(kv, "none", 4, memory, value, 100, NULL), -ENOENT);
	expect_canaries(bytes, bytes + BYTES);
}

UNIT_TEST(test_release_waits_for_operations, set_up, tear_down)
{
	struct gkv_memory *second;
	struct error err;
	uint32_t lkey;

	assert_int_equal(gkv_memory_register(session, value, 100, &second, NULL, 0), 0);
	assert_int_equal(memory_use(second, session, value, 100, &lkey, &err), 0);
	assert_int_equal(lkey, second->region.lkey);
	assert_int_equal(gkv_memory_release(second), -EBUSY);
	assert_int_equal(gkv_put(kv, "k", 1, "value", 5, NULL), 0);
	assert_int_equal(gkv_get_into(kv, "k", 1, second, value, 100, NULL), 0);
	memory_done(second);
	assert_int_equal(gkv_memory_release(second), 0);
}

/* Released in any order with handle and session: the last one frees the session. */
UNIT_TEST(test_release_after_the_session, set_up, tear_down)
{
	for (unsigned order = 0; order < 3; order++) {
		struct gkv_session *s = open_session();
		struct gkv_memory *m, *n;
		struct gkv *h;

		assert_non_null(s);
		assert_int_equal(gkv_open(s, NULL, &h, NULL, 0), 0);
		assert_int_equal(gkv_memory_register(s, value, 100, &m, NULL, 0), 0);
		assert_int_equal(gkv_memory_register(s, value, 200, &n, NULL, 0), 0);
		if (order == 0)
			gkv_close(h);
		gkv_session_close(s);
		assert_int_equal(gkv_memory_release(m), 0);
		if (order == 1)
			gkv_close(h);
		assert_int_equal(gkv_memory_release(n), 0);
		if (order == 2)
			gkv_close(h);
	}
}

UNIT_TEST(test_child_of_fork, set_up, tear_down)
{
	struct gkv_memory *m;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(gkv_memory_release(memory) != -EPERM ||
		      gkv_memory_register(session, value, 10, &m, NULL, 0) != -EPERM ||
		      gkv_get_into(kv, "k", 1, memory, value, 5, NULL) != -EPERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* The registration is good for every connection, and every life of the server. */
UNIT_TEST(test_outlasts_connections, set_up, tear_down)
{
	for (unsigned i = 0; i < 6; i++) {
		if (i == 3) {
			server_stop(server, SIGKILL);
			server = server_start(&port, "256M");
		} else {
			assert_ok(session_lock(session, time_now_ns() + 20 * NS_PER_S, NULL));
			session_lost(session);
			session_unlock(session);
		}
		assert_int_equal(gkv_put(kv, "k", 1, &i, sizeof(i), NULL), 0);
		kv->link.live = i % 2;
		get_and_compare("k", 1, (uint8_t *)&i, sizeof(i), 50);
	}
	assert_true(kv->reader.stats.reconnects >= 6);
}

/* A device that scatters less, and records that are asked for: they are copied. */
UNIT_TEST(test_copied_where_it_must_be, set_up, tear_down)
{
	struct gkv_write_options options = { .ttl_ms = 3600000 };
	uint64_t asked;
	int pieces = session->device->rdma->attr.max_sge_rd;
	uint8_t want[5000];

	fill(want, sizeof(want), 9);
	assert_int_equal(gkv_put(kv, "k", 1, want, sizeof(want), NULL), 0);
	session->device->rdma->attr.max_sge_rd = 2;
	kv->link.live = false; /* a queue pair that takes two */
	get_and_compare("k", 1, want, sizeof(want), 6000);
	expect_canaries(value + sizeof(want), value + 6000); /* padding comes by a READ only */
	get_and_compare("k", 1, want, sizeof(want), 40);
	session->device->rdma->attr.max_sge_rd = pieces;
	kv->link.live = false;
	assert_int_equal(gkv_put_with(kv, "k", 1, want, sizeof(want), &options, NULL), 0);
	asked = kv->reader.stats.rpc_fallbacks;
	for (unsigned i = 0; i < 1000 && kv->reader.stats.rpc_fallbacks == asked; i++) {
		/* as if it had expired, until the housekeeper's next sample: the server knows
		 * better */
		kv->call.clock_ahead_ms = UINT64_MAX / 2;
		kv->call.clock_at_ns = time_now_ns();
		memset(bytes, CANARY, BYTES);
		assert_int_equal(gkv_get_into(kv, "k", 1, memory, value, sizeof(want), NULL), 0);
	}
	assert_int_equal(kv->reader.stats.rpc_fallbacks - asked, 1);
	assert_memory_equal(value, want, sizeof(want));
	expect_canaries(bytes, value);
	expect_canaries(value + sizeof(want), bytes + BYTES);
}

static atomic_bool stop;

/* Values whose bytes are all the same, of two sizes. By a session of its own: hints of ours go
 * stale. */
static void *overwrite(void *arg)
{
	struct gkv_session *own = open_session();
	uint8_t *v = malloc(100000);
	struct gkv *h = NULL;
	intptr_t rc = gkv_open(own, NULL, &h, NULL, 0);

	for (unsigned i = 0; rc == 0 && !atomic_load(&stop); i++) {
		size_t len = i % 3 ? 4096 : 100000;

		memset(v, (int)i, len);
		rc = gkv_put(h, "mixed", 5, v, len, NULL);
	}
	gkv_close(h);
	gkv_session_close(own);
	free(v);
	return (void *)rc;
}

UNIT_TEST(test_no_mix_under_overwrites, set_up, tear_down)
{
	static const size_t caps[] = { 100000, 4096, 50, 5000 };
	unsigned changes = 0;
	uint64_t last = 0, until;
	pthread_t writer;
	void *rc;

	assert_int_equal(gkv_put(kv, "mixed", 5, value, 0, NULL), 0);
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&writer, NULL, overwrite, NULL), 0);
	until = time_now_ns() + 60 * NS_PER_S;
	for (unsigned i = 0; (i < 3000 || changes < 100) && time_now_ns() < until; i++) {
		size_t cap = caps[i % 4], have;
		struct gkv_meta meta = { 0 };
		int got = gkv_get_into(kv, "mixed", 5, memory, value, cap, &meta);

		have = meta.value_len < cap ? meta.value_len : cap;
		assert_int_equal(got, meta.value_len <= cap ? 0 : -EMSGSIZE);
		if (have)
			assert_memory_equal(value, value + 1, have - 1);
		assert_true(meta.version >= last);
		changes += meta.version > last;
		last = meta.version;
	}
	atomic_store(&stop, true);
	pthread_join(writer, &rc);
	assert_null(rc);
	assert_true(changes >= 100);
}
