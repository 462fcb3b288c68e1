/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/numa.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/error.h"

#define NODES_MAX     1024
#define LOOK_BYTES    (2u << 20)
#define LOOKS_AT_ONCE 128u
#define LIST_MAX      4096

/* The first line of a file of sysfs. False: there is none. */
static bool line_of(char *text, size_t cap, const char *path, ...)
	__attribute__((format(printf, 3, 4)));

static bool line_of(char *text, size_t cap, const char *path, ...)
{
	char whole[512];
	va_list ap;
	bool got;
	FILE *f;

	va_start(ap, path);
	vsnprintf(whole, sizeof(whole), path, ap);
	va_end(ap);
	f = fopen(whole, "re");
	got = f && fgets(text, (int)cap, f);
	if (f)
		fclose(f);
	if (got)
		text[strcspn(text, "\n")] = '\0';
	return got;
}

/* "0-3,8" as a set. False: it is no such list, or names what a set does not hold. */
static bool list_parse(const char *text, cpu_set_t *out)
{
	CPU_ZERO(out);
	while (*text) {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (end == text)
			return false;
		if (*end == '-') {
			text = end + 1;
			last = strtoul(text, &end, 10);
			if (end == text)
				return false;
		}
		if (last < first || last >= CPU_SETSIZE || (*end && *end != ','))
			return false;
		for (unsigned long i = first; i <= last; i++)
			CPU_SET(i, out);
		text = *end ? end + 1 : end;
	}
	return true;
}

static bool list_of(const char *root, const char *name, cpu_set_t *out)
{
	char text[LIST_MAX];

	return line_of(text, sizeof(text), "%s/sys/devices/system/%s", root, name) &&
	       list_parse(text, out);
}

/* Threads to @node's cores. Returns what came of it, in words. */
static const char *settle_threads(const char *root, int node)
{
	cpu_set_t online, mine, cores;
	char name[48];

	snprintf(name, sizeof(name), "node/node%d/cpulist", node);
	if (!list_of(root, "cpu/online", &online) || sched_getaffinity(0, sizeof(mine), &mine))
		return "threads run anywhere, since this machine does not tell its cores";
	if (!CPU_EQUAL(&online, &mine))
		return "threads stay on the cores that the process was bound to";
	if (!list_of(root, name, &cores) || CPU_COUNT(&cores) == 0)
		return "threads run anywhere, since that node has no cores";
	if (sched_setaffinity(0, sizeof(cores), &cores))
		return "threads run anywhere, since binding them failed";
	return "threads run on its cores";
}

/* Memory from @node. The same. */
static const char *settle_memory(int node, char *words, size_t cap)
{
	unsigned long nodes[NODES_MAX / 8 / sizeof(long)] = { 0 };
	int policy = MPOL_DEFAULT;

	nodes[(size_t)node / (8 * sizeof(long))] = 1ul << ((size_t)node % (8 * sizeof(long)));
	if (syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0) == 0 && policy != MPOL_DEFAULT)
		return "memory is taken by the policy that was set for the process";
	if (syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes, NODES_MAX) == 0)
		return "memory is taken there while it has some";
	snprintf(words, cap,
		 "memory is taken near the threads, since set_mempolicy failed: %s (numactl "
		 "--preferred=%d does the same; a container needs CAP_SYS_NICE)",
		 error_name(errno), node);
	return words;
}

void numa_settle(const char *root, const char *device, int node, struct numa_place *out)
{
	char words[160];
	const char *threads, *memory;
	cpu_set_t nodes;

	*out = (struct numa_place){ .node = NUMA_UNKNOWN };
	if (node < 0 || node >= NODES_MAX || !list_of(root, "node/online", &nodes) ||
	    CPU_COUNT(&nodes) < 2 || !CPU_ISSET(node, &nodes))
		return;
	threads = settle_threads(root, node);
	memory = settle_memory(node, words, sizeof(words));
	out->node = node;
	snprintf(out->words, sizeof(out->words), "%s is at NUMA node %d: %s, %s", device, node,
		 threads, memory);
}

uint64_t numa_elsewhere(const void *addr, size_t bytes, int node)
{
	const char *at = addr;
	size_t left = bytes;
	uint64_t away = 0;

	while (left && node >= 0) {
		int status[LOOKS_AT_ONCE];
		void *page[LOOKS_AT_ONCE];
		unsigned long n = 0;

		for (size_t i = 0; n < LOOKS_AT_ONCE && i < left; i += LOOK_BYTES)
			page[n++] = (void *)(uintptr_t)(at + i);
		if (syscall(SYS_move_pages, 0, n, page, NULL, status, 0))
			return 0;
		for (unsigned long i = 0; i < n; i++) {
			size_t piece = left < LOOK_BYTES ? left : LOOK_BYTES;

			if (status[i] >= 0 && status[i] != node)
				away += piece;
			at += piece;
			left -= piece;
		}
	}
	return away;
}
