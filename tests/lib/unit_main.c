/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* For the programs that do nothing but run their tests. */
#include "tests/lib/unit.h"

__attribute__((weak)) const CMFixtureFunction unit_group[2];

__attribute__((weak)) void unit_begin(const char *argument)
{
	if (argument) /* of tests; * and ? as in file names */
		cmocka_set_test_filter(argument);
}

int main(int argc, char **argv)
{
	unit_begin(argc > 1 ? argv[1] : NULL);
	return unit_run(unit_group[0], unit_group[1]);
}
