/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * stress: one process with a whole server, its writers and its local readers, and processes that
 * read remotely. The latter are forked first, while there is one thread and no device.
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
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "tests/stress/home.h"

enum { EXIT_RIGHT = 0, EXIT_WRONG = 1, EXIT_FAILED = 3 };

static struct home home; /* too large for a stack */

static int die(const char *what, const char *why)
{
	fprintf(stderr, "stress: %s: %s\n", what, why);
	return EXIT_FAILED;
}

static struct shared *shared_create(const struct options *o)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (s == MAP_FAILED)
		return NULL;
	s->o = *o;
	s->model = model_create(o->seed, (uint32_t)o->keys);
	return s->model ? s : NULL;
}

static int fork_remotes(struct shared *s)
{
	pid_t parent = getpid();

	fflush(stdout);
	for (unsigned i = 0; i < s->o.remotes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return -errno;
		if (pid)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(EXIT_FAILED); /* it has gone already */
		remote_main(s, i);
	}
	return 0;
}

/* Ends the process, and so the remote readers, when the time is over. */
static void *watch_dog(void *arg)
{
	const struct shared *s = arg;
	struct timespec rest = { (time_t)s->o.seconds, 0 };

	while (nanosleep(&rest, &rest) && errno == EINTR)
		;
	fprintf(stderr,
		"stress: it did not end within %" PRIu64
		" s: phase %u; work of the remote readers:",
		s->o.seconds, atomic_load(&s->model->phase));
	for (unsigned i = 0; i < s->o.remotes; i++)
		fprintf(stderr, " %" PRIu64, atomic_load(&s->counts[i].phase_work));
	fprintf(stderr, "; writers have come to goals");
	for (unsigned i = 0; i < home.writers; i++)
		fprintf(stderr, " %u", atomic_load(&home.writer[i].reached));
	fprintf(stderr, "\n");
	_exit(EXIT_FAILED);
}

static int serve_and_run(struct home *h)
{
	pthread_t dog;
	struct error err;
	int rc;

	if (server_thread_start(&h->server, h->s->o.memory_bytes, h->s->o.slots, &err))
		return die("starting the server", err.text);
	rc = pthread_create(&dog, NULL, watch_dog, h->s);
	if (rc)
		return die("starting the watchdog", error_name(rc));
	pthread_detach(dog);
	snprintf(h->s->server, sizeof(h->s->server), "%s", h->server.server.bound);
	h->watch = watch_create(h->m);
	rc = h->watch ? run_all(h) : -ENOMEM;
	if (server_thread_stop(&h->server))
		return die("stopping the server", h->server.err.text);
	watch_destroy(h->watch);
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
	printf("stress --seed %" PRIu64 ": %" PRIu64 " keys, %" PRIu64 " writers, %" PRIu64
	       " local and %" PRIu64 " remote readers\n",
	       o.seed, o.keys, o.writers, o.locals, o.remotes);
	log_setup("stress", LOG_WARN, LOG_TEXT);
	home.s = shared_create(&o);
	if (!home.s)
		return die("shared memory", error_name(ENOMEM));
	home.m = home.s->model;
	if (fork_remotes(home.s))
		return die("fork", error_name(errno));
	status = serve_and_run(&home);
	model_report(home.m);
	return model_wrongs(home.m) ? EXIT_WRONG : status;
}
