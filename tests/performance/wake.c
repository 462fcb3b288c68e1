/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The floor of a request now and then, whose server sleeps meanwhile: pairs of threads, one of each
 * in a process that is a session of its own, as client and server are. The one wakes the other
 * through an eventfd and is woken by it, and then sleeps for a while. Nothing else happens, so the
 * kernel's scheduler takes all the time that a round takes beside other programs, and takes it from
 * any two threads that wait for each other.
 *
 * One command a line on stdin, one answer on stdout, as kv-test-client:
 *
 *	forget
 *	counts		rounds=, wake_p50_us=, wake_p99_us=, wake_p999_us=, wake_max_us=
 *	quit
 *
 * usage: wake PAIRS PAUSE_US
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tools/lib/histogram.h"

#define PAIRS_MAX 64u
#define PAUSE_MAX 10000000u

static struct pair {
	int there, back;
	_Atomic uint64_t cell[HISTOGRAM_CELLS]; /* its client adds, the main thread reads */
	_Atomic uint64_t longest_ns;
} pairs[PAIRS_MAX];

static unsigned count, pause_us;

static void wake(int fd)
{
	const uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) != sizeof(one))
		abort(); /* it has room for 2^64 - 2 */
}

static void sleep_at(int fd)
{
	uint64_t n;

	if (read(fd, &n, sizeof(n)) != sizeof(n))
		abort();
}

static void *serve(void *arg)
{
	for (struct pair *p = arg;;) {
		sleep_at(p->there);
		wake(p->back);
	}
	return NULL;
}

static void *ask(void *arg)
{
	for (struct pair *p = arg;; time_sleep(pause_us * (NS_PER_MS / 1000))) {
		const uint64_t start = time_now_ns();
		uint64_t ns;

		wake(p->there);
		sleep_at(p->back);
		ns = time_now_ns() - start;
		/* relaxed, all: figures */
		atomic_fetch_add_explicit(&p->cell[histogram_cell(ns)], 1, memory_order_relaxed);
		if (ns > atomic_load_explicit(&p->longest_ns, memory_order_relaxed))
			atomic_store_explicit(&p->longest_ns, ns, memory_order_relaxed);
	}
	return NULL;
}

static void start_all(void *(*run)(void *))
{
	for (unsigned i = 0; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run, &pairs[i]) || pthread_detach(thread)) {
			fputs("wake: there is no room for its threads\n", stderr);
			exit(1);
		}
	}
}

static void forget(void)
{
	for (unsigned i = 0; i < count; i++) {
		for (unsigned k = 0; k < HISTOGRAM_CELLS; k++)
			atomic_store(&pairs[i].cell[k], 0);
		atomic_store(&pairs[i].longest_ns, 0);
	}
}

static void tell(void)
{
	static struct histogram all;

	memset(&all, 0, sizeof(all));
	for (unsigned i = 0; i < count; i++) {
		const uint64_t longest = atomic_load(&pairs[i].longest_ns);

		for (unsigned k = 0; k < HISTOGRAM_CELLS; k++) {
			all.cell[k] += atomic_load(&pairs[i].cell[k]);
			all.count += atomic_load(&pairs[i].cell[k]);
		}
		all.max_ns = longest > all.max_ns ? longest : all.max_ns;
	}
	printf("ok rounds=%" PRIu64 " wake_p50_us=%.1f wake_p99_us=%.1f wake_p999_us=%.1f "
	       "wake_max_us=%.1f\n",
	       all.count, (double)histogram_at(&all, 0.5) / 1e3,
	       (double)histogram_at(&all, 0.99) / 1e3, (double)histogram_at(&all, 0.999) / 1e3,
	       (double)all.max_ns / 1e3);
}

static void server(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setsid();
	start_all(serve);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	char line[64];
	pid_t child;

	count = argc == 3 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	pause_us = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	if (count < 1 || count > PAIRS_MAX || pause_us < 1 || pause_us > PAUSE_MAX) {
		fprintf(stderr, "usage: wake PAIRS PAUSE_US (1 to %u, 1 to %u)\n", PAIRS_MAX,
			PAUSE_MAX);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned i = 0; i < count; i++) {
		pairs[i].there = eventfd(0, EFD_CLOEXEC);
		pairs[i].back = eventfd(0, EFD_CLOEXEC);
		if (pairs[i].there < 0 || pairs[i].back < 0) {
			perror("wake: eventfd");
			return 1;
		}
	}
	child = fork();
	if (child < 0) {
		perror("wake: fork");
		return 1;
	}
	if (child == 0)
		server();
	start_all(ask);
	puts("ok");
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n") != 0) {
		if (strcmp(line, "counts\n") == 0) {
			tell();
		} else if (strcmp(line, "forget\n") == 0) {
			forget();
			puts("ok");
		} else {
			puts("err -22 no command (forget, counts, quit)");
		}
	}
	kill(child, SIGKILL);
	return 0;
}
