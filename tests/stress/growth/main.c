/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* stress: the table grows and shrinks under readers, and every answer is judged. */
#include <errno.h>

#include "tests/stress/growth/growth.h"
#include "tools/lib/option_rows.h"

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

#define OPTION_BASE given

static const struct program_option options[] = {
	NUMBER("seed", 's', "N", seed, 1, UINT64_MAX, "of all choices [from the system; printed]"),
	NUMBER("keys", 'k', "N", keys, 2, 100000000, "that the table grows to [1000000]"),
	NUMBER("keep", 'K', "N", keep, 1, 1000000, "that it shrinks to [1000]"),
	SIZE("memory", 'M', memory_bytes, 8 << 20, 1ull << 40, "of the server [2G]"),
	NUMBER("slots", 'S', "N", slots, 0, 1u << 30,
	       "an index of this size to begin with, which need not grow"),
	NUMBER("writers", 'w', "N", writers, 1, MODEL_WRITERS, "1 to 8 [2]"),
	NUMBER("locals", 'l', "N", locals, 0, LOCALS_MAX, "local readers, 0 to 8 [1]"),
	NUMBER("remotes", 'r', "N", remotes, 0, REMOTES_MAX,
	       "remote readers, processes, 0 to 8 [4]"),
	NUMBER("rounds", 'n', "N", rounds, 0, 1000, "of growing, shrinking, growing, ... [3]"),
	NUMBER("used-up", 'u', "N", used_up, 0, 1000000,
	       "some blocks have so many incarnations left, some segments one; 0: all have all "
	       "[0]"),
	NUMBER("weak", 'W', "N", weak, 0, 1000000,
	       "seed of SOFTRDMA_WEAK in half of them, 0: in none [1]"),
	NUMBER("disturb", 'd', "0|1", disturb, 0, 1,
	       "interrupt threads at random moments for up to 4 ms [1]"),
	CHOICE("lie", 'L', "WHAT", lie, LIES,
	       "do one thing wrong behind the judge's back, to see it found: " LIES),
	NUMBER("seconds", 't', "N", seconds, 1, 86400, "then the watchdog ends it [600]"),
	{ NULL },
};

static const struct program program = {
	.name = "stress",
	.usage = "Usage: stress [OPTIONS]\n\n"
		 "A server that grows and shrinks under writers, local readers and remote readers; "
		 "every\n"
		 "answer is judged. README.md beside its source says how.\n\n",
	.notes = "\n"
		 "Exit status: 0 all was right; 1 wrong answers; 2 wrong usage; 3 it could not "
		 "run.\n",
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
