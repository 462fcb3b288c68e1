/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <stdlib.h>

#include "tools/lib/option_rows.h"

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

#define OPTION_BASE given

static const struct program_option options[] = {
	NUMBER("seed", 's', "N", seed, 1, UINT64_MAX, "of all choices [from the system; printed]"),
	NUMBER("seconds", 't', "N", seconds, 1, 86400,
	       "then it ends, or later if it has not met all that it is to meet [20]"),
	NUMBER("keys", 'k', "N", keys, 2, 1000000, "that the table grows to [12000]"),
	NUMBER("keep", 'K', "N", keep, 1, 1000000, "that it shrinks to, again and again [500]"),
	NUMBER("hot", 'H', "N", hot, 1, 1000000, "keys that are overwritten most [16]"),
	SIZE("memory", 'M', memory_bytes, 12 << 20, 1ull << 30, "of the server [64M]"),
	NUMBER("lease", 'e', "MS", lease_ms, 10, 600000, "[250]"),
	NUMBER("writers", 'w', "N", writers, 1, 6, "1 to 6 [2]"),
	NUMBER("locals", 'l', "N", locals, 0, LOCALS_MAX, "local readers, 0 to 8 [1]"),
	NUMBER("readers", 'r', "N", readers, 0, 8, "processes that read by the index, 0 to 8 [3]"),
	NUMBER("hinters", 'i', "N", hinters, 0, 6, "processes that read by hints, 0 to 6 [2]"),
	NUMBER("clients", 'c', "N", clients, 0, 2, "processes that write by RPC, 0 to 2 [1]"),
	NUMBER("gets", 'g', "N", gets, 1, UINT64_MAX,
	       "nothing but so many look-ups of the hot keys, by --readers processes, in values of "
	       "some KiB, while --writers overwrite them"),
	NUMBER("weak", 'W', "N", weak, 0, 1000000,
	       "seed of SOFTRDMA_WEAK in every other process, 0: in none [1]"),
	NUMBER("pace", 'p', "US", pace_us, 0, 1000000,
	       "that a writer rests after a few writes: the slower, the fewer addresses are in use "
	       "[0]"),
	NUMBER("used-up", 'u', "N", used_up, 0, 1000000,
	       "some blocks have so many incarnations left, some segments one; 0: all have all "
	       "[0]"),
	CHOICE("lie", 'L', "WHAT", lie, LIES,
	       "do one thing wrong behind the checks' back, to see it found: " LIES),
	{ NULL },
};

static const struct program program = {
	.name = "torture",
	.usage =
		"Usage: torture [OPTIONS]\n\n"
		"A server whose memory is reused as fast as its grace periods allow, under readers "
		"that\n"
		"hold on to what they found, stand still and die; none may be overtaken. README.md "
		"beside\n"
		"its source says how.\n\n",
	.notes =
		"\n"
		"In a build with -Dmutants=true, $GRACEKV_MUTANT breaks a rule of the protocol.\n\n"
		"Exit status: 0 all was right; 1 something was wrong; 2 wrong usage; 3 it could "
		"not run.\n",
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
