/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The nursery: a process with one thread and no device, which forks the readers, stops some of
 * them wherever they are, lets those go on that are stopped, kills some, and forks others in their
 * place.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tests/stress/torture/torture.h"

#define LOOK_NS	   NS_PER_MS
#define STOP_NS	   (30 * NS_PER_MS) /* between two stops: this, and up to as much again */
#define KILL_NS	   (400 * NS_PER_MS)
#define GOODBYE_NS (20 * NS_PER_S) /* for readers to end by themselves */

struct child {
	pid_t pid; /* 0: none */
	unsigned life;
	uint64_t wake_ns; /* it is stopped until then; 0: it is not */
};

struct nursery {
	struct shared *s;
	uint64_t random;
	uint64_t stop_at_ns, kill_at_ns;
	struct child child[SEATS_MAX];
};

static void wrong(struct nursery *n, unsigned seat, const char *what, int value)
{
	model_wrong(n->s->model, WRONG_ERROR, MODEL_NO_KEY, "%s: %s (%d)", n->s->seat[seat].name,
		    what, value);
}

static void bear(struct nursery *n, unsigned seat)
{
	struct child *c = &n->child[seat];
	pid_t pid;

	atomic_store(&n->s->seat[seat].wake_ns, 0);
	pid = shared_fork();
	if (pid < 0) {
		wrong(n, seat, "fork failed", -pid);
		return;
	}
	if (pid == 0)
		reader_main(n->s, seat, c->life);
	c->life++;
	c->pid = pid;
	c->wake_ns = 0;
	count(&n->s->forks, 1);
}

static void stopped(struct nursery *n, unsigned seat)
{
	uint64_t wake_ns = atomic_exchange(&n->s->seat[seat].wake_ns, 0);

	if (wake_ns) /* by itself */
		n->child[seat].wake_ns = wake_ns;
	else if (!n->child[seat].wake_ns)
		n->child[seat].wake_ns = time_now_ns();
}

static void gone(struct nursery *n, unsigned seat, int status)
{
	struct child *c = &n->child[seat];

	c->pid = 0;
	c->wake_ns = 0;
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		wrong(n, seat, "it died of signal", WTERMSIG(status));
	else if (WIFEXITED(status) && WEXITSTATUS(status))
		wrong(n, seat, "it ended with status", WEXITSTATUS(status));
	else if (WIFEXITED(status) && !shared_ended(n->s))
		wrong(n, seat, "it ended early", 0);
}

static void look(struct nursery *n)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		for (unsigned i = 0; i < n->s->seats; i++) {
			if (n->child[i].pid != pid)
				continue;
			if (WIFSTOPPED(status))
				stopped(n, i);
			else
				gone(n, i, status);
		}
	}
}

/* A child at work that may be disturbed: not a writer. */
static struct child *choose(struct nursery *n)
{
	unsigned i;

	if (!n->s->seats)
		return NULL;
	i = (unsigned)(model_random(&n->random) % n->s->seats);
	if (!n->child[i].pid || n->child[i].wake_ns || n->s->seat[i].role >= ROLE_COUNT)
		return NULL;
	return &n->child[i];
}

static void disturb(struct nursery *n, uint64_t now)
{
	uint64_t lease_ns = n->s->o.lease_ms * NS_PER_MS, ns;
	struct child *c;

	if (now >= n->stop_at_ns) {
		n->stop_at_ns = now + STOP_NS + model_random(&n->random) % STOP_NS;
		ns = model_random(&n->random) % (lease_ns / 2);
		if (model_random(&n->random) % 8 == 0)
			ns += lease_ns + lease_ns / 4;
		c = choose(n);
		if (c && kill(c->pid, SIGSTOP) == 0) {
			c->wake_ns = now + ns;
			count(&n->s->stops, 1);
		}
	}
	if (now >= n->kill_at_ns) {
		n->kill_at_ns = now + KILL_NS + model_random(&n->random) % KILL_NS;
		c = choose(n);
		if (c && kill(c->pid, SIGKILL) == 0)
			count(&n->s->kills, 1);
	}
}

static void wake(struct nursery *n, uint64_t now)
{
	for (unsigned i = 0; i < n->s->seats; i++) {
		struct child *c = &n->child[i];

		if (c->pid && c->wake_ns && now >= c->wake_ns) {
			c->wake_ns = 0;
			kill(c->pid, SIGCONT);
		}
	}
}

static bool all_gone(const struct nursery *n)
{
	for (unsigned i = 0; i < n->s->seats; i++) {
		if (n->child[i].pid)
			return false;
	}
	return true;
}

/* Readers end by themselves, those that are stopped once they go on. */
static void say_goodbye(struct nursery *n)
{
	const struct timespec pause = { 0, LOOK_NS };
	uint64_t end_ns = time_now_ns() + GOODBYE_NS;

	while (!all_gone(n) && time_now_ns() < end_ns) {
		wake(n, UINT64_MAX);
		nanosleep(&pause, NULL);
		look(n);
	}
	for (unsigned i = 0; i < n->s->seats; i++) {
		if (n->child[i].pid) {
			wrong(n, i, "it did not end, process", n->child[i].pid);
			kill(n->child[i].pid, SIGKILL);
			waitpid(n->child[i].pid, NULL, 0);
		}
	}
}

_Noreturn void nursery_main(struct shared *s)
{
	static struct nursery n;
	const struct timespec pause = { 0, LOOK_NS };

	n.s = s;
	n.random = model_mix(s->o.seed ^ 77);
	model_who("nursery");
	for (unsigned i = 0; i < s->seats; i++)
		bear(&n, i);
	while (!shared_ended(s)) {
		uint64_t now = time_now_ns();

		look(&n);
		for (unsigned i = 0; i < s->seats && !shared_ended(s); i++) {
			if (!n.child[i].pid)
				bear(&n, i);
		}
		if (atomic_load(&s->go))
			disturb(&n, now);
		wake(&n, now);
		nanosleep(&pause, NULL);
	}
	say_goodbye(&n);
	exit(0);
}
