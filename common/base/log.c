/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * NO THREAD WAITS FOR THE READER of the log. A line that a full pipe does not take is dropped and
 * counted, and the next one that is taken comes after a line that says how many there were. The
 * pipe is the buffer. stderr may be shared with other programs, so its file description stays as it
 * is:
 *	a pipe or a terminal   is opened once more, without blocking; no line is longer than
 *	                       PIPE_BUF, so a pipe takes it whole or not at all;
 *	a socket (journald)    gets each line with MSG_DONTWAIT;
 *	a file                 takes a line at any time.
 * A pipe of another user cannot be opened again. There a thread looks for room under a lock and
 * writes, and only a program that shares the pipe can take the room in between.
 */
#include "common/base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/time.h"

#define LINE_MAX_BYTES 1600

static_assert(LINE_MAX_BYTES <= PIPE_BUF, "a pipe takes a line whole or not at all");

enum way { WAY_WRITE, WAY_SEND, WAY_LOOK };

static const char *log_program = "gracekv";
static enum way log_way;
static int log_fd = STDERR_FILENO;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER; /* WAY_LOOK */
static _Atomic uint64_t log_dropped; /* lines that nobody was told of */
static _Atomic enum log_level log_threshold = LOG_WARN;
static _Atomic enum log_format log_style = LOG_TEXT;

static const char *const level_names[] = { "error", "warn", "info", "debug" };

/* stderr again, without blocking. Not as stdin or stdout, where the program was started without:
 * what it prints would go there. */
static int reopen(void)
{
	int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), high;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	return high;
}

static void choose_way(void)
{
	struct stat st;
	int fd;

	if (log_fd != STDERR_FILENO)
		close(log_fd);
	log_fd = STDERR_FILENO;
	log_way = WAY_WRITE;
	if (fstat(STDERR_FILENO, &st))
		return;
	if (S_ISSOCK(st.st_mode)) {
		log_way = WAY_SEND;
	} else if (S_ISFIFO(st.st_mode) || (S_ISCHR(st.st_mode) && isatty(STDERR_FILENO))) {
		fd = reopen();
		if (fd >= 0)
			log_fd = fd;
		else
			log_way = WAY_LOOK;
	}
}

void log_setup(const char *program, enum log_level level, enum log_format format)
{
	log_program = program;
	choose_way();
	log_change(level, format);
}

bool log_await_reader(unsigned ms)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

	return poll(&p, 1, (int)ms) != 0;
}

void log_change(enum log_level level, enum log_format format)
{
	/* relaxed, as where they are read: each stands for nothing else */
	atomic_store_explicit(&log_threshold, level, memory_order_relaxed);
	atomic_store_explicit(&log_style, format, memory_order_relaxed);
}

int log_level_parse(const char *text, enum log_level *out)
{
	for (unsigned i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (strcmp(text, level_names[i]) == 0) {
			*out = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

bool log_enabled(enum log_level level)
{
	return level <= atomic_load_explicit(&log_threshold, memory_order_relaxed);
}

/* Escape @in for a JSON string. Control bytes become \u00XX; the result is cut at @cap. */
static void json_escape(char *out, size_t cap, const char *in)
{
	size_t n = 0;

	for (; *in && n + 7 < cap; in++) {
		unsigned char c = (unsigned char)*in;

		if (c == '"' || c == '\\') {
			out[n++] = '\\';
			out[n++] = (char)c;
		} else if (c < 0x20) {
			n += (size_t)snprintf(out + n, cap - n, "\\u%04x", c);
		} else {
			out[n++] = (char)c;
		}
	}
	out[n] = '\0';
}

/* Returns the length of the line. */
static size_t compose(char *line, size_t cap, enum log_level level, const char *topic,
		      const char *text)
{
	char stamp[40], escaped[1400];
	struct timespec ts;
	struct tm tm;
	int n;

	time_table.read(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	if (atomic_load_explicit(&log_style, memory_order_relaxed) == LOG_JSON) {
		json_escape(escaped, sizeof(escaped), text);
		n = snprintf(line, cap,
			     "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"program\":\"%s\","
			     "\"topic\":\"%s\",\"text\":\"%s\"}\n",
			     stamp, ts.tv_nsec / 1000000, level_names[level], log_program, topic,
			     escaped);
	} else {
		n = snprintf(line, cap, "%s.%03ldZ %s %s %s: %s\n", stamp, ts.tv_nsec / 1000000,
			     log_program, level_names[level], topic, text);
	}
	return n < 0 ? 0 : (size_t)n < cap ? (size_t)n : cap - 1;
}

/* False: there was no room. A line that fails otherwise has nobody to tell. */
static bool put(const char *line, size_t len)
{
	ssize_t done = 0;

	switch (log_way) {
	case WAY_WRITE:
		done = write(log_fd, line, len);
		break;
	case WAY_SEND:
		done = send(log_fd, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		break;
	case WAY_LOOK:
		pthread_mutex_lock(&log_lock);
		if (log_await_reader(0))
			done = write(log_fd, line, len);
		else
			errno = EAGAIN, done = -1;
		pthread_mutex_unlock(&log_lock);
		break;
	}
	return done >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* Say how many lines there were before this one. False: that is not possible yet. */
static bool tell_dropped(char *line, size_t cap)
{
	uint64_t n = atomic_exchange_explicit(&log_dropped, 0, memory_order_relaxed);
	char text[80];

	snprintf(text, sizeof(text), "%" PRIu64 " lines of the log were dropped: nobody read it",
		 n);
	if (!n || put(line, compose(line, cap, LOG_WARN, "log", text)))
		return true;
	atomic_fetch_add_explicit(&log_dropped, n, memory_order_relaxed);
	return false;
}

void log_line(enum log_level level, const char *topic, const char *fmt, ...)
{
	int saved = errno;
	char text[700], line[LINE_MAX_BYTES];
	bool said;
	va_list ap;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	errno = saved;
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* relaxed, all of it: a number */
	said = !atomic_load_explicit(&log_dropped, memory_order_relaxed) ||
	       tell_dropped(line, sizeof(line));
	if (!said || !put(line, compose(line, sizeof(line), level, topic, text)))
		atomic_fetch_add_explicit(&log_dropped, 1, memory_order_relaxed);
	errno = saved;
}
