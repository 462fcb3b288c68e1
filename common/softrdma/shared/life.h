/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Whether the owner of an arena lives: one load, no system call. The essay is in life.c. */
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* In the arena. The kernel writes `owner` when the thread that entered it ends. */
struct shared_life {
	struct robust_list list; /* an address of the owner's: nobody else follows it */
	_Atomic uint32_t owner; /* thread id, with FUTEX_OWNER_DIED once it has ended */
};

/* soft_life_begin - by the service thread, before its process has peers. Returns 0 or -errno. */
int soft_life_begin(struct shared_life *life);

static inline bool life_over(const struct shared_life *life)
{
	/* acquire: what the owner's process did before it ended is seen */
	return atomic_load_explicit(&life->owner, memory_order_acquire) & FUTEX_OWNER_DIED;
}
