/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Lines of a file of any size, in bounded memory. One thread at a time. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/kv-cli/buffer.h"

struct line {
	const char *text; /* without the newline; valid until the next call */
	size_t len;
	bool newline; /* false: the file ended without one */
};

struct line_reader {
	int fd; /* the caller's */
	char *in; /* bytes read from fd: [in_pos, in_len) are still to be looked at */
	size_t in_pos, in_len;
	struct buffer split; /* a line that does not lie in one piece of in */
	uint64_t number; /* of the line returned last, from 1 */
	uint64_t consumed; /* bytes of the file up to its end */
	bool end;
	int (*idle)(void *arg); /* line_reader_idle() */
	void *idle_arg;
};

/* line_reader_init - @max: the longest line in bytes. Returns 0 or -ENOMEM. */
int line_reader_init(struct line_reader *r, int fd, size_t max);

/*
 * line_reader_idle - have @idle called before each wait for input that is not there yet. It returns
 * 0, or a negative errno that line_reader_next() returns then, without waiting.
 */
void line_reader_idle(struct line_reader *r, int (*idle)(void *arg), void *arg);

/*
 * line_reader_next - returns 1 and a line, 0 at the end of the file, -E2BIG for a line beyond the
 * limit (skipped: the next call goes on after it), -ENOMEM, or what read(2) failed with
 * or the idle function returned.
 */
int line_reader_next(struct line_reader *r, struct line *out);

void line_reader_free(struct line_reader *r);
