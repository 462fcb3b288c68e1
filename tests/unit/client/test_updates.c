/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Writes that go by the record that is there: append, get and delete, what keeps an expiry. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "client/src/call/rpc_run.h"
#include "client/src/request/fill.h"
#include "tests/lib/unit.h"
#include "one_client.h"
#include "with_server.h"

#define HOUR_MS 3600000u
#define PAGE	4096u
#define LARGE	50000u /* bytes that do not travel in a request */
#define TEXT(s) (s), strlen(s)

static char value[GKV_VALUE_MAX];

static int set_up(void **state)
{
	return one_client("256M", patient());
}

static void has(const char *key, const char *want)
{
	size_t len;

	assert_int_equal(gkv_get(kv, TEXT(key), value, sizeof(value), &len), 0);
	assert_int_equal(len, strlen(want));
	assert_memory_equal(value, want, len);
}

UNIT_TEST(test_append)
{
	struct gkv_write_options o = { .condition = GKV_IF_PRESENT };
	struct gkv_meta first, meta;
	size_t len;

	assert_int_equal(gkv_append(kv, TEXT("a"), TEXT("one"), &o, &meta), -ENOENT);
	assert_int_equal(gkv_append(kv, TEXT("a"), TEXT("one"), NULL, &first), 0);
	assert_int_equal(first.value_len, 3);
	assert_int_equal(gkv_append(kv, TEXT("a"), TEXT(", two"), &o, &meta), 0);
	assert_int_equal(meta.value_len, 8);
	assert_true(meta.version > first.version);
	has("a", "one, two");
	o = (struct gkv_write_options){ .condition = GKV_IF_VERSION, .version = first.version };
	assert_int_equal(gkv_append(kv, TEXT("a"), TEXT("!"), &o, &first), -EEXIST);
	assert_int_equal(first.version, meta.version);
	o.version = meta.version;
	assert_int_equal(gkv_append(kv, TEXT("a"), NULL, 0, &o, &meta), 0);
	assert_int_equal(meta.value_len, 8);
	memset(value, 'x', sizeof(value));
	for (unsigned i = 1; i <= 3; i++) { /* it is fetched by the server */
		assert_int_equal(gkv_append(kv, TEXT("large"), value, LARGE, NULL, &meta), 0);
		assert_int_equal(meta.value_len, i * LARGE);
	}
	assert_int_equal(
		gkv_append(kv, TEXT("large"), value, sizeof(value) - 3 * LARGE + 1, NULL, &meta),
		-EFBIG);
	assert_non_null(strstr(gkv_error(kv), "longer than 16 MiB"));
	memset(value, 0, sizeof(value));
	assert_int_equal(gkv_get(kv, TEXT("large"), value, sizeof(value), &len), 0);
	assert_int_equal(len, 3 * LARGE);
	assert_true(value[0] == 'x' && memcmp(value, value + 1, len - 1) == 0);
}

/* In calls, and in flight. */
UNIT_TEST(test_the_expiry_is_kept)
{
	const struct gkv_write_options ttl = { .ttl_ms = HOUR_MS };
	const struct gkv_write_options keep = { .ttl_ms = 2 * HOUR_MS, .flags = GKV_KEEP_EXPIRY };
	const struct gkv_request request[] = {
		{ .op = GKV_OP_PUT, .value = (char *)"5", .len = 1, .options = keep },
		{ .op = GKV_OP_INCR, .delta = 5, .options = ttl },
		{ .op = GKV_OP_APPEND, .value = (char *)"5", .len = 1, .options = ttl },
	};
	struct gkv_meta made, meta;
	struct gkv_completion done;
	int64_t sum;

	for (unsigned i = 0; i < 3; i++) {
		struct gkv_request r = request[i];

		gkv_del(kv, "k", 1);
		for (unsigned turn = 0; turn < 2; turn++) {
			r.key = "k";
			r.key_len = 1;
			assert_int_equal(gkv_submit(kv, &r, 1), 1);
			while (gkv_wait(kv, &done, 1, 1000) == 0)
				;
			assert_int_equal(done.status, 0);
			if (turn == 0)
				made = done.meta;
		}
		assert_true(made.expiry_ms > 0);
		assert_int_equal(done.meta.expiry_ms, made.expiry_ms);
		assert_int_equal(done.meta.value_len, i ? 2 : 1);
		assert_int_equal(done.sum, i == 1 ? 10 : 0);
		has("k", i == 0 ? "5" : i == 1 ? "10" : "55");
		assert_int_equal(gkv_put_with(kv, TEXT("k"), "1", 1, &keep, &meta), 0);
		assert_int_equal(meta.expiry_ms, made.expiry_ms);
		assert_int_equal(gkv_incr_with(kv, TEXT("k"), 1, &keep, &sum, &meta), -EINVAL);
		assert_int_equal(gkv_incr_with(kv, TEXT("k"), 1, &ttl, &sum, &meta), 0);
		assert_int_equal(sum, 2);
		assert_int_equal(meta.expiry_ms, made.expiry_ms);
		assert_int_equal(gkv_append(kv, TEXT("k"), "3", 1, NULL, &meta), 0);
		assert_int_equal(meta.expiry_ms, made.expiry_ms);
		has("k", "23");
	}
}

UNIT_TEST(test_getdel)
{
	struct gkv_meta put, meta;
	char small[3];

	assert_int_equal(gkv_getdel(kv, TEXT("g"), value, sizeof(value), NULL), -ENOENT);
	assert_int_equal(gkv_put_with(kv, TEXT("g"), TEXT("value"), NULL, &put), 0);
	assert_int_equal(gkv_getdel(kv, TEXT("g"), small, sizeof(small), &meta), -EMSGSIZE);
	assert_int_equal(meta.value_len, 5);
	has("g", "value");
	memset(value, 0, sizeof(value));
	assert_int_equal(gkv_getdel(kv, TEXT("g"), value, sizeof(value), &meta), 0);
	assert_true(meta.version == put.version && meta.value_len == 5 && meta.expiry_ms == 0);
	assert_memory_equal(value, "value", 5);
	assert_int_equal(gkv_exists(kv, TEXT("g"), NULL), -ENOENT);
	assert_int_equal(gkv_getdel(kv, TEXT("g"), NULL, 0, NULL), -ENOENT);
}

/* A version is of one server: the delete goes to no other one, and changes nothing there. */
UNIT_TEST(test_a_version_of_another_server)
{
	struct gkv_write_options o = { .condition = GKV_IF_VERSION };
	struct rpc_call c = { .server = kv->reader.world->incarnation + 1 };

	assert_int_equal(gkv_put(kv, TEXT("k"), "1", 1, &o.version), 0);
	assert_int_equal(handle_begin(kv), 0);
	assert_int_equal(write_key(kv, &c, RPC_DEL, "k", 1), 0);
	assert_int_equal(write_del(kv, &c, &o), 0);
	assert_int_equal(rpc_run(kv, &c), -EEXIST);
	handle_end(kv, 0);
	has("k", "1");
	c.server--;
	assert_int_equal(handle_begin(kv), 0);
	assert_int_equal(rpc_run(kv, &c), 0);
	handle_end(kv, 0);
	assert_int_equal(gkv_exists(kv, TEXT("k"), NULL), -ENOENT);
}

static char *page; /* it may not be written until another handle has rewritten the key */
static struct gkv *other;

static void rewrite(int signal)
{
	assert_int_equal(mprotect(page, PAGE, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(gkv_put(other, TEXT("g"), TEXT("newer"), NULL), 0);
}

/* Another write comes when the get has its value, and before the delete. */
UNIT_TEST(test_getdel_is_overtaken)
{
	const struct sigaction act = { .sa_handler = rewrite };
	struct sigaction before;
	struct gkv_meta meta;

	page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(page != MAP_FAILED);
	assert_int_equal(server_handle(session, &other), 0);
	assert_int_equal(gkv_put(kv, TEXT("g"), TEXT("older"), NULL), 0);
	assert_int_equal(sigaction(SIGSEGV, &act, &before), 0);
	assert_int_equal(gkv_getdel(kv, TEXT("g"), page, 5, &meta), 0);
	assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
	assert_memory_equal(page, "newer", 5);
	assert_int_equal(gkv_exists(kv, TEXT("g"), NULL), -ENOENT);
	gkv_close(other);
	munmap(page, PAGE);
}

UNIT_GROUP(set_up, tear_down_in_order);
