/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What reports say of the machine. */
#include <string.h>

#include "tests/lib/unit.h"
#include "tools/lib/machine.h"

static void numbers(const char *release, int wanted)
{
	if (machine_numbers(release) != wanted)
		fail_msg("%d of '%s', not %d", machine_numbers(release), release, wanted);
}

UNIT_TEST(of_a_kernel_two_numbers_are_told)
{
	numbers("6.1.0-18-amd64", 3);
	numbers("6.18.44-fc-v657", 4);
	numbers("10.2", 4);
	numbers("7", 1);
	numbers("7-rc1", 1);
	numbers("6.", 1);
	numbers("", 0);
	numbers("next", 0);
}

UNIT_TEST(no_more_than_those_stands_in_a_report)
{
	char text[160];
	const char *at;

	machine_describe(text);
	at = strstr(text, ", Linux ");
	assert_non_null(at);
	at += strlen(", Linux ");
	assert_int_equal(strlen(at), machine_numbers(at));
	assert_true(machine_memory() > 0);
}
