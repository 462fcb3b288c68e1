/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The floor of a request and its reply beside programs that compute: two processes, each a session
 * of its own as client and server are, hand a word of shared memory to and fro for a while. They
 * spin, and do nothing else. What they lose beside others the kernel's scheduler takes, and any two
 * processes that wait for each other lose it.
 *
 * usage: handoff SECONDS		prints rounds a second
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"

#define SECONDS_MAX 60
#define LOOK	    1024u /* polls, or rounds, between two looks at whether it has ended */

struct word {
	_Atomic unsigned turn; /* 0: ours; 1: the child's */
	_Atomic bool over;
};

static bool take(struct word *w, unsigned me, uint64_t end_ns)
{
	for (unsigned i = 1; atomic_load(&w->turn) != me; i++) {
		if (i % LOOK == 0 && (atomic_load(&w->over) || time_now_ns() >= end_ns))
			return false;
		time_relax();
	}
	return true;
}

int main(int argc, char **argv)
{
	const long seconds = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
	struct word *w =
		mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t rounds = 0, begin, end;
	pid_t child;

	if (w == MAP_FAILED || seconds < 1 || seconds > SECONDS_MAX) {
		fprintf(stderr, "usage: handoff SECONDS (1 to %d)\n", SECONDS_MAX);
		return 2;
	}
	begin = time_now_ns();
	end = begin + (uint64_t)seconds * NS_PER_S;
	child = fork();
	if (child < 0) {
		perror("handoff: fork");
		return 1;
	}
	if (child == 0) {
		setsid();
		while (take(w, 1, end + NS_PER_S))
			atomic_store(&w->turn, 0);
		_exit(0);
	}
	for (; take(w, 0, end) && (rounds % LOOK || time_now_ns() < end); rounds++)
		atomic_store(&w->turn, 1);
	printf("%.0f\n", (double)rounds * NS_PER_S / (double)(time_now_ns() - begin));
	atomic_store(&w->over, true);
	waitpid(child, NULL, 0);
	return 0;
}
