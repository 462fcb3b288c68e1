/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Waiting for initiators that may be changing our memory: see fence.c. */
#include <stdbool.h>

struct soft_qp;

/*
 * soft_fence_qp - after the state or key that let writers in was taken back, with a full fence:
 * wait until the operation that the connected peer may have under way is over. Holds qp->sq.
 * Returns false when the peer is stuck in it, after two seconds.
 */
bool soft_fence_qp(struct soft_qp *qp);

/*
 * soft_fence_all - wait for the operations that our own QPs have under way, and, if @writers, those
 * of all peers. Holds no lock. Best effort after two seconds.
 */
void soft_fence_all(bool writers);
