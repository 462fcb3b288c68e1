/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
#include "common/layout/wire_measure.h"

/* server_measure - what the whole server knows of a measurement; a worker_measure_fn. */
void server_measure(void *ctx, struct rpc_measured *out);
