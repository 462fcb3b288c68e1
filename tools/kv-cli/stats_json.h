/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The server's statistics as JSON. Any thread. */
#include <jansson.h>

#include "tools/kv-cli/stats_table.h"

/* stats_json - an object of all values. NULL: no memory. */
json_t *stats_json(const struct stats_table *t);

/*
 * stats_json_rates - what grew, per second: of counters, NAME; of look-ups also reads_per_get and
 * session_N_reads_per_get. What is not known is null. NULL: no memory.
 */
json_t *stats_json_rates(const struct stats_table *t);
