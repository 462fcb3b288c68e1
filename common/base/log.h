/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Log lines with a topic and a level, to stderr, as text or as one JSON object a line.
 * Any thread may log, and none waits for the reader: a line that finds no room is dropped and
 * counted. A line is one write(2). errno is kept. The data path logs nothing.
 */
#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

/*
 * log_setup - @program is kept, not copied. Call before the first thread starts; stderr stays what
 * it is from then on. Until it is called a line may wait for the reader.
 */
void log_setup(const char *program, enum log_level level, enum log_format format);

/* log_change - from the next line of any thread on. */
void log_change(enum log_level level, enum log_format format);

/* log_level_parse - "error", "warn", "info" or "debug". Returns 0, or -EINVAL. */
int log_level_parse(const char *text, enum log_level *out);

/*
 * log_await_reader - wait up to @ms until stderr takes a line: before a program's last words, when
 * nobody waits for it any more. False: it does not; a line now would be dropped, and stdio wait.
 */
bool log_await_reader(unsigned ms);

bool log_enabled(enum log_level level);

/* log_line - use the macros below. @topic: "rdma", "session", ...; no newline in the text. */
void log_line(enum log_level level, const char *topic, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define log_error(topic, ...) log_line(LOG_ERROR, topic, __VA_ARGS__)
#define log_warn(topic, ...)  log_line(LOG_WARN, topic, __VA_ARGS__)
#define log_info(topic, ...)  log_line(LOG_INFO, topic, __VA_ARGS__)
#define log_debug(topic, ...)                                    \
	do {                                                     \
		if (log_enabled(LOG_DEBUG))                      \
			log_line(LOG_DEBUG, topic, __VA_ARGS__); \
	} while (0)
