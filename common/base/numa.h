/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * NUMA nodes: where threads run and where memory lies. From sysfs and by four system calls;
 * libnuma has no more to say about it.
 *
 * @root stands before /sys; "" is this machine, tests give a folder with a machine of their own.
 */
#include <stddef.h>
#include <stdint.h>

#define NUMA_UNKNOWN (-1)

/* What became of a wish to run beside a device. */
struct numa_place {
	int node; /* of the device, where there are others; or NUMA_UNKNOWN: nothing to choose */
	char words[256]; /* for the log; "" where node is unknown */
};

/*
 * numa_settle - have this thread, and those that it starts from now on, run on the cores of
 * @node and take memory there while it has some.
 * Whoever started the process decides before: threads that were bound to some cores, and a memory
 * policy that was set (numactl, taskset, systemd, cpusets), stay as they are. Nothing is done on a
 * machine of one node. It cannot fail: what could not be had is said in @out.
 */
void numa_settle(const char *root, const char *device, int node, struct numa_place *out);

/*
 * numa_elsewhere - how many of @bytes at @addr, which must be there, lie on another node than
 * @node: looked up once for each 2 MiB. 0 where the kernel does not say.
 */
uint64_t numa_elsewhere(const void *addr, size_t bytes, int node);
