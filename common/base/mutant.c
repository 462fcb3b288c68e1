/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/mutant.h"

#ifdef GRACEKV_MUTANTS
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/time.h"

static const char *const names[MUTANT_COUNT] = {
#define MUTANT_NAME(name, words) #name,
	MUTANTS(MUTANT_NAME)
#undef MUTANT_NAME
};

static const char *const rules[MUTANT_COUNT] = {
#define MUTANT_RULE(name, words) words,
	MUTANTS(MUTANT_RULE)
#undef MUTANT_RULE
};

static bool chosen[MUTANT_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool choose_one(const char *name, size_t len)
{
	for (unsigned i = 0; i < MUTANT_COUNT; i++) {
		if (strlen(names[i]) != len || memcmp(name, names[i], len) != 0)
			continue;
		if (!chosen[i])
			fprintf(stderr, "mutant %s: %s\n", names[i], rules[i]);
		chosen[i] = true;
		return true;
	}
	return false;
}

static void choose(void)
{
	const char *name = getenv("GRACEKV_MUTANT");

	if (!name || !*name)
		return;
	for (;;) {
		size_t len = strcspn(name, ",");

		if (!choose_one(name, len)) {
			fprintf(stderr,
				"GRACEKV_MUTANT: there is no mutant \"%.*s\"; there are, with "
				"commas between several:\n",
				(int)len, name);
			break;
		}
		if (!name[len])
			return;
		name += len + 1;
	}
	for (unsigned i = 0; i < MUTANT_COUNT; i++)
		fprintf(stderr, "  %-18s %s\n", names[i], rules[i]);
	exit(2);
}

bool mutant_on(enum mutant m)
{
	pthread_once(&once, choose);
	return chosen[m];
}

void mutant_linger(unsigned us)
{
	time_sleep(us * 1000ull);
}

/* CLOCK_BOOTTIME is read for leases alone. */
static int (*read_true)(clockid_t clock, struct timespec *now);
static uint64_t skew_from_ns;

static int read_skewed(clockid_t clock, struct timespec *now)
{
	const int rc = read_true(clock, now);
	uint64_t ns, tenth;

	if (rc || clock != CLOCK_BOOTTIME)
		return rc;
	ns = (uint64_t)now->tv_sec * NS_PER_S + (uint64_t)now->tv_nsec;
	tenth = (ns - skew_from_ns) / 10;
	ns += chosen[MUTANT_fast_clock] ? tenth : -tenth;
	*now = (struct timespec){ (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };
	return 0;
}

__attribute__((constructor)) static void skew(void)
{
	if (!getenv("GRACEKV_MUTANT") ||
	    (!mutant_on(MUTANT_fast_clock) && !mutant_on(MUTANT_slow_clock)))
		return;
	skew_from_ns = time_read_ns(CLOCK_BOOTTIME);
	read_true = time_table.read;
	time_table.read = read_skewed;
}
#endif
