/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * For tools that measure (tools/kv-bw-lat): they tell the server what they are about to do, since
 * it knows its own end of the queue pair. Not part of the public API.
 */
#include "client/src/link/handle.h"
#include "common/layout/wire_measure.h"

/*
 * measure_tell - @plan: what the tool knows; mtu, read_depth and credits are filled in here, of the
 * handle's queue pair. MEASURE_BEGIN compares both ends; MEASURE_LOOK only asks. A call as any
 * other, of the handle's thread.
 * Returns 0; -EPROTO: the ends differ; -ENOMEM: its records do not fit the server; the sentence is
 * in gkv_error(). -EINVAL: @plan is none; -EOPNOTSUPP: the server is older. -EPROTO also where the
 * answer is none. As calls with a request else.
 */
int measure_tell(struct gkv *h, const struct rpc_measure *plan, struct rpc_measured *out);
