/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/mutant.h"

#ifdef GRACEKV_MUTANTS
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static enum mutant chosen = MUTANT_COUNT; /* none */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose(void)
{
	const char *name = getenv("GRACEKV_MUTANT");

	if (!name || !*name)
		return;
	for (unsigned i = 0; i < MUTANT_COUNT; i++) {
		if (strcmp(name, names[i]) == 0)
			chosen = (enum mutant)i;
	}
	if (chosen != MUTANT_COUNT) {
		fprintf(stderr, "mutant %s: %s\n", name, rules[chosen]);
		return;
	}
	fprintf(stderr, "GRACEKV_MUTANT=%s: there is no such mutant; there are:\n", name);
	for (unsigned i = 0; i < MUTANT_COUNT; i++)
		fprintf(stderr, "  %-18s %s\n", names[i], rules[i]);
	exit(2);
}

bool mutant_on(enum mutant m)
{
	pthread_once(&once, choose);
	return chosen == m;
}

void mutant_linger(unsigned us)
{
	usleep(us);
}
#endif
