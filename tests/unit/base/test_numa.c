/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What follows from where a device is, on machines that are folders of files. The system
 * calls are the test's: it says which cores and which policy the process has, and what fails.
 */
#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/base/numa.h"
#include "tests/lib/folder.h"
#include "tests/lib/unit.h"

#define MIB (1u << 20)

/* What the process has, and what it asked for. */
static struct kernel {
	cpu_set_t cores;
	int policy, fail_policy, fail_cores;
	unsigned cores_set, policies_set;
	unsigned long nodes;
	int (*node_of)(const void *page); /* or a negative errno */
	unsigned long looks;
	bool mute;
} kernel;

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set);
long __wrap_syscall(long number, ...);

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	*set = kernel.cores;
	return 0;
}

int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
	errno = kernel.fail_cores;
	if (kernel.fail_cores)
		return -1;
	kernel.cores = *set;
	kernel.cores_set++;
	return 0;
}

static long look_up(unsigned long n, void **page, int *status)
{
	for (unsigned long i = 0; i < n; i++)
		status[i] = kernel.node_of(page[i]);
	kernel.looks += n;
	return 0;
}

long __wrap_syscall(long number, ...)
{
	long rc = -1;
	va_list ap;

	va_start(ap, number);
	errno = ENOSYS;
	if (number == SYS_get_mempolicy) {
		*va_arg(ap, int *) = kernel.policy;
		rc = 0;
	} else if (number == SYS_set_mempolicy) {
		assert_int_equal(va_arg(ap, int), MPOL_PREFERRED);
		kernel.nodes = *va_arg(ap, unsigned long *);
		errno = kernel.fail_policy;
		rc = kernel.fail_policy ? -1 : 0;
		kernel.policies_set += rc == 0;
	} else if (number == SYS_move_pages && !kernel.mute) {
		int pid = va_arg(ap, int);
		unsigned long n = va_arg(ap, unsigned long);
		void **page = va_arg(ap, void **);

		assert_int_equal(pid, 0);
		assert_null(va_arg(ap, void *)); /* it asks, and moves nothing */
		rc = look_up(n, page, va_arg(ap, int *));
	}
	va_end(ap);
	return rc;
}

static void put(const char *path, const char *text)
{
	char whole[256];

	snprintf(whole, sizeof(whole), "/sys/%s", path);
	folder_put(whole, text);
}

static void has_cores(unsigned first, unsigned last)
{
	CPU_ZERO(&kernel.cores);
	for (unsigned i = first; i <= last; i++)
		CPU_SET(i, &kernel.cores);
}

/* Two nodes of four cores each, every second one its own, and a device at the second. */
static int machine(void **state)
{
	if (folder_empty(state))
		return -1;
	put("devices/system/cpu/online", "0-7\n");
	put("devices/system/node/online", "0-1\n");
	put("devices/system/node/node0/cpulist", "0-1,4-5\n");
	put("devices/system/node/node1/cpulist", "2-3,6,7\n");
	memset(&kernel, 0, sizeof(kernel));
	has_cores(0, 7);
	return 0;
}

static struct numa_place settle(void)
{
	struct numa_place place;

	numa_settle(folder, "mlx5_0", 1, &place);
	return place;
}

#define assert_says(text, word)                                   \
	do {                                                      \
		if (!strstr(text, word))                          \
			fail_msg("'%s' not in '%s'", word, text); \
	} while (0)

UNIT_TEST(threads_and_memory_go_to_the_device, machine)
{
	struct numa_place place = settle();

	assert_int_equal(place.node, 1);
	assert_string_equal(place.words, "mlx5_0 is at NUMA node 1: threads run on its cores, "
					 "memory is taken there while it has some");
	assert_int_equal(CPU_COUNT(&kernel.cores), 4);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(CPU_ISSET(i, &kernel.cores), i % 4 >= 2);
	assert_int_equal(kernel.nodes, 2); /* a bit for node 1 */
	assert_int_equal(kernel.policies_set, 1);
}

UNIT_TEST(there_is_nothing_to_choose, machine)
{
	struct numa_place place;

	numa_settle(folder, "rxe0", NUMA_UNKNOWN, &place);
	assert_int_equal(place.node, NUMA_UNKNOWN);
	assert_string_equal(place.words, "");
	numa_settle(folder, "mlx5_0", 2, &place); /* a node that is not there */
	assert_int_equal(place.node, NUMA_UNKNOWN);
	put("devices/system/node/online", "1\n");
	assert_int_equal(settle().node, NUMA_UNKNOWN);
	put("devices/system/node/online", "what\n");
	assert_int_equal(settle().node, NUMA_UNKNOWN);
	numa_settle("/nowhere", "mlx5_0", 1, &place);
	assert_int_equal(place.node, NUMA_UNKNOWN);
	assert_int_equal(kernel.cores_set + kernel.policies_set, 0);
}

/* taskset, a cpuset or systemd; numactl. */
UNIT_TEST(who_started_the_process_decides_before, machine)
{
	has_cores(0, 3);
	assert_says(settle().words,
		    "threads stay on the cores that the process was bound to, memory "
		    "is taken there");
	assert_int_equal(kernel.cores_set, 0);
	has_cores(0, 7);
	kernel.policies_set = 0;
	kernel.policy = MPOL_INTERLEAVE;
	assert_says(settle().words,
		    "threads run on its cores, memory is taken by the policy that was "
		    "set");
	assert_int_equal(kernel.policies_set, 0);
	assert_int_equal(kernel.cores_set, 1);
}

UNIT_TEST(what_cannot_be_had_is_said, machine)
{
	put("devices/system/node/node1/cpulist", "\n"); /* a node of memory only */
	assert_says(settle().words, "threads run anywhere, since that node has no cores");
	put("devices/system/node/node1/cpulist", "6-2\n");
	assert_says(settle().words, "threads run anywhere");
	put("devices/system/node/node1/cpulist", "2-3\n");
	kernel.fail_cores = EINVAL;
	assert_says(settle().words, "threads run anywhere, since binding them failed");
	assert_int_equal(kernel.cores_set, 0);
	kernel.fail_cores = 0;
	kernel.fail_policy = EPERM; /* as in a container */
	assert_says(settle().words,
		    "threads run on its cores, memory is taken near the threads, since "
		    "set_mempolicy failed: Operation not permitted");
	assert_says(settle().words, "numactl --preferred=1");
	assert_says(settle().words, "CAP_SYS_NICE)");
}

static char *base;

/* From 6 MiB on at node 0; of one page the kernel knows nothing. */
static int node_of(const void *page)
{
	size_t at = (size_t)((const char *)page - base);

	return at == 8 * MIB ? -ENOENT : at >= 6 * MIB ? 0 : 1;
}

UNIT_TEST(memory_elsewhere_is_counted, machine)
{
	base = mmap(NULL, 700 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(base, MAP_FAILED);
	kernel.node_of = node_of;
	assert_int_equal(numa_elsewhere(base, 6 * MIB, 1), 0);
	assert_int_equal(numa_elsewhere(base, 7 * MIB, 1), MIB);
	assert_int_equal(numa_elsewhere(base, 10 * MIB, 1), 2 * MIB);
	assert_int_equal(numa_elsewhere(base, 6 * MIB, 0), 6 * MIB);
	kernel.looks = 0;
	assert_int_equal(numa_elsewhere(base, 700 * MIB, 1), 692 * MIB);
	assert_int_equal(kernel.looks, 350);
	assert_int_equal(numa_elsewhere(base, 700 * MIB, NUMA_UNKNOWN), 0);
	kernel.mute = true;
	assert_int_equal(numa_elsewhere(base, 700 * MIB, 1), 0);
	munmap(base, 700 * MIB);
}

int main(void)
{
	return unit_run(folder_make, folder_remove);
}
