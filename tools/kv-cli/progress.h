/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A line of progress on stderr, where that is a terminal; nothing elsewhere. One thread. */
#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *verb; /* "loading" */
	uint64_t total; /* bytes of input, 0: not known */
	uint64_t start_ns, next_ns; /* time_now_ns() */
	bool on; /* stderr is a terminal */
	bool shown; /* a line stands there */
};

void progress_start(struct progress *p, const char *verb, uint64_t total);

/*
 * progress_show - cheap; draws a few times a second.
 * @position: in the input, of total. @records, @bytes: so far.
 */
void progress_show(struct progress *p, uint64_t position, uint64_t records, uint64_t bytes);

/* progress_clear - wipe the line, before anything else is printed. */
void progress_clear(struct progress *p);

/* progress_seconds - since the start; never 0. */
double progress_seconds(const struct progress *p);
