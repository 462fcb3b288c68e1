/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* READs of private memory, many at once: see chain.c. */
#include <infiniband/verbs.h>
#include <stdint.h>

#include "common/softrdma/objects/qp.h"

enum { CHAIN_MAX = 64 };

/*
 * soft_execute_chain - execute those READs at the head of the list @wr together that can be, @max
 * of them at most. Returns how many are done, all with success, or 0; @length: bytes of each,
 * CHAIN_MAX places. Holds qp->sq; the QP is in RTS and nothing waits.
 */
unsigned soft_execute_chain(struct soft_qp *qp, const struct ibv_send_wr *wr, uint64_t max,
			    uint32_t *length);
