/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* All fields of a structure that another machine or process sees, in one line each. */
#include <assert.h>
#include <stddef.h>

/*
 * LAYOUT(type, bytes, field, offset, field, offset, ...); - asserts that @type has so many bytes,
 * and each field its offset.
 *
 * FIELDS(type, field, field, ...) - offset and size of each field, as a list of numbers.
 *
 * A macro does not expand itself: each step hands the rest to FIELDS_AGAIN, whose expansions find
 * the name of the next step. They are enough for 60 fields; a longer list does not compile.
 */
#define LAYOUT(type, bytes, ...)                      \
	FIELDS_AGAIN(LAYOUT_STEP(type, __VA_ARGS__)); \
	static_assert(sizeof(type) == (bytes), #type)
#define LAYOUT_STEP(type, field, offset, ...)                              \
	static_assert(offsetof(type, field) == (offset), #type "." #field) \
		__VA_OPT__(; LAYOUT_NEXT FIELDS_LATER(type, __VA_ARGS__))
#define LAYOUT_NEXT() LAYOUT_STEP

#define FIELDS(type, ...) FIELDS_AGAIN(FIELDS_STEP(type, __VA_ARGS__))
#define FIELDS_STEP(type, field, ...)                                           \
	((uint64_t)offsetof(type, field) << 32 | sizeof(((type *)NULL)->field)) \
		__VA_OPT__(, FIELDS_NEXT FIELDS_LATER(type, __VA_ARGS__))
#define FIELDS_NEXT() FIELDS_STEP

#define FIELDS_LATER	  ()
#define FIELDS_AGAIN(...) FIELDS_4(FIELDS_4(FIELDS_4(FIELDS_4(__VA_ARGS__))))
#define FIELDS_4(...)	  FIELDS_16(FIELDS_16(FIELDS_16(FIELDS_16(__VA_ARGS__))))
#define FIELDS_16(...)	  FIELDS_64(FIELDS_64(FIELDS_64(FIELDS_64(__VA_ARGS__))))
#define FIELDS_64(...)	  __VA_ARGS__
