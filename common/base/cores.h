/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The cores that this process may run on. Any thread. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdbool.h>

/* cores_usable - how many; CPU_SETSIZE where it cannot be asked, there are more than that then. */
static inline unsigned cores_usable(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? CPU_SETSIZE : (unsigned)CPU_COUNT(&set);
}

/*
 * cores_alone - there is one core only, for us and for whoever we wait for: spinning keeps it from
 * them. Where it cannot be asked (more cores than cpu_set_t has), there are several.
 */
static inline bool cores_alone(void)
{
	return cores_usable() == 1;
}
