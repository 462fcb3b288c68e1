/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/shared/lock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/time.h"

#define SPINS 100

void soft_lock_wait(struct lock *lock)
{
	for (int i = 0; i < SPINS; i++) {
		if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 && lock_try(lock))
			return;
		time_relax();
	}
	/* acquire: pairs with the release in lock_drop() */
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
		syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void soft_lock_wake(struct lock *lock)
{
	syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
