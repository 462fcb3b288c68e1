/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/time.h"

#define LINE_MAX_BYTES 1600

static const char *log_program = "gracekv";
static _Atomic enum log_level log_threshold = LOG_WARN;
static _Atomic enum log_format log_style = LOG_TEXT;

static const char *const level_names[] = { "error", "warn", "info", "debug" };

void log_setup(const char *program, enum log_level level, enum log_format format)
{
	log_program = program;
	log_change(level, format);
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

void log_line(enum log_level level, const char *topic, const char *fmt, ...)
{
	int saved = errno;
	char text[700], line[LINE_MAX_BYTES], stamp[40];
	struct timespec ts;
	struct tm tm;
	va_list ap;
	int n;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	errno = saved;
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	time_table.read(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	if (atomic_load_explicit(&log_style, memory_order_relaxed) == LOG_JSON) {
		char escaped[1400];

		json_escape(escaped, sizeof(escaped), text);
		n = snprintf(line, sizeof(line),
			     "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"program\":\"%s\","
			     "\"topic\":\"%s\",\"text\":\"%s\"}\n",
			     stamp, ts.tv_nsec / 1000000, level_names[level], log_program, topic,
			     escaped);
	} else {
		n = snprintf(line, sizeof(line), "%s.%03ldZ %s %s %s: %s\n", stamp,
			     ts.tv_nsec / 1000000, log_program, level_names[level], topic, text);
	}
	if (n > 0) {
		size_t len = (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1;
		ssize_t done = write(STDERR_FILENO, line, len);

		(void)done; /* a log that cannot be written has nobody to tell */
	}
	errno = saved;
}
