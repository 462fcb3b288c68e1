/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/lib/unit.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TESTS_MAX 64

static struct CMUnitTest tests[TESTS_MAX];
static unsigned lines[TESTS_MAX];
static size_t count;

/* Constructors come in an order of the compiler's choice. */
void unit_add(unsigned line, const char *name, CMUnitTestFunction test,
	      const CMFixtureFunction *fixtures)
{
	size_t at = count++;

	assert(count <= TESTS_MAX);
	for (; at > 0 && lines[at - 1] > line; at--) {
		tests[at] = tests[at - 1];
		lines[at] = lines[at - 1];
	}
	tests[at] = (struct CMUnitTest){ name, test, fixtures[0], fixtures[1], NULL };
	lines[at] = line;
}

int unit_run(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
	assert(count > 0);
	return _cmocka_run_group_tests("tests", tests, count, set_up, tear_down);
}

uint64_t unit_state;

int unit_seed(void **state)
{
	const char *given = getenv("TEST_SEED");

	(void)state;
	unit_state =
		given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
	print_message("TEST_SEED=%llu\n", (unsigned long long)unit_state);
	return 0;
}
