/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Which rules $GRACEKV_MUTANT names; built with mutants in every build. A process for each list. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/mutant.h"
#include "tests/lib/unit.h"

#define NO_SUCH	 2 /* the exit status */
#define NONE	 8
#define GRACE	 16
#define CHECKSUM 32

static int named(void)
{
	for (unsigned i = 0; i < MUTANT_COUNT; i++) {
		if (mutant_on((enum mutant)i) && i != MUTANT_no_grace && i != MUTANT_no_checksum)
			return 1;
	}
	return NONE | (MUTANT(no_grace) ? GRACE : 0) | (MUTANT(no_checksum) ? CHECKSUM : 0);
}

/* What @list switches on; NO_SUCH: it ends the program. */
static int switched_on(const char *list)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (list)
			setenv("GRACEKV_MUTANT", list, 1);
		else
			unsetenv("GRACEKV_MUTANT");
		_exit(named());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status) & ~NONE;
}

UNIT_TEST(lists)
{
	assert_int_equal(switched_on(NULL), 0);
	assert_int_equal(switched_on(""), 0);
	assert_int_equal(switched_on("no_grace"), GRACE);
	assert_int_equal(switched_on("no_grace,no_checksum"), GRACE | CHECKSUM);
	assert_int_equal(switched_on("no_checksum,no_grace"), GRACE | CHECKSUM);
	assert_int_equal(switched_on("no_grace,no_grace"), GRACE);
}

UNIT_TEST(names_that_there_are_not)
{
	for (const char *const *bad =
		     (const char *const[]){ "no", "no_grac", "no_graces", "no_grace,", ",no_grace",
					    ",", "no_grace,,no_checksum", "no_grace, no_checksum",
					    "no_grace,none", "no_grace no_checksum", NULL };
	     *bad; bad++)
		assert_int_equal(switched_on(*bad), NO_SUCH);
}
