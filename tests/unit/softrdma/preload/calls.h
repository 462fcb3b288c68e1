/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Calls of interposed functions, and whether they reach the libibverbs behind. */
#include <errno.h>
#include <stdbool.h>

#include "common/softrdma/preload/undeclared.h"
#include "tests/lib/unit.h"
#include "tests/unit/softrdma/preload/fake_libibverbs.h"

/* Macros over inline functions; meant here are the functions that are exported. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

extern struct fake *fake;
extern bool missing; /* the fake lacks all functions */

/* calls_begin - find the fake. A setup function of cmocka: no function was tried. */
int calls_begin(void **state);

/* calls_see - the function was tried. */
void calls_see(const char *name);

/* calls_all_seen - fails where one of functions.h was not tried. */
void calls_all_seen(void);

/*
 * calls_check - the one call since there were @calls was of @name, with these arguments; or there
 * was none and errno says so.
 */
void calls_check(const char *name, unsigned calls, const long *args, int count);

/* Up to six arguments as numbers. */
#define L1(a)			      (long)(a)
#define L2(a, ...)		      (long)(a), L1(__VA_ARGS__)
#define L3(a, ...)		      (long)(a), L2(__VA_ARGS__)
#define L4(a, ...)		      (long)(a), L3(__VA_ARGS__)
#define L5(a, ...)		      (long)(a), L4(__VA_ARGS__)
#define L6(a, ...)		      (long)(a), L5(__VA_ARGS__)
#define NTH(a, b, c, d, e, f, n, ...) n
#define LONGS(...)		      NTH(__VA_ARGS__, L6, L5, L4, L3, L2, L1)(__VA_ARGS__)
#define COUNT(...)		      NTH(__VA_ARGS__, 6, 5, 4, 3, 2, 1)

#define FORWARDED_VOID(name, ...)                                               \
	do {                                                                    \
		unsigned calls = fake->calls;                                   \
		errno = 0;                                                      \
		name(__VA_ARGS__);                                              \
		calls_check(#name, calls, (const long[]){ LONGS(__VA_ARGS__) }, \
			    COUNT(__VA_ARGS__));                                \
	} while (0)

#define FORWARDED(none, name, ...)                                                          \
	do {                                                                                \
		unsigned calls = fake->calls;                                               \
		fake->result = 1000 + calls;                                                \
		errno = 0;                                                                  \
		assert_int_equal((long)name(__VA_ARGS__), missing ? (none) : fake->result); \
		calls_check(#name, calls, (const long[]){ LONGS(__VA_ARGS__) },             \
			    COUNT(__VA_ARGS__));                                            \
	} while (0)

/* What the call gives; nothing reached the fake. */
#define OURS(name, ...)                                                           \
	({                                                                        \
		unsigned calls = fake->calls;                                     \
		__typeof__(name(__VA_ARGS__)) value = name(__VA_ARGS__);          \
		if (fake->calls != calls)                                         \
			fail_msg("%s reached libibverbs: %s", #name, fake->last); \
		calls_see(#name);                                                 \
		value;                                                            \
	})

#define OURS_VOID(name, ...)                                                      \
	do {                                                                      \
		unsigned calls = fake->calls;                                     \
		name(__VA_ARGS__);                                                \
		if (fake->calls != calls)                                         \
			fail_msg("%s reached libibverbs: %s", #name, fake->last); \
		calls_see(#name);                                                 \
	} while (0)
