/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Copies of SOFTRDMA_WEAK: see weak_copy.c. */
#include "common/softrdma/path/execute.h"

/* Copies one range of a peer's memory; see execute.c. Returns a status. */
typedef int (*soft_copy_fn)(struct soft_qp *qp, const struct soft_remote *remote,
			    struct soft_local *local);

/*
 * soft_weak_copy - copy @remote to or from the next remote->length bytes of @local with @copy, line
 * by line. Holds qp->sq. Returns a status.
 */
int soft_weak_copy(struct soft_qp *qp, const struct soft_remote *remote, struct soft_local *local,
		   soft_copy_fn copy);
