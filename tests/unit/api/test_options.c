/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Options of sessions and handles out of range, sizes, and the functions without a handle. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tests/unit/api/api.h"

#define DAY_MS (24u * 3600 * 1000)

struct bad_field {
	const char *name;
	size_t offset, size;
	uint64_t value;
	int want;
};

#define FIELD(type, field, number, error)                                                \
	{                                                                                \
#field, offsetof(struct type, field), sizeof(((struct type *)0)->field), \
			(uint64_t)(number), error                                        \
	}

static const struct bad_field session_fields[] = {
	FIELD(gkv_options, reserved[0], 1, -EINVAL),
	FIELD(gkv_options, reserved[5], 1u << 31, -EINVAL),
	FIELD(gkv_options, ib_port, 256, -ERANGE),
	FIELD(gkv_options, ib_port, UINT_MAX, -ERANGE),
	FIELD(gkv_options, gid_index, -2, -ERANGE),
	FIELD(gkv_options, gid_index, 256, -ERANGE),
	FIELD(gkv_options, gid_index, INT_MIN, -ERANGE),
	FIELD(gkv_options, gid_index, INT_MAX, -ERANGE),
	FIELD(gkv_options, mtu, 1, -ERANGE),
	FIELD(gkv_options, mtu, 1500, -ERANGE),
	FIELD(gkv_options, mtu, UINT_MAX, -ERANGE),
	FIELD(gkv_options, timeout_ms, 0, -ERANGE),
	FIELD(gkv_options, timeout_ms, DAY_MS + 1, -ERANGE),
	FIELD(gkv_options, timeout_ms, UINT_MAX, -ERANGE),
	FIELD(gkv_options, lifeline_ms, 0, -ERANGE),
	FIELD(gkv_options, lifeline_ms, DAY_MS + 1, -ERANGE),
	FIELD(gkv_options, ack_timeout, 32, -ERANGE),
	FIELD(gkv_options, ack_timeout, UINT_MAX, -ERANGE),
	FIELD(gkv_options, retry_cnt, 8, -ERANGE),
	FIELD(gkv_options, retry_cnt, UINT_MAX, -ERANGE),
	FIELD(gkv_options, pkey_index, 65536, -ERANGE),
	FIELD(gkv_options, service_level, 16, -ERANGE),
	FIELD(gkv_options, traffic_class, 256, -ERANGE),
	FIELD(gkv_options, rnr_retry, 8, -ERANGE),
	FIELD(gkv_options, rnr_retry, UINT_MAX, -ERANGE),
	FIELD(gkv_options, connect, 2, -ERANGE),
	FIELD(gkv_options, connect, UINT_MAX, -ERANGE),
	FIELD(gkv_options, housekeeper, 2, -ERANGE),
	FIELD(gkv_options, housekeeper, UINT_MAX, -ERANGE),
	FIELD(gkv_options, flags, 4, -ERANGE),
	FIELD(gkv_options, flags, UINT_MAX, -ERANGE),
	FIELD(gkv_options, hint_bytes, UINT64_MAX, -ERANGE),
	FIELD(gkv_options, hint_bytes, (1ull << 40) + 1, -ERANGE),
};

static const struct bad_field handle_fields[] = {
	FIELD(gkv_handle_options, depth, GKV_DEPTH_MAX + 1, -EINVAL),
	FIELD(gkv_handle_options, depth, UINT_MAX, -EINVAL),
	FIELD(gkv_handle_options, flags, 2, -EINVAL),
	FIELD(gkv_handle_options, flags, UINT_MAX, -EINVAL),
	FIELD(gkv_handle_options, reserved[0], 1, -EINVAL),
	FIELD(gkv_handle_options, reserved[2], UINT64_MAX, -EINVAL),
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void set(void *options, const struct bad_field *f)
{
	memcpy((char *)options + f->offset, &f->value, f->size); /* little-endian */
}

/* What the sentence calls it. */
static const char *word_of(const struct bad_field *f)
{
	return strcmp(f->name, "mtu") == 0 ? "MTU" : strchr(f->name, '[') ? "reserved" : f->name;
}

static void open_refused(const struct gkv_options *o, int want, const char *word)
{
	struct gkv_session *s = NULL;
	char text[700] = "";
	int rc = gkv_session_open(o, &s, text, sizeof(text));

	if (rc != want || !strstr(text, word))
		fail_msg("'%s': %d (%s), not %d: %s", word, rc, gkv_strerror(rc), want, text);
}

UNIT_TEST(test_session_fields)
{
	struct gkv_options o;

	for (size_t i = 0; i < COUNT(session_fields); i++) {
		api_options(&o);
		set(&o, &session_fields[i]);
		open_refused(&o, session_fields[i].want, word_of(&session_fields[i]));
	}
	api_works(api_kv);
}

UNIT_TEST(test_session_text)
{
	static const char *const servers[] = {
		":",	 "127.0.0.1:", "[::1", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:7471x",
		"[::1]x"
	};
	static char longest[5000];
	struct gkv_options o;

	for (size_t i = 0; i < COUNT(servers); i++) {
		api_options(&o);
		o.server = servers[i];
		open_refused(&o, -EINVAL, "server");
	}
	memset(longest, 'x', sizeof(longest) - 1);
	api_options(&o);
	o.server = longest;
	open_refused(&o, -EINVAL, "server");
	api_options(&o);
	o.device = longest;
	open_refused(&o, -EINVAL, "device");
	o.device = "no_such_device";
	open_refused(&o, -ENODEV, "no_such_device");
	api_options(&o);
	o.ib_port = 2;
	open_refused(&o, -ERANGE, "port");
	api_options(&o);
	o.gid_index = 200;
	open_refused(&o, -ERANGE, "GID");
	api_options(&o);
	o.connect = GKV_CONNECT_CM;
	open_refused(&o, -EOPNOTSUPP, "soft0");
	api_works(api_kv);
}

/* A name is shown, and cut where it is longer than what is shown. */
UNIT_TEST(test_long_name)
{
	static char longest[5000];
	struct gkv_session *s;
	struct gkv_options o;

	memset(longest, 'n', sizeof(longest) - 1);
	api_options(&o);
	o.name = longest;
	assert_int_equal(gkv_session_open(&o, &s, NULL, 0), 0);
	gkv_session_close(s);
	o.name = "";
	assert_int_equal(gkv_session_open(&o, &s, NULL, 0), 0);
	gkv_session_close(s);
}

UNIT_TEST(test_place_for_the_sentence)
{
	char text[64];
	struct gkv_session *s;
	struct gkv_options o;

	api_options(&o);
	assert_int_equal(gkv_session_open(&o, NULL, text, sizeof(text)), -EINVAL);
	assert_non_null(strstr(text, "out is NULL"));
	assert_int_equal(gkv_session_open(NULL, NULL, NULL, 0), -EINVAL);
	o.timeout_ms = 0;
	assert_int_equal(gkv_session_open(&o, &s, NULL, 0), -ERANGE);
	assert_int_equal(gkv_session_open(&o, &s, NULL, sizeof(text)), -ERANGE);
	memset(text, 'x', sizeof(text));
	assert_int_equal(gkv_session_open(&o, &s, text, 0), -ERANGE);
	assert_int_equal(text[0], 'x');
	assert_int_equal(gkv_session_open(&o, &s, text, 1), -ERANGE);
	assert_int_equal(text[0], '\0');
	assert_int_equal(text[1], 'x');
	assert_int_equal(gkv_session_open(&o, &s, text, 11), -ERANGE);
	assert_string_equal(text, "timeout_ms");
	assert_int_equal(text[11], 'x');
}

UNIT_TEST(test_hint_bytes)
{
	static const uint64_t sizes[] = { 0, 1, 127, 128, 129, 255, 4096, 1ull << 30 };

	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct gkv_session_stats stats;
		struct gkv_session *s;
		struct gkv_options o;
		struct gkv *kv;

		api_options(&o);
		o.hint_bytes = sizes[i];
		assert_int_equal(gkv_session_open(&o, &s, NULL, 0), 0);
		assert_int_equal(gkv_open(s, NULL, &kv, NULL, 0), 0);
		api_works(kv);
		gkv_session_stats_get(s, &stats);
		assert_true(stats.hint_bytes <= sizes[i]);
		if (sizes[i] >= 127) /* no less than half of it is of use */
			assert_true(stats.hint_bytes > sizes[i] / 2);
		gkv_close(kv);
		gkv_session_close(s);
	}
}

UNIT_TEST(test_default_hint_bytes)
{
	struct gkv_session_stats stats;
	struct gkv_options o;

	gkv_options_init(&o);
	assert_int_equal(o.hint_bytes, 64u << 20);
	gkv_session_stats_get(api_session, &stats); /* opened without another one */
	assert_int_equal(stats.hint_bytes, 64u << 20);
}

UNIT_TEST(test_handle_fields)
{
	struct gkv *kv = api_kv;
	char why[700];

	assert_int_equal(gkv_open(NULL, NULL, &kv, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "session is NULL"));
	assert_null(kv);
	assert_int_equal(gkv_open(api_session, NULL, NULL, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "out is NULL"));
	for (size_t i = 0; i < COUNT(handle_fields); i++) {
		struct gkv_handle_options o = { 0 };
		int rc;

		set(&o, &handle_fields[i]);
		rc = gkv_open(api_session, &o, &kv, why, sizeof(why));
		if (rc != handle_fields[i].want || !strstr(why, word_of(&handle_fields[i])))
			fail_msg("%s: %d, %s", handle_fields[i].name, rc, why);
		assert_null(kv);
	}
	for (unsigned i = 0; i < 4; i++) {
		const struct gkv_handle_options o = {
			.depth = i & 1 ? GKV_DEPTH_MAX : 0,
			.flags = i & 2 ? GKV_NO_HINTS : 0,
		};

		assert_int_equal(gkv_open(api_session, i == 3 ? NULL : &o, &kv, NULL, 0), 0);
		api_works(kv);
		gkv_close(kv);
	}
}

/* One call for session and handle. */
UNIT_TEST(test_connect)
{
	struct gkv *kv = api_kv;
	struct gkv_options o;
	char why[700];

	api_options(&o);
	assert_int_equal(gkv_connect(NULL, &o, &kv, why, sizeof(why)), 0);
	assert_string_equal(why, "");
	assert_true(gkv_session_of(kv) && gkv_session_of(kv) != api_session);
	assert_ptr_equal(gkv_session_of(api_kv), api_session);
	api_works(kv);
	gkv_disconnect(kv);
	assert_int_equal(gkv_connect("127.0.0.1:1", &o, &kv, why, sizeof(why)), -ECONNREFUSED);
	assert_non_null(strstr(why, "127.0.0.1:1")); /* before the one of the options */
	assert_null(kv);
	assert_int_equal(gkv_connect(":", NULL, &kv, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "server"));
	assert_int_equal(gkv_connect(NULL, &o, NULL, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "out is NULL"));
	assert_null(gkv_session_of(NULL));
	gkv_disconnect(NULL);
	api_works(api_kv);
}

/* Programs are built with these: what is added takes of the reserved room. */
#define SAME(type, bytes)                                                                          \
	_Static_assert(sizeof(struct type) == (bytes) && offsetof(struct type, reserved) % 4 == 0, \
		       #type)
SAME(gkv_options, 128);
SAME(gkv_handle_options, 32);
SAME(gkv_write_options, 32);
SAME(gkv_scan_options, 40);
SAME(gkv_meta, 24);
SAME(gkv_item, 128);
SAME(gkv_request, 128);
SAME(gkv_completion, 64);
SAME(gkv_record, 64);
SAME(gkv_stats, 192);
SAME(gkv_session_stats, 128);

/* All of it is set, whatever stood there. */
UNIT_TEST(test_stats)
{
	static const struct gkv_session_stats no_session;
	static const struct gkv_stats none;
	struct gkv_session_stats of_session;
	struct gkv_stats stats;

	gkv_options_init(NULL);
	gkv_stats_get(api_kv, NULL);
	gkv_session_stats_get(api_session, NULL);
	for (unsigned i = 0; i < 2; i++) {
		memset(&stats, 0xee, sizeof(stats));
		memset(&of_session, 0xee, sizeof(of_session));
		gkv_stats_get(i ? api_kv : NULL, &stats);
		gkv_session_stats_get(i ? api_session : NULL, &of_session);
		assert_memory_equal(stats.reserved, none.reserved, sizeof(none.reserved));
		assert_memory_equal(of_session.reserved, no_session.reserved,
				    sizeof(no_session.reserved));
		assert_int_equal(memcmp(&stats, &none, sizeof(none)) != 0, i);
		assert_int_equal(memcmp(&of_session, &no_session, sizeof(no_session)) != 0, i);
	}
}

UNIT_TEST(test_words)
{
	static const int codes[] = { 0,		 -ENOENT,	-EMSGSIZE,     -EINVAL,
				     -ETIMEDOUT, -ECONNREFUSED, -EHOSTUNREACH, -ECONNRESET,
				     -EPROTO,	 -EREMOTEIO,	-ENOMEM,       -EPERM,
				     -EEXIST,	 -EDOM,		-ERANGE,       -EUSERS,
				     -ENODEV,	 -ENETDOWN,	-ECANCELED,    -EBUSY,
				     -EDEADLK,	 -EAGAIN,	-ESTALE,       -EPROTONOSUPPORT,
				     -ENOSPC,	 -EOPNOTSUPP,	-EROFS };
	static const int unknown[] = { 1, 42, INT_MAX, INT_MIN, -100000 };

	for (size_t i = 0; i < COUNT(codes); i++) {
		assert_true(strlen(gkv_strerror(codes[i])) > 3);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(gkv_strerror(codes[i]), gkv_strerror(codes[j]));
	}
	for (size_t i = 0; i < COUNT(unknown); i++)
		assert_non_null(gkv_strerror(unknown[i]));
	assert_string_equal(gkv_error(NULL), "");
	assert_string_equal(gkv_session_describe(NULL), "");
	assert_non_null(strstr(gkv_session_describe(api_session), "soft0"));
	assert_true(gkv_version()[0] >= '0' && gkv_version()[0] <= '9');
	gkv_close(NULL);
	gkv_session_close(NULL);
	assert_int_equal(gkv_tick(NULL, NULL, 0), -EINVAL);
	assert_true(gkv_tick(api_session, NULL, 0) >= 1);
}

UNIT_GROUP(api_set_up, api_tear_down);
