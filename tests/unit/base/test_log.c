/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Nobody reads the log: no thread waits for that, and what was dropped is counted. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"

#define HANG_S 60u /* then it has waited for a reader */
#define LINES  20000u

static int kept, reader; /* the stderr of the test; the other end of the log */
static char text[1 << 20];

static void take_stderr(int fd)
{
	kept = dup(STDERR_FILENO);
	assert_true(dup2(fd, STDERR_FILENO) == STDERR_FILENO);
	close(fd);
	log_setup("test", LOG_INFO, LOG_TEXT);
	alarm(HANG_S);
}

static void give_stderr_back(void)
{
	alarm(0);
	dup2(kept, STDERR_FILENO);
	close(kept);
	log_setup("test", LOG_WARN, LOG_TEXT);
	close(reader);
}

/* Until it is full; as the log does, without changing what others share. */
static unsigned fill(void)
{
	unsigned lines = 0;

	while (log_await_reader(0) && lines < 100000)
		log_info("fill", "line %u", ++lines);
	assert_false(log_await_reader(0));
	return lines;
}

/* All that there is. Returns how many of the lines came that nobody read at first. */
static unsigned drain(void)
{
	unsigned came = 0;
	size_t len = 0;
	ssize_t n;

	fcntl(reader, F_SETFL, fcntl(reader, F_GETFL) | O_NONBLOCK);
	while ((n = read(reader, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	for (const char *at = text; (at = strstr(at, "test warn lost: ")); at++)
		came++;
	return came;
}

static void nobody_reads(void)
{
	const int flags = fcntl(STDERR_FILENO, F_GETFL);
	const char *told, *next;
	unsigned dropped, came;
	char want[64];

	fill();
	errno = EDOM;
	for (unsigned i = 0; i < LINES; i++)
		log_warn("lost", "line %u", i);
	assert_int_equal(errno, EDOM);
	assert_int_equal(fcntl(STDERR_FILENO, F_GETFL), flags); /* others have it too */
	came = drain();
	assert_non_null(strstr(text, "test info fill: line 1\n"));
	assert_true(log_await_reader(1000));
	log_info("next", "the reader is back");
	drain();
	told = strstr(text, "test warn log: ");
	assert_non_null(told);
	dropped = (unsigned)strtoul(told + strlen("test warn log: "), NULL, 10);
	assert_true(dropped > 0);
	assert_int_equal(dropped + came, LINES);
	snprintf(want, sizeof(want), "%u lines of the log were dropped: nobody read it\n", dropped);
	assert_non_null(strstr(told, want));
	next = strstr(told, "test info next: the reader is back\n");
	assert_non_null(next);
	log_info("next", "nothing was dropped since");
	drain();
	assert_null(strstr(text, "dropped: "));
	assert_non_null(strstr(text, "nothing was dropped since"));
}

UNIT_TEST(a_pipe_that_nobody_reads)
{
	int fd[2];

	assert_int_equal(pipe(fd), 0);
	reader = fd[0];
	take_stderr(fd[1]);
	nobody_reads();
	give_stderr_back();
}

UNIT_TEST(a_socket_that_nobody_reads)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	reader = fd[0];
	take_stderr(fd[1]);
	nobody_reads();
	give_stderr_back();
}

/* A file takes each line where the line before it ended, whoever wrote that. */
UNIT_TEST(a_file)
{
	char name[] = "/tmp/gracekv-log-XXXXXX";
	int fd = mkstemp(name);

	assert_true(fd >= 0);
	unlink(name);
	reader = dup(fd);
	take_stderr(fd);
	log_info("one", "first");
	dprintf(STDERR_FILENO, "of another program\n");
	log_info("two", "second");
	assert_true(log_await_reader(0));
	lseek(reader, 0, SEEK_SET);
	drain();
	assert_non_null(strstr(text, "test info one: first\nof another program\n"));
	assert_non_null(strstr(text, "test info two: second\n"));
	give_stderr_back();
}
