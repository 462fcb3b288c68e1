/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
#include <stdbool.h>

/* perf_main - all of kv-lat, or of kv-bw. Returns its exit status. */
int perf_main(bool latency, int argc, char **argv);
