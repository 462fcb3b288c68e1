/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * torture: as rcutorture does for a kernel's RCU, it counts grace periods under readers. One
 * process with a whole server, its writers and its local readers; a nursery (nursery.c) with the
 * others.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "tests/stress/torture/run.h"

#define COUNT_VALUE_MIN 1024u /* for --gets */
#define COUNT_VALUE_MAX 8000u
#define GRACE_S		120u /* for all that comes after --seconds */

enum { EXIT_RIGHT = 0, EXIT_WRONG = 1, EXIT_FAILED = 3 };

static struct home home; /* too large for a stack */

static int die(const char *what, const char *why)
{
	fprintf(stderr, "torture: %s: %s\n", what, why);
	return EXIT_FAILED;
}

static void seat(struct shared *s, enum role role, uint64_t n)
{
	static const char *const roles[] = { "index", "hint", "count", "client" };

	for (unsigned i = 0; i < n; i++) {
		struct seat *x = &s->seat[s->seats];

		x->role = role;
		x->weak = s->o.weak && role != ROLE_WRITE && i % 2;
		x->stays = i / 2 % 2 == 0;
		snprintf(x->name, sizeof(x->name), "%s %u%s", roles[role], s->seats,
			 x->weak ? " (weak)" : "");
		s->seats++;
	}
}

static struct shared *shared_create(const struct options *o)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	uint64_t used;

	if (s == MAP_FAILED)
		return NULL;
	s->o = *o;
	if (o->gets)
		s->o.locals = s->o.hinters = s->o.clients = 0;
	used = o->keys + s->o.clients * CLIENT_KEYS;
	s->model = model_create(o->seed, (uint32_t)(used << (KEYS_PREFIX_BITS + 1)));
	s->pipe = pipe_create(o->memory_bytes);
	s->key = mmap(NULL, used * sizeof(*s->key), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!s->model || !s->pipe || s->key == MAP_FAILED)
		return NULL;
	if (o->gets) {
		s->model->value_min = COUNT_VALUE_MIN;
		s->model->value_max = COUNT_VALUE_MAX;
	}
	seat(s, o->gets ? ROLE_COUNT : ROLE_INDEX, s->o.readers);
	seat(s, ROLE_HINT, s->o.hinters);
	seat(s, ROLE_WRITE, s->o.clients); /* last: client_writer.c counts from there */
	return s;
}

static int fork_nursery(struct shared *s)
{
	pid_t parent = getpid(), pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid)
		return 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILED); /* it has gone already */
	nursery_main(s);
}

/* Ends the process, and so all others, when something hangs. */
static void *watch_dog(void *arg)
{
	const struct shared *s = arg;
	struct timespec rest = { (time_t)(s->o.seconds + GRACE_S), 0 };

	while (nanosleep(&rest, &rest) && errno == EINTR)
		;
	fprintf(stderr, "torture: it did not end within %u s of its time\n", GRACE_S);
	_exit(EXIT_FAILED);
}

static int serve_and_run(struct home *h)
{
	pthread_t dog;
	struct error err;
	int rc;

	watch_server(h->s->pipe,
		     strcmp(h->s->o.lie, "free") == 0 ? WATCH_FREE_EARLY : WATCH_HONEST);
	h->server.lease_ms = (unsigned)h->s->o.lease_ms;
	if (server_thread_start(&h->server, h->s->o.memory_bytes, 0, &err))
		return die("starting the server", err.text);
	rc = pthread_create(&dog, NULL, watch_dog, h->s);
	if (rc)
		return die("starting the watchdog", error_name(rc));
	pthread_detach(dog);
	snprintf(h->s->server, sizeof(h->s->server), "%s", h->server.server.bound);
	rc = run_all(h);
	if (server_thread_stop(&h->server))
		return die("stopping the server", h->server.err.text);
	return rc ? die("running", error_name(rc)) : 0;
}

int main(int argc, char **argv)
{
	struct options o;
	int status;

	if (options_take(&o, argc, argv, &status))
		return status;
	if (!o.seed && getrandom(&o.seed, sizeof(o.seed), 0) != sizeof(o.seed))
		return die("getrandom", error_name(errno));
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("torture --seed %" PRIu64 "\n", o.seed);
	log_setup("torture", LOG_ERROR, LOG_TEXT);
	home.s = shared_create(&o);
	if (!home.s)
		return die("shared memory", error_name(ENOMEM));
	home.m = home.s->model;
	if (fork_nursery(home.s))
		return die("fork", error_name(errno));
	status = serve_and_run(&home);
	model_report(home.m);
	return model_wrongs(home.m) ? EXIT_WRONG : status;
}
