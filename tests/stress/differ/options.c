/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/option_rows.h"

#include "tests/stress/differ/differ.h"

static struct differ_options given = { .keys = 600, .seconds = 15, .lie = "none" };

#define OPTION_BASE given

static const struct program_option options[] = {
	NUMBER("seed", 's', "N", seed, 1, UINT64_MAX, "of all choices [from the system; printed]"),
	NUMBER("keys", 'k', "N", keys, DIFFER_TWINS + 8, 20000, "[600]"),
	NUMBER("seconds", 't', "N", seconds, 1, 86400, "[15]"),
	NUMBER("weak", 'W', "N", weak, 0, 1000000,
	       "seed of SOFTRDMA_WEAK, here and in the server; 0: a kind device [0]"),
	CHOICE("lie", 'L', "WHAT", lie, LIES,
	       "change one kind of answer behind the model's back, to see it found: " LIES),
	{ NULL },
};

static const struct program program = {
	.name = "differ",
	.usage = "Usage: differ [OPTIONS]\n\n"
		 "Random operations through the public API, each answer compared with that of a "
		 "model in\n"
		 "memory. README.md in the folder above its source says how.\n\n",
	.notes = "\n"
		 "Exit status: 0 all was right; 1 a wrong answer; 2 wrong usage; 3 it could not "
		 "run.\n",
	.options = options,
};

int differ_options_take(struct differ_options *o, int argc, char **argv, int *status)
{
	int rc = program_options(&program, argc, argv, status);

	*o = given;
	return rc;
}
