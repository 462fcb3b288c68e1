/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/ticks.h"

#include <stdio.h>
#include <string.h>

#define CALIBRATE_NS (20 * NS_PER_MS)
#define FLAGS_MAX    8192

struct ticks ticks = { .per_ns = 1, .ns_shifted = 1ull << 32 };

static bool has_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += len) {
		bool starts = at == text || at[-1] == ' ' || at[-1] == '\t' || at[-1] == ':';

		if (starts && (at[len] == ' ' || at[len] == '\n' || !at[len]))
			return true;
	}
	return false;
}

bool ticks_invariant(const char *flags)
{
	return has_word(flags, "constant_tsc") && has_word(flags, "nonstop_tsc");
}

#if defined(__x86_64__)
static bool counter_is_sound(void)
{
	static char line[FLAGS_MAX];
	FILE *f = fopen("/proc/cpuinfo", "r");
	bool sound = false;

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "flags", 5) == 0) {
			sound = ticks_invariant(line);
			break; /* of the first core: the kernel takes them for alike */
		}
	}
	if (f)
		fclose(f);
	return sound;
}
#else
static bool counter_is_sound(void)
{
	return false;
}
#endif

void ticks_init(void)
{
	uint64_t ns, start_ns, start;

	if (!counter_is_sound())
		return;
	ticks.cycles = true;
	start_ns = time_now_ns();
	start = ticks_now();
	do {
		ns = time_now_ns() - start_ns;
	} while (ns < CALIBRATE_NS);
	ticks.per_ns = (double)(ticks_now() - start) / (double)ns;
	ticks.ns_shifted = (uint64_t)(4294967296.0 / ticks.per_ns + 0.5);
}
