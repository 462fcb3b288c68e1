/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Which GIDs of clients are tried, so that none of them can hold up the queue-pair thread.
 *
 * On RoCE ibv_modify_qp to RTR looks for the peer's link address, and the kernel waits for up to
 * 1 s where nobody answers (ib_core: rdma_addr_find_l2_eth_by_grh()); there is no call that asks
 * without waiting. A client that offers GIDs that lead nowhere would hold up all others' queue
 * pairs.
 *
 *  1. A GID that is vouched for is tried at once: it is the address of the far end of the client's
 *     life line, and ours is that of the near end. TCP knows the way.
 *  2. So is one that has led somewhere lately.
 *  3. Any other is tried, unless a wait was in vain not long ago: after one of T, none of these is
 *     tried for REACH_REST * T. So waits take at most 1 / (1 + REACH_REST) of the time, whoever
 *     asks, and a client whose RDMA network is another one than its TCP network is told to come
 *     again, and does.
 *
 * The queue-pair thread's alone. The clock is the caller's.
 */
#include <stdbool.h>
#include <stdint.h>

#define REACH_KNOWN   64u /* GIDs that are remembered */
#define REACH_REST    4u
#define REACH_SLOW_NS 50000000u /* less is no wait */

struct reach {
	uint64_t closed_until_ns;
	uint8_t known[REACH_KNOWN][16]; /* all zeros: none */
	unsigned next; /* the one that gives way */
};

/* reach_wait_ns - how long until @gid may be tried; 0: now. @vouched: see 1. */
uint64_t reach_wait_ns(const struct reach *r, const uint8_t gid[16], bool vouched, uint64_t now_ns);

/* reach_tried - it was, from @from_ns to @now_ns, and it led somewhere or not. */
void reach_tried(struct reach *r, const uint8_t gid[16], bool led, uint64_t from_ns,
		 uint64_t now_ns);
