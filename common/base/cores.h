/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The cores that this process may run on. Any thread. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdbool.h>

/*
 * cores_alone - there is one core only, for us and for whoever we wait for: spinning keeps it from
 * them. Where it cannot be asked (more cores than cpu_set_t has), there are several.
 */
static inline bool cores_alone(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1;
}
