/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* stress: the table grows and shrinks under readers, and every answer is judged. */
#include <errno.h>

#include "tests/stress/growth/growth.h"
#include "tools/lib/program.h"

#define REMOTES_MAX 8u

static struct options given = {
	.keys = 1000000,
	.keep = 1000,
	.memory_bytes = 2ull << 30,
	.writers = 2,
	.locals = 1,
	.remotes = 4,
	.rounds = 3,
	.seconds = 600,
	.weak = 1,
	.disturb = 1,
	.lie = "none",
	.patience_ms = 30000,
};

#define LIES "none|miss|stale|early|foreign|torn|twice"

static const struct program_option options[] = {
	{ "seed", 's', PROGRAM_NUMBER, .value = &given.seed, .min = 1, .max = UINT64_MAX },
	{ "keys", 'k', PROGRAM_NUMBER, .value = &given.keys, .min = 2, .max = 100000000 },
	{ "keep", 'K', PROGRAM_NUMBER, .value = &given.keep, .min = 1, .max = 1000000 },
	{ "memory", 'M', PROGRAM_SIZE, .value = &given.memory_bytes, .min = 8 << 20,
	  .max = 1ull << 40 },
	{ "slots", 'S', PROGRAM_NUMBER, .value = &given.slots, .min = 0, .max = 1u << 30 },
	{ "writers", 'w', PROGRAM_NUMBER, .value = &given.writers, .min = 1, .max = MODEL_WRITERS },
	{ "locals", 'l', PROGRAM_NUMBER, .value = &given.locals, .min = 0, .max = LOCALS_MAX },
	{ "remotes", 'r', PROGRAM_NUMBER, .value = &given.remotes, .min = 0, .max = REMOTES_MAX },
	{ "rounds", 'n', PROGRAM_NUMBER, .value = &given.rounds, .min = 0, .max = 1000 },
	{ "used-up", 'u', PROGRAM_NUMBER, .value = &given.used_up, .min = 0, .max = 1000000 },
	{ "weak", 'W', PROGRAM_NUMBER, .value = &given.weak, .min = 0, .max = 1000000 },
	{ "disturb", 'd', PROGRAM_NUMBER, .value = &given.disturb, .min = 0, .max = 1 },
	{ "lie", 'L', PROGRAM_CHOICE, .value = &given.lie, .words = LIES },
	{ "seconds", 't', PROGRAM_NUMBER, .value = &given.seconds, .min = 1, .max = 86400 },
	{ NULL },
};

static const struct program program = {
	.name = "stress",
	.usage =
		"Usage: stress [OPTIONS]\n\n"
		"A server that grows and shrinks under writers, local readers and remote readers; every\n"
		"answer is judged. README.md beside its source says how.\n\n"
		"  -s, --seed N       of all choices [from the system; printed]\n"
		"  -k, --keys N       that the table grows to [1000000]\n"
		"  -K, --keep N       that it shrinks to [1000]\n"
		"  -n, --rounds N     of growing, shrinking, growing, ... [3]\n"
		"  -M, --memory SIZE  of the server [2G]\n"
		"  -S, --slots N      an index of this size to begin with, which need not grow\n"
		"  -w, --writers N    1 to 8 [2]\n"
		"  -l, --locals N     local readers, 0 to 8 [1]\n"
		"  -r, --remotes N    remote readers, processes, 0 to 8 [4]\n"
		"  -W, --weak N       seed of SOFTRDMA_WEAK in half of them, 0: in none [1]\n"
		"  -u, --used-up N    some blocks have so many incarnations left, some segments one;\n"
		"                     0: all have all [0]\n"
		"  -d, --disturb 0|1  interrupt threads at random moments for up to 4 ms [1]\n"
		"  -L, --lie WHAT     do one thing wrong behind the judge's back, to see it found:\n"
		"                     " LIES "\n"
		"  -t, --seconds N    then the watchdog ends it [600]\n\n"
		"Exit status: 0 all was right; 1 wrong answers; 2 wrong usage; 3 it could not run.\n",
	.options = options,
};

static int take_options(struct options *o, int argc, char **argv, int *status)
{
	int rc = program_options(&program, argc, argv, status);

	if (rc == 0 && given.keep >= given.keys) {
		program_failed(&program, "usage", "--keep must be below --keys");
		*status = 2;
		return -1;
	}
	*o = given;
	return rc;
}

uint32_t growth_pick(const struct shared *s, uint64_t *random)
{
	uint64_t r = model_random(random);
	uint32_t frontier = 1, near = 512, first;

	for (unsigned w = 0; w < s->o.writers; w++) {
		uint32_t f = atomic_load_explicit(&s->frontier[w], memory_order_relaxed);

		frontier = f > frontier ? f : frontier;
	}
	first = frontier > near ? frontier - near : 0;
	switch (r & 3) {
	case 0: /* one that stays */
		return (uint32_t)(((r >> 2) % s->o.keep) % s->o.keys);
	case 1: /* one of those that come and go now */
		return (uint32_t)((first + (r >> 2) % (2 * near)) % s->o.keys);
	default:
		return (uint32_t)((r >> 2) % frontier);
	}
}

static int share(struct shared *s)
{
	/* With few readers the first ones. */
	static const struct {
		enum role role;
		bool stays, weak;
	} seats[REMOTES_MAX] = {
		{ ROLE_GET, true, false },  { ROLE_MGET, false, true }, { ROLE_SCAN, false, false },
		{ ROLE_GET, false, true },  { ROLE_MGET, true, false }, { ROLE_SCAN, false, true },
		{ ROLE_GET, false, false }, { ROLE_MGET, true, true },
	};

	for (unsigned i = 0; i < s->o.remotes; i++)
		shared_seat(s, seats[i].role, seats[i].weak, seats[i].stays);
	s->model = model_create(s->o.seed, (uint32_t)s->o.keys);
	return s->model ? 0 : -ENOMEM;
}

static int fork_remotes(struct shared *s)
{
	for (unsigned i = 0; i < s->seats; i++) {
		pid_t pid = shared_fork();

		if (pid < 0)
			return pid;
		if (pid == 0)
			growth_remote(s, i);
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct face face = {
		.name = "stress",
		.level = LOG_WARN,
		.long_one_in = 512,
		.options = take_options,
		.share = share,
		.fork = fork_remotes,
		.run = growth_run,
		.pick = growth_pick,
		.write = growth_write,
		.published = growth_published,
	};

	return home_main(&face, argc, argv);
}
