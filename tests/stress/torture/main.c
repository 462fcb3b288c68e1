/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * torture: as rcutorture does for a kernel's RCU, it counts grace periods under readers. One
 * process with a whole server, its writers and its local readers; a nursery (nursery.c) with the
 * others.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/stress/torture/torture.h"

#define COUNT_VALUE_MIN 1024u /* for --gets */
#define COUNT_VALUE_MAX 8000u

static void seats(struct shared *s, enum role role, uint64_t n)
{
	for (unsigned i = 0; i < n; i++)
		shared_seat(s, role, role != ROLE_WRITE && i % 2, i / 2 % 2 == 0);
}

static int share(struct shared *s)
{
	struct options *o = &s->o;
	uint64_t used;

	if (o->gets)
		o->locals = o->hinters = o->clients = 0;
	o->disturb = !o->gets;
	used = o->keys + o->clients * CLIENT_KEYS;
	s->model = model_create(o->seed, (uint32_t)(used << (KEYS_PREFIX_BITS + 1)));
	s->pipe = pipe_create(o->memory_bytes);
	s->key = mmap(NULL, used * sizeof(*s->key), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!s->model || !s->pipe || s->key == MAP_FAILED)
		return -ENOMEM;
	if (o->gets) {
		s->model->value_min = COUNT_VALUE_MIN;
		s->model->value_max = COUNT_VALUE_MAX;
	}
	seats(s, o->gets ? ROLE_COUNT : ROLE_INDEX, o->readers);
	seats(s, ROLE_HINT, o->hinters);
	seats(s, ROLE_WRITE, o->clients); /* last: client_writer.c counts from there */
	return 0;
}

static int fork_nursery(struct shared *s)
{
	pid_t pid = shared_fork();

	if (pid == 0)
		nursery_main(s);
	watch_server(s->pipe, strcmp(s->o.lie, "free") == 0 ? WATCH_FREE_EARLY : WATCH_HONEST);
	return pid < 0 ? pid : 0;
}

int main(int argc, char **argv)
{
	static const struct face face = {
		.name = "torture",
		.level = LOG_ERROR,
		.grace_s = MET_S + 60,
		.long_one_in = 64,
		.options = torture_options,
		.share = share,
		.fork = fork_nursery,
		.run = torture_run,
		.pick = torture_pick,
		.write = torture_write,
		.published = torture_published,
	};

	return home_main(&face, argc, argv);
}
