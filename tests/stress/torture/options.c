/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <stdlib.h>

#include "tools/lib/program.h"

#include "tests/stress/torture/torture.h"

static struct options given = {
	.seconds = 20,
	.keys = 12000,
	.keep = 500,
	.hot = 16,
	.memory_bytes = 64ull << 20,
	.lease_ms = 250,
	.patience_ms = 5000,
	.writers = 2,
	.locals = 1,
	.readers = 3,
	.hinters = 2,
	.clients = 1,
	.weak = 1,
	.lie = "none",
};

#define LIES "none|free"

static const struct program_option options[] = {
	{ "seed", 's', PROGRAM_NUMBER, .value = &given.seed, .min = 1, .max = UINT64_MAX },
	{ "seconds", 't', PROGRAM_NUMBER, .value = &given.seconds, .min = 1, .max = 86400 },
	{ "keys", 'k', PROGRAM_NUMBER, .value = &given.keys, .min = 2, .max = 1000000 },
	{ "keep", 'K', PROGRAM_NUMBER, .value = &given.keep, .min = 1, .max = 1000000 },
	{ "hot", 'H', PROGRAM_NUMBER, .value = &given.hot, .min = 1, .max = 1000000 },
	{ "memory", 'M', PROGRAM_SIZE, .value = &given.memory_bytes, .min = 12 << 20,
	  .max = 1ull << 30 },
	{ "lease", 'e', PROGRAM_NUMBER, .value = &given.lease_ms, .min = 10, .max = 600000 },
	{ "writers", 'w', PROGRAM_NUMBER, .value = &given.writers, .min = 1, .max = 6 },
	{ "locals", 'l', PROGRAM_NUMBER, .value = &given.locals, .min = 0, .max = LOCALS_MAX },
	{ "readers", 'r', PROGRAM_NUMBER, .value = &given.readers, .min = 0, .max = 8 },
	{ "hinters", 'i', PROGRAM_NUMBER, .value = &given.hinters, .min = 0, .max = 6 },
	{ "clients", 'c', PROGRAM_NUMBER, .value = &given.clients, .min = 0, .max = 2 },
	{ "gets", 'g', PROGRAM_NUMBER, .value = &given.gets, .min = 1, .max = UINT64_MAX },
	{ "weak", 'W', PROGRAM_NUMBER, .value = &given.weak, .min = 0, .max = 1000000 },
	{ "pace", 'p', PROGRAM_NUMBER, .value = &given.pace_us, .min = 0, .max = 1000000 },
	{ "used-up", 'u', PROGRAM_NUMBER, .value = &given.used_up, .min = 0, .max = 1000000 },
	{ "lie", 'L', PROGRAM_CHOICE, .value = &given.lie, .words = LIES },
	{ NULL },
};

static const struct program program = {
	.name = "torture",
	.usage =
		"Usage: torture [OPTIONS]\n\n"
		"A server whose memory is reused as fast as its grace periods allow, under readers that\n"
		"hold on to what they found, stand still and die; none may be overtaken. README.md beside\n"
		"its source says how.\n\n"
		"  -s, --seed N       of all choices [from the system; printed]\n"
		"  -t, --seconds N    then it ends [20]\n"
		"  -k, --keys N       that the table grows to [12000]\n"
		"  -K, --keep N       that it shrinks to, again and again [500]\n"
		"  -H, --hot N        keys that are overwritten most [16]\n"
		"  -M, --memory SIZE  of the server [64M]\n"
		"  -e, --lease MS     [250]\n"
		"  -w, --writers N    1 to 6 [2]\n"
		"  -l, --locals N     local readers, 0 to 8 [1]\n"
		"  -r, --readers N    processes that read by the index, 0 to 8 [3]\n"
		"  -i, --hinters N    processes that read by hints, 0 to 6 [2]\n"
		"  -c, --clients N    processes that write by RPC, 0 to 2 [1]\n"
		"  -g, --gets N       nothing but so many look-ups of the hot keys, by --readers processes,\n"
		"                     in values of some KiB, while --writers overwrite them\n"
		"  -W, --weak N       seed of SOFTRDMA_WEAK in every other process, 0: in none [1]\n"
		"  -p, --pace US      that a writer rests after a few writes: the slower, the fewer addresses\n"
		"                     are in use [0]\n"
		"  -u, --used-up N    some blocks have so many incarnations left, some segments one;\n"
		"                     0: all have all [0]\n"
		"  -L, --lie WHAT     do one thing wrong behind the checks' back, to see it found:\n"
		"                     " LIES "\n\n"
		"In a build with -Dmutants=true, $GRACEKV_MUTANT breaks a rule of the protocol.\n\n"
		"Exit status: 0 all was right; 1 something was wrong; 2 wrong usage; 3 it could not run.\n",
	.options = options,
};

/* Whether a rule was to be broken in a build that keeps them all, and so finds nothing. */
static bool mutant_in_vain(void)
{
#ifdef GRACEKV_MUTANTS
	return false;
#else
	const char *name = getenv("GRACEKV_MUTANT");

	return name && *name;
#endif
}

int torture_options(struct options *o, int argc, char **argv, int *status)
{
	int rc = program_options(&program, argc, argv, status);

	if (rc == 0 && (given.keep >= given.keys || given.hot > given.keep)) {
		program_failed(&program, "usage", "there must be --hot <= --keep < --keys");
		*status = 2;
		return -1;
	}
	if (rc == 0 && mutant_in_vain()) {
		program_failed(&program, "$GRACEKV_MUTANT",
			       "this build breaks no rule (meson setup -Dmutants=true)");
		*status = 2;
		return -1;
	}
	*o = given;
	return rc;
}
