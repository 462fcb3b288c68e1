/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * One process with a whole server, its writers and its local readers, and processes that read it
 * remotely. The latter are forked first, while there is one thread and no device.
 */
#include "tests/stress/home.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_RIGHT = 0, EXIT_WRONG = 1, EXIT_FAILED = 3 };

static struct home home; /* too large for a stack */
static const char *name;

static int die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", name, what, why);
	return EXIT_FAILED;
}

void shared_seat(struct shared *s, enum role role, bool weak, bool stays)
{
	static const char *const roles[] = { "get",   "mget",  "scan",	"hint",
					     "index", "count", "client" };
	struct seat *x = &s->seat[s->seats];

	x->role = role;
	x->weak = weak && s->o.weak;
	x->stays = stays;
	snprintf(x->name, sizeof(x->name), "%s %u%s%s", roles[role], s->seats,
		 stays ? " (stays)" : "", x->weak ? " (weak)" : "");
	s->seats++;
}

uint64_t shared_sum(const struct shared *s, int role, size_t offset)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < s->seats; i++) {
		if (role >= 0 && s->seat[i].role != (enum role)role)
			continue;
		total += atomic_load_explicit(
			(const _Atomic uint64_t *)((const char *)&s->seat[i].counts + offset),
			memory_order_relaxed);
	}
	return total;
}

pid_t shared_fork(void)
{
	pid_t parent = getpid(), pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid < 0 ? -errno : pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILED); /* it has gone already */
	return 0;
}

bool home_tick(struct home *h, unsigned ms)
{
	const struct timespec pause = { 0, (long)(ms * NS_PER_MS) };

	nanosleep(&pause, NULL);
	if (h->s->o.used_up)
		state_use_up(&h->server.server.store, &h->used_up, h->s->o.used_up);
	if (atomic_load(&h->server.ended))
		model_wrong(h->m, WRONG_ERROR, MODEL_NO_KEY, "the server ended: %s",
			    h->server.err.text);
	return atomic_load(&h->m->any_wrong);
}

/* Ends the process, and so all others, when something hangs. */
static void *watch_dog(void *arg)
{
	const struct shared *s = arg;
	struct timespec rest = { (time_t)(s->o.seconds + s->face->grace_s), 0 };

	while (nanosleep(&rest, &rest) && errno == EINTR)
		;
	fprintf(stderr,
		"%s: it did not end within %" PRIu64
		" s: phase %u; work of the remote readers in it:",
		name, s->o.seconds + s->face->grace_s, atomic_load(&s->model->phase));
	for (unsigned i = 0; i < s->seats; i++)
		fprintf(stderr, " %" PRIu64, atomic_load(&s->seat[i].counts.phase_work));
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

	h->server.lease_ms = (unsigned)h->s->o.lease_ms;
	if (server_thread_start(&h->server, h->s->o.memory_bytes, h->s->o.slots, &err))
		return die("starting the server", err.text);
	rc = pthread_create(&dog, NULL, watch_dog, h->s);
	if (rc)
		return die("starting the watchdog", error_name(rc));
	pthread_detach(dog);
	snprintf(h->s->server, sizeof(h->s->server), "%s", h->server.server.bound);
	rc = h->s->face->run(h);
	if (server_thread_stop(&h->server))
		return die("stopping the server", h->server.err.text);
	return rc ? die("running", error_name(rc)) : EXIT_RIGHT;
}

int home_main(const struct face *face, int argc, char **argv)
{
	struct shared *s;
	struct options o;
	int status;

	name = face->name;
	if (face->options(&o, argc, argv, &status))
		return status;
	if (!o.seed && getrandom(&o.seed, sizeof(o.seed), 0) != sizeof(o.seed))
		return die("getrandom", error_name(errno));
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%s --seed %" PRIu64 "\n", name, o.seed);
	log_setup(name, face->level, LOG_TEXT);
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		return die("shared memory", error_name(errno));
	s->o = o;
	s->face = face;
	if (face->share(s))
		return die("shared memory", error_name(ENOMEM));
	home.s = s;
	home.m = s->model;
	if (face->fork(s))
		return die("fork", error_name(errno));
	status = serve_and_run(&home);
	model_report(home.m);
	return model_wrongs(home.m) ? EXIT_WRONG : status;
}
