/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Options of sessions and handles out of range, their sizes, and the functions without a handle. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tests/unit/api/api.h"
#include "tests/unit/client/with_server.h"

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
	FIELD(gkv_options, size, 0, -EINVAL),
	FIELD(gkv_options, size, 1, -EINVAL),
	FIELD(gkv_options, size, 8, -EINVAL),
	FIELD(gkv_options, size, sizeof(struct gkv_options) - 1, -EINVAL),
	FIELD(gkv_options, size, sizeof(struct gkv_options) + 8, -EINVAL),
	FIELD(gkv_options, size, SIZE_MAX, -EINVAL),
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
	FIELD(gkv_options, rnr_retry, 8, -ERANGE),
	FIELD(gkv_options, rnr_retry, UINT_MAX, -ERANGE),
	FIELD(gkv_options, connect, 2, -ERANGE),
	FIELD(gkv_options, connect, UINT_MAX, -ERANGE),
	FIELD(gkv_options, housekeeper, 2, -ERANGE),
	FIELD(gkv_options, housekeeper, UINT_MAX, -ERANGE),
	FIELD(gkv_options, flags, 2, -ERANGE),
	FIELD(gkv_options, flags, UINT_MAX, -ERANGE),
	FIELD(gkv_options, hint_bytes, UINT64_MAX, -ERANGE),
	FIELD(gkv_options, hint_bytes, (1ull << 40) + 1, -ERANGE),
};

static const struct bad_field handle_fields[] = {
	FIELD(gkv_handle_options, size, 0, -EINVAL),
	FIELD(gkv_handle_options, size, 7, -EINVAL),
	FIELD(gkv_handle_options, size, sizeof(struct gkv_handle_options) + 8, -EINVAL),
	FIELD(gkv_handle_options, size, SIZE_MAX, -EINVAL),
	FIELD(gkv_handle_options, depth, 0, -EINVAL),
	FIELD(gkv_handle_options, depth, GKV_DEPTH_MAX + 1, -EINVAL),
	FIELD(gkv_handle_options, depth, UINT_MAX, -EINVAL),
	FIELD(gkv_handle_options, no_hints, 2, -EINVAL),
	FIELD(gkv_handle_options, no_hints, UINT_MAX, -EINVAL),
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void set(void *options, const struct bad_field *f)
{
	memcpy((char *)options + f->offset, &f->value, f->size); /* little-endian */
}

static void open_refused(const struct gkv_options *o, int want, const char *word)
{
	struct gkv_session *s = NULL;
	char text[700] = "";
	int rc = gkv_session_open(&s, o, text, sizeof(text));

	if (rc != want || !strstr(text, word))
		fail_msg("'%s': %d (%s), not %d: %s", word, rc, gkv_strerror(rc), want, text);
}

UNIT_TEST(test_session_fields)
{
	struct gkv_options o;

	for (size_t i = 0; i < COUNT(session_fields); i++) {
		api_options(&o);
		set(&o, &session_fields[i]);
		open_refused(&o, session_fields[i].want,
			     strcmp(session_fields[i].name, "mtu") ? session_fields[i].name
								   : "MTU");
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
	assert_int_equal(gkv_session_open(&s, &o, NULL, 0), 0);
	gkv_session_close(s);
	o.name = "";
	assert_int_equal(gkv_session_open(&s, &o, NULL, 0), 0);
	gkv_session_close(s);
}

UNIT_TEST(test_place_for_the_sentence)
{
	char text[64];
	struct gkv_session *s;
	struct gkv_options o;

	api_options(&o);
	assert_int_equal(gkv_session_open(NULL, &o, text, sizeof(text)), -EINVAL);
	assert_non_null(strstr(text, "out is NULL"));
	assert_int_equal(gkv_session_open(NULL, NULL, NULL, 0), -EINVAL);
	o.timeout_ms = 0;
	assert_int_equal(gkv_session_open(&s, &o, NULL, 0), -ERANGE);
	assert_int_equal(gkv_session_open(&s, &o, NULL, sizeof(text)), -ERANGE);
	memset(text, 'x', sizeof(text));
	assert_int_equal(gkv_session_open(&s, &o, text, 0), -ERANGE);
	assert_int_equal(text[0], 'x');
	assert_int_equal(gkv_session_open(&s, &o, text, 1), -ERANGE);
	assert_int_equal(text[0], '\0');
	assert_int_equal(text[1], 'x');
	assert_int_equal(gkv_session_open(&s, &o, text, 11), -ERANGE);
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
		assert_int_equal(gkv_session_open(&s, &o, NULL, 0), 0);
		assert_int_equal(gkv_open(s, &kv), 0);
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
	struct gkv_handle_options o;
	struct gkv *kv;

	assert_int_equal(gkv_open_with(NULL, NULL, &kv), -EINVAL);
	assert_int_equal(gkv_open(NULL, &kv), -EINVAL);
	assert_int_equal(gkv_open(api_session, NULL), -EINVAL);
	assert_int_equal(gkv_open_with(api_session, NULL, NULL), -EINVAL);
	assert_non_null(strstr(gkv_session_error(api_session), "out is NULL"));
	for (size_t i = 0; i < COUNT(handle_fields); i++) {
		int rc;

		gkv_handle_options_init(&o);
		set(&o, &handle_fields[i]);
		rc = gkv_open_with(api_session, &o, &kv);
		if (rc != handle_fields[i].want ||
		    !strstr(gkv_session_error(api_session), handle_fields[i].name))
			fail_msg("%s: %d, %s", handle_fields[i].name, rc,
				 gkv_session_error(api_session));
	}
	for (unsigned i = 0; i < 4; i++) {
		gkv_handle_options_init(&o);
		o.depth = i & 1 ? GKV_DEPTH_MAX : 1;
		o.no_hints = i >> 1;
		assert_int_equal(gkv_open_with(api_session, i == 3 ? NULL : &o, &kv), 0);
		api_works(kv);
		gkv_close(kv);
	}
}

/* What is written lies within the size that was given, and where there is more it is zeroed. */
UNIT_TEST(test_sizes)
{
	static const size_t sizes[] = { 0, 1, 8, 9, 24, 1000 };
	_Alignas(16) unsigned char bytes[1024];

	gkv_options_init_sized(NULL, 8);
	gkv_handle_options_init_sized(NULL, 8);
	gkv_stats_get_sized(api_kv, NULL, 8);
	gkv_session_stats_get_sized(api_session, NULL, 8);
	for (size_t i = 0; i < 6 * COUNT(sizes); i++) {
		size_t size = sizes[i / 6], told = size;

		memset(bytes, 0xee, sizeof(bytes));
		if (i % 6 == 0)
			gkv_options_init_sized((void *)bytes, size);
		else if (i % 6 == 1)
			gkv_handle_options_init_sized((void *)bytes, size);
		else if (i % 6 == 2 || i % 6 == 3)
			gkv_stats_get_sized(i % 6 == 2 ? api_kv : NULL, (void *)bytes, size);
		else
			gkv_session_stats_get_sized(i % 6 == 4 ? api_session : NULL, (void *)bytes,
						    size);
		for (size_t j = size; j < sizeof(bytes); j++)
			assert_int_equal(bytes[j], 0xee);
		if (i % 6 < 2 && size >= sizeof(size_t)) {
			memcpy(&told, bytes, sizeof(told));
			assert_true(told >= sizeof(told) && told <= size);
		}
		if (i % 6 >= 2 && size == 1000)
			assert_int_equal(bytes[999], 0);
		if (i % 6 == 3 || i % 6 == 5)
			for (size_t j = 0; j < size; j++)
				assert_int_equal(bytes[j], 0);
	}
}

UNIT_TEST(test_words)
{
	static const int codes[] = { 0,		 -ENOENT,	-EMSGSIZE,     -EINVAL,
				     -ETIMEDOUT, -ECONNREFUSED, -EHOSTUNREACH, -ECONNRESET,
				     -EPROTO,	 -EREMOTEIO,	-ENOMEM,       -EPERM,
				     -EEXIST,	 -EDOM,		-ERANGE,       -EUSERS,
				     -ENODEV,	 -ENETDOWN,	-ECANCELED,    -EBUSY,
				     -EDEADLK,	 -EAGAIN,	-ESTALE,       -EPROTONOSUPPORT };
	static const int unknown[] = { 1, 42, INT_MAX, INT_MIN, -100000 };

	for (size_t i = 0; i < COUNT(codes); i++) {
		assert_true(strlen(gkv_strerror(codes[i])) > 3);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(gkv_strerror(codes[i]), gkv_strerror(codes[j]));
	}
	for (size_t i = 0; i < COUNT(unknown); i++)
		assert_non_null(gkv_strerror(unknown[i]));
	assert_string_equal(gkv_error(NULL), "");
	assert_string_equal(gkv_session_error(NULL), "");
	assert_string_equal(gkv_session_describe(NULL), "");
	assert_non_null(strstr(gkv_session_describe(api_session), "soft0"));
	assert_true(gkv_version()[0] >= '0' && gkv_version()[0] <= '9');
	gkv_close(NULL);
	gkv_session_close(NULL);
	assert_int_equal(gkv_tick(NULL), -EINVAL);
	assert_true(gkv_tick(api_session) >= 1);
}

UNIT_GROUP(api_set_up, api_tear_down);
