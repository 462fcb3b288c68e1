/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The floor of a request and its reply beside programs that compute: two processes, each a session
 * of its own as client and server are, hand a word of shared memory to and fro for a while. They
 * spin, and do nothing else. What they lose beside others the kernel's scheduler takes, and any two
 * processes that wait for each other lose it.
 *
 * With FILE it is the floor of a durable write by a server whose worker does not wait for the disk:
 * the server hands the word to a thread of its own, which writes a block and calls fdatasync(), and
 * gets it back before it replies. All three give way between looks, as there may be fewer cores
 * than that; it is what a machine with nothing else to do gives at best.
 *
 * usage: handoff SECONDS [FILE]		prints rounds a second
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"

#define SECONDS_MAX 60
#define LOOK	    1024u /* polls, or rounds, between two looks at whether it has ended */
#define BLOCK	    4096u
#define FILE_BYTES  (16u << 20)

/* Whose turn it is; bits, as one may have two. */
#define CLIENT	1u /* the reply is there */
#define REQUEST 2u /* for the server */
#define WRITER	4u
#define WRITTEN 8u /* for the server */

struct word {
	_Atomic unsigned turn;
	_Atomic bool over;
	bool gives_way;
};

/* Returns the turn, one of @mine; 0: it is over. */
static unsigned take(struct word *w, unsigned mine, uint64_t end_ns)
{
	for (unsigned i = 1;; i++) {
		const unsigned turn = atomic_load(&w->turn);

		if (turn & mine)
			return turn;
		if (i % LOOK == 0 && (atomic_load(&w->over) || time_now_ns() >= end_ns))
			return 0;
		if (w->gives_way)
			sched_yield();
		else
			time_relax();
	}
}

struct writer {
	struct word *word;
	uint64_t end_ns;
	int fd;
};

static void *write_on(void *arg)
{
	struct writer *w = arg;
	uint64_t at = 0;
	void *block;

	if (posix_memalign(&block, BLOCK, BLOCK))
		return NULL;
	memset(block, 'x', BLOCK);
	while (take(w->word, WRITER, w->end_ns)) {
		if (pwrite(w->fd, block, BLOCK, (off_t)at) != BLOCK || fdatasync(w->fd)) {
			perror("handoff: writing");
			break;
		}
		at = (at + BLOCK) % FILE_BYTES;
		atomic_store(&w->word->turn, WRITTEN);
	}
	free(block);
	return NULL;
}

static void serve(struct word *w, uint64_t end_ns, int fd)
{
	struct writer writer = { w, end_ns, fd };
	pthread_t thread;
	unsigned turn;

	setsid();
	if (fd >= 0 && pthread_create(&thread, NULL, write_on, &writer))
		return;
	while ((turn = take(w, REQUEST | WRITTEN, end_ns)))
		atomic_store(&w->turn, fd >= 0 && turn == REQUEST ? WRITER : CLIENT);
	if (fd >= 0)
		pthread_join(thread, NULL);
}

/* All of it is there and has been written, as a benchmark of disks has it. */
static int make_file(const char *path)
{
	static const uint8_t zeroes[1u << 20] __attribute__((aligned(BLOCK)));
	int fd = open(path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);

	for (uint64_t at = 0; fd >= 0 && at < FILE_BYTES; at += sizeof(zeroes))
		if (pwrite(fd, zeroes, sizeof(zeroes), (off_t)at) != sizeof(zeroes)) {
			close(fd);
			return -1;
		}
	return fd;
}

static double rounds_a_second(struct word *w, uint64_t begin, uint64_t end)
{
	uint64_t rounds = 0;

	for (; take(w, CLIENT, end) && (rounds % LOOK || time_now_ns() < end); rounds++)
		atomic_store(&w->turn, REQUEST);
	return (double)rounds * NS_PER_S / (double)(time_now_ns() - begin);
}

int main(int argc, char **argv)
{
	const long seconds = argc == 2 || argc == 3 ? strtol(argv[1], NULL, 10) : 0;
	const int fd = argc == 3 ? make_file(argv[2]) : -1;
	struct word *w =
		mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t begin, end;
	pid_t child;

	if (w == MAP_FAILED || seconds < 1 || seconds > SECONDS_MAX) {
		fprintf(stderr, "usage: handoff SECONDS [FILE] (1 to %d s)\n", SECONDS_MAX);
		return 2;
	}
	if (argc == 3 && fd < 0) {
		fprintf(stderr, "handoff: %s cannot be written: %s\n", argv[2], strerror(errno));
		return 1;
	}
	atomic_store(&w->turn, CLIENT);
	w->gives_way = fd >= 0;
	begin = time_now_ns();
	end = begin + (uint64_t)seconds * NS_PER_S;
	child = fork();
	if (child < 0) {
		perror("handoff: fork");
		return 1;
	}
	if (child == 0) {
		serve(w, end + NS_PER_S, fd);
		_exit(0);
	}
	printf("%.0f\n", rounds_a_second(w, begin, end));
	atomic_store(&w->over, true);
	waitpid(child, NULL, 0);
	return 0;
}
