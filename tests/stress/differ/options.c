/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/program.h"

#include "tests/stress/differ/differ.h"

static struct differ_options given = { .keys = 600, .seconds = 15, .lie = "none" };

static const struct program_option options[] = {
	{ "seed", 's', PROGRAM_NUMBER, .value = &given.seed, .min = 1, .max = UINT64_MAX },
	{ "keys", 'k', PROGRAM_NUMBER, .value = &given.keys, .min = DIFFER_TWINS + 8,
	  .max = 20000 },
	{ "seconds", 't', PROGRAM_NUMBER, .value = &given.seconds, .min = 1, .max = 86400 },
	{ "weak", 'W', PROGRAM_NUMBER, .value = &given.weak, .min = 0, .max = 1000000 },
	{ "lie", 'L', PROGRAM_CHOICE, .value = &given.lie, .words = LIES },
	{ NULL },
};

static const struct program program = {
	.name = "differ",
	.usage =
		"Usage: differ [OPTIONS]\n\n"
		"Random operations through the public API, each answer compared with that of a model in\n"
		"memory. README.md in the folder above its source says how.\n\n"
		"  -s, --seed N     of all choices [from the system; printed]\n"
		"  -k, --keys N     [600]\n"
		"  -t, --seconds N  [15]\n"
		"  -W, --weak N     seed of SOFTRDMA_WEAK, here and in the server; 0: a kind device [0]\n"
		"  -L, --lie WHAT   change one kind of answer behind the model's back, to see it found:\n"
		"                   " LIES "\n\n"
		"Exit status: 0 all was right; 1 a wrong answer; 2 wrong usage; 3 it could not run.\n",
	.options = options,
};

int differ_options_take(struct differ_options *o, int argc, char **argv, int *status)
{
	int rc = program_options(&program, argc, argv, status);

	*o = given;
	return rc;
}
