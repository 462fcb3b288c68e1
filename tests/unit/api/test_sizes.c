/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Programs built with another header: their structures are shorter, or longer. Through the shared
 * library, as they are. No byte after the size that they give is touched, and what is before it is
 * as it would be for everyone else.
 */
#include <stdbool.h>
#include <string.h>

#include <gracekv.h>

#include "tests/lib/unit.h"

#define ROOM   1024u
#define BEYOND 64u /* a program may know so much more than this library */
#define FILL   0xa5

typedef void (*fill_fn)(void *out, size_t size);

static void fill_options(void *out, size_t size)
{
	gkv_options_init_sized(out, size);
}

static void fill_handle_options(void *out, size_t size)
{
	gkv_handle_options_init_sized(out, size);
}

static void fill_stats(void *out, size_t size)
{
	gkv_stats_get_sized(NULL, out, size);
}

static void fill_session_stats(void *out, size_t size)
{
	gkv_session_stats_get_sized(NULL, out, size);
}

static const struct kind {
	fill_fn fill;
	size_t size;
	bool tells; /* its first field is the size */
} kinds[] = {
	{ fill_options, sizeof(struct gkv_options), true },
	{ fill_handle_options, sizeof(struct gkv_handle_options), true },
	{ fill_stats, sizeof(struct gkv_stats), false },
	{ fill_session_stats, sizeof(struct gkv_session_stats), false },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void check_size(const struct kind *k, const unsigned char *whole, size_t size)
{
	_Alignas(max_align_t) unsigned char bytes[ROOM];
	size_t known = size < k->size ? size : k->size, from = 0;

	memset(bytes, FILL, sizeof(bytes));
	k->fill(bytes, size);
	if (k->tells && size >= sizeof(size_t)) {
		memcpy(&from, bytes, sizeof(from));
		assert_int_equal(from, known); /* no more than both sides know */
		from = sizeof(size_t);
	} else if (k->tells) {
		from = known;
	}
	assert_memory_equal(bytes + from, whole + from, known - from);
	for (size_t i = size; i < sizeof(bytes); i++)
		assert_int_equal(bytes[i], FILL);
}

UNIT_TEST(test_no_byte_behind_the_size_is_touched)
{
	for (size_t i = 0; i < KINDS; i++) {
		const struct kind *k = &kinds[i];
		_Alignas(max_align_t) unsigned char whole[ROOM];

		assert_true(k->size + BEYOND < ROOM);
		memset(whole, FILL, sizeof(whole));
		k->fill(whole, k->size);
		for (size_t size = 0; size <= k->size + BEYOND; size++)
			check_size(k, whole, size);
	}
}

/* What such a program knows nothing of counts as zero, not as what stands in its memory. */
UNIT_TEST(test_figures_of_later_libraries_are_zero)
{
	unsigned char bytes[ROOM];

	for (size_t i = 0; i < KINDS; i++) {
		if (kinds[i].tells)
			continue;
		memset(bytes, FILL, sizeof(bytes));
		kinds[i].fill(bytes, kinds[i].size + BEYOND);
		for (size_t at = 0; at < kinds[i].size + BEYOND; at++)
			assert_int_equal(bytes[at], 0); /* there is no handle and no session */
	}
}

UNIT_TEST(test_nowhere_to_write)
{
	for (size_t i = 0; i < KINDS; i++)
		kinds[i].fill(NULL, kinds[i].size);
}

/* These are where they were when programs were first built with them. */
UNIT_TEST(test_first_fields_stay)
{
	assert_int_equal(offsetof(struct gkv_options, size), 0);
	assert_int_equal(offsetof(struct gkv_options, server), sizeof(size_t));
	assert_int_equal(offsetof(struct gkv_options, connect), 64);
	assert_int_equal(offsetof(struct gkv_handle_options, size), 0);
	assert_int_equal(offsetof(struct gkv_handle_options, depth), sizeof(size_t));
	assert_int_equal(offsetof(struct gkv_stats, gets), 0);
	assert_int_equal(offsetof(struct gkv_stats, reconnects), 72);
	assert_int_equal(offsetof(struct gkv_session_stats, rounds), 0);
	assert_int_equal(offsetof(struct gkv_session_stats, announced), 24);
}
