/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Death, as the kernel tells it in memory. A mapping outlives its owner, so a READ of a dead
 * process's memory would go on succeeding until somebody has read the hang-up of its socket: long
 * enough for a successor to have started and to hold other contents. So the service thread of each
 * process keeps a robust futex in its arena (Documentation/locking/robust-futex-ABI.rst of Linux):
 * when the thread ends, however it ends, the kernel sets FUTEX_OWNER_DIED in the word while the
 * process goes down, before its parent can reap it and before its sockets close. Whoever began
 * something after that sees the mark with a plain load.
 *
 * The service thread lives as long as its process has the device open, and takes no other robust
 * lock: the list that it registers replaces the one that libc made for it.
 */
#include "common/softrdma/shared/life.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct robust_list_head life_head; /* of the one service thread */

int soft_life_begin(struct shared_life *life)
{
	/* relaxed: the process has no peers yet */
	atomic_store_explicit(&life->owner, (uint32_t)syscall(SYS_gettid), memory_order_relaxed);
	life->list.next = &life_head.list;
	life_head.list.next = &life->list;
	life_head.futex_offset = (long)offsetof(struct shared_life, owner);
	life_head.list_op_pending = NULL;
	return syscall(SYS_set_robust_list, &life_head, sizeof(life_head)) ? -errno : 0;
}
