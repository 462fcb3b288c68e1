/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The functions of the real libibverbs and librdmacm. */
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "common/softrdma/preload/functions.h"
#include "common/softrdma/softrdma.h"

#define SOFT_EXPORT __attribute__((visibility("default")))

#define SOFT_REAL_INDEX(name, version) SOFT_REAL_##name,
enum soft_real_index {
	/* clang-format off */
	SOFT_INTERPOSED(SOFT_REAL_INDEX)
	SOFT_INTERPOSED_CM(SOFT_REAL_INDEX)
	SOFT_REALS
	/* clang-format on */
};
#undef SOFT_REAL_INDEX

/*
 * soft_real_find - address of a real function. NULL where the library has none, with errno ENOSYS
 * and a line on stderr. Any thread, also inside of dlopen().
 */
void *soft_real_find(enum soft_real_index index);

/*
 * SOFT_FORWARD - call the real function @name with the arguments. Where there is none, the value
 * is @none and errno ENOSYS.
 */
#define SOFT_FORWARD(none, name, ...)                                                              \
	({                                                                                         \
		__typeof__(&(name)) real_ = (__typeof__(&(name)))soft_real_find(SOFT_REAL_##name); \
		real_ ? real_(__VA_ARGS__) : (none);                                               \
	})

/*
 * soft_ours - does an object with this context belong to soft0? Drivers hand over objects that are
 * half made, with no context yet.
 */
static inline bool soft_ours(const struct ibv_context *context)
{
	return context && softrdma_owns(context);
}

static inline bool soft_our_device(const struct ibv_device *device)
{
	return device == softrdma_device();
}

/*
 * SOFT_CHOICE - export ibv_@name: for an object of soft0, known by its @context, the value is
 * @ours; otherwise the real function is called. SOFT_FUNCTION: where @ours is softrdma_@name.
 */
#define SOFT_CHOICE(type, name, params, args, context, ours, none)      \
	SOFT_EXPORT type ibv_##name params                              \
	{                                                               \
		if (soft_ours(context))                                 \
			return ours;                                    \
		return SOFT_FORWARD(none, ibv_##name, SOFT_PLAIN args); \
	}
#define SOFT_FUNCTION(type, name, params, args, context, none) \
	SOFT_CHOICE(type, name, params, args, context, softrdma_##name args, none)
#define SOFT_PLAIN(...) __VA_ARGS__

/* soft_refuse - errno EOPNOTSUPP, and its number. */
int soft_refuse(void);

/* soft_refuse_pointer - NULL with errno EOPNOTSUPP. */
void *soft_refuse_pointer(void);
