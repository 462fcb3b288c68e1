/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A small mutex inside one process (never in shared memory: its holder could die), and fences.
 * One atomic instruction to take and one to give back where nobody else wants it; others spin for
 * a moment and then sleep on a futex.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lock {
	_Atomic uint32_t word; /* 0 free, 1 held, 2 held and somebody may sleep */
};

void soft_lock_wait(struct lock *lock);
void soft_lock_wake(struct lock *lock);

static inline bool lock_try(struct lock *lock)
{
	uint32_t expected = 0;

	/* acquire: pairs with the release in lock_drop() */
	return atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1,
						       memory_order_acquire, memory_order_relaxed);
}

static inline void lock_take(struct lock *lock)
{
	if (!lock_try(lock))
		soft_lock_wait(lock);
}

static inline void lock_drop(struct lock *lock)
{
	/* release: pairs with the acquire in lock_try() and soft_lock_wait() */
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		soft_lock_wake(lock);
}

/*
 * ThreadSanitizer of gcc knows no fences. What the fences order here is memory of other processes,
 * which it cannot see either, so that build keeps the compiler and the processor in order by hand.
 */
static inline void fence_loads(void)
{
#if defined(__SANITIZE_THREAD__)
	__asm__ __volatile__("" ::: "memory");
#else
	atomic_thread_fence(memory_order_acquire);
#endif
}

static inline void fence_full(void)
{
#if defined(__SANITIZE_THREAD__)
	_Atomic int nothing = 0;

	atomic_fetch_add(&nothing, 1);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}
