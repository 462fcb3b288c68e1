/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What tests of look-ups expect of a key. */
#include <string.h>

#include "tests/lib/unit.h"
#include "fake_store.h"

#define KEY   "the key"
#define VALUE "and its value"

static inline int set_up(void **state)
{
	*state = fake_create(2);
	return 0;
}

static inline int tear_down(void **state)
{
	fake_destroy(*state);
	return 0;
}

static inline struct lookup look_up(struct fake *f, const char *key)
{
	struct lookup l = { .key = key, .key_len = (uint32_t)strlen(key) };

	assert_int_equal(lookup_run(&f->reader, &l, 1, 0), 0);
	return l;
}

static inline void expect_found(struct fake *f, const char *key, const char *value)
{
	struct lookup l = look_up(f, key);

	assert_int_equal(l.state, LOOKUP_FOUND);
	assert_int_equal(l.value_len, strlen(value));
	assert_memory_equal(l.value, value, strlen(value));
}

static inline void expect_state(struct fake *f, const char *key, enum lookup_state state)
{
	assert_int_equal(look_up(f, key).state, state);
}

/* run - as look_up(), with the return value of the call. */
static inline int run(struct fake *f)
{
	struct lookup l = { .key = KEY, .key_len = strlen(KEY) };

	return lookup_run(&f->reader, &l, 1, 0);
}
