/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Compare-and-swap and fetch-and-add: see atomic.c. Holders of qp->sq call these. */
#include <infiniband/verbs.h>

#include "common/softrdma/path/execute.h"

/* soft_atomic - execute @wr, whose SGEs are @local. Returns a status or EXECUTE_*. */
int soft_atomic(struct soft_qp *qp, const struct ibv_send_wr *wr, struct soft_local *local);

/* soft_atomic_withdraw - the oldest send does not wait for the peer any more. */
void soft_atomic_withdraw(struct soft_qp *qp);

/* soft_atomic_attend - execute what the peer of @qp asks for. Holds walk, too. */
void soft_atomic_attend(struct soft_qp *qp);
