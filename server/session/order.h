/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Who came when: the number of the newest session, which workers stamp batches of retired blocks
 * with, and of the oldest that has not gone, which the reclaimer asks for (reclaim.h). Only the
 * control thread changes them.
 *
 * Why a retired block cannot be reached by a session that its stamp leaves out: the control thread
 * stores `newest` (sequentially consistent) before it sends WELCOME; a worker loads it after the
 * block was unlinked and after a full barrier. If it does not see session n, then the store
 * for n comes later in the one order of all such operations, hence so do the READs of n, and they
 * find the block unlinked.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "server/reclaim/reclaim.h"

struct session_order {
	_Atomic uint64_t newest; /* 0: none yet */
	_Atomic uint64_t oldest; /* UINT64_MAX: none connected */
};

void session_order_init(struct session_order *o);

/* session_order_sessions - the two questions, for the reclaimer. */
struct reclaim_sessions session_order_sessions(struct session_order *o);
