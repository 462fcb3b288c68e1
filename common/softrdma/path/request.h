/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What may be posted to a send queue at all. */
#include "common/softrdma/objects/qp.h"

/*
 * soft_request_check - is @wr a request that @qp could have? Looks at the service, the number of
 * SGEs, flags and inline data, not at keys. Returns 0, EINVAL, or EOPNOTSUPP for what soft0 lacks.
 */
int soft_request_check(const struct soft_qp *qp, const struct ibv_send_wr *wr);
