/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/machine.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define DIGITS "0123456789"

uint64_t machine_memory(void)
{
	char line[128];
	uint64_t kib = 0;
	FILE *f = fopen("/proc/meminfo", "r");

	while (f && kib == 0 && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) != 1)
			kib = 0;
	}
	if (f)
		fclose(f);
	return kib << 10;
}

int machine_numbers(const char *release)
{
	size_t len = strspn(release, DIGITS), more = 0;

	if (release[len] == '.')
		more = strspn(release + len + 1, DIGITS);
	return (int)(more ? len + 1 + more : len);
}

void machine_describe(char text[160])
{
	char line[256], model[80] = "";
	FILE *f = fopen("/proc/cpuinfo", "r");
	struct utsname kernel = { 0 };
	cpu_set_t set;
	int cores = 0;

	while (f && !model[0] && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "model name : %79[^\n]", model) != 1)
			model[0] = 0;
	}
	if (f)
		fclose(f);
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		cores = CPU_COUNT(&set);
	uname(&kernel);
	snprintf(text, 160, "%d cores%s%s, %.20s %.*s", cores, model[0] ? " of " : "", model,
		 kernel.sysname, machine_numbers(kernel.release), kernel.release);
}
