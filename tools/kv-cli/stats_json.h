/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The server's statistics as JSON. Any thread. */
#include <jansson.h>

#include "tools/kv-cli/stats_table.h"

/*
 * stats_json - all values, in groups: rpc_gets is "gets" of the object "rpc". Sizes of blocks and
 * sessions are lists, "classes" and "each_session". NULL: no memory.
 */
json_t *stats_json(const struct stats_table *t);

/*
 * stats_json_rates - what grew, per second, in the same groups; of look-ups also reads_per_get.
 * What is not known is null. NULL: no memory.
 */
json_t *stats_json_rates(const struct stats_table *t);
