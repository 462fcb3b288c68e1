/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the process of a test has, as /proc says. */
#include "tests/lib/unit.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/time.h"

#define OWN_THREADS_NS (20 * NS_PER_S)

/* own_descriptors - how many directory entries /proc/self/fd has: one more for each descriptor. */
static inline unsigned own_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* own_threads - how many threads have a name that begins with @name. */
static inline unsigned own_threads(const char *name)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned count = 0;

	assert_non_null(dir);
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		char path[300], comm[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (fgets(comm, sizeof(comm), f) && strncmp(comm, name, strlen(name)) == 0)
			count++;
		fclose(f);
	}
	closedir(dir);
	return count;
}

/*
 * own_threads_end - whether none has such a name, soon: one that was joined stands in /proc until
 * the kernel has done with it.
 */
static inline bool own_threads_end(const char *name)
{
	const uint64_t until_ns = time_now_ns() + OWN_THREADS_NS;

	while (own_threads(name)) {
		if (time_now_ns() >= until_ns)
			return false;
		time_sleep(NS_PER_MS);
	}
	return true;
}
