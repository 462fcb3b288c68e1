/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the process of a test has, as /proc says. */
#include "tests/lib/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

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
