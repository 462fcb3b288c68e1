/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Which attributes each transition of a queue pair needs and takes. */
#include <infiniband/verbs.h>

/*
 * soft_transition_check - may a QP of @type (RC, UC or UD) go from @from to @to with the attributes
 * of @mask, of which IBV_QP_STATE does not count? Looks at no values.
 * Returns 0, EINVAL, or EOPNOTSUPP where what is wrong is only that soft0 lacks it.
 */
int soft_transition_check(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
			  int mask);
