/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/frame.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TO_TOP	   "\033[H"
#define CLEAR_LINE "\033[K" /* from the cursor on */
#define CLEAR_REST "\033[J"
#define BOLD	   "\033[1m"
#define PLAIN	   "\033[m"

static void frame_append(struct frame *f, const char *text, size_t len)
{
	if (buffer_append(&f->text, text, len))
		f->failed = true;
}

static void frame_sequence(struct frame *f, const char *sequence)
{
	if (f->screen)
		frame_append(f, sequence, strlen(sequence));
}

void frame_begin(struct frame *f, unsigned rows, unsigned columns, bool screen)
{
	struct buffer text = f->text;

	*f = (struct frame){ .rows = rows, .columns = columns, .screen = screen, .text = text };
	f->text.len = 0;
	frame_sequence(f, TO_TOP);
}

unsigned frame_left(const struct frame *f)
{
	if (!f->rows)
		return UINT_MAX;
	return f->rows > f->used ? f->rows - f->used : 0;
}

/* The line under way has something: a new one begins below those before. */
static void frame_open(struct frame *f)
{
	if (f->open)
		return;
	f->open = true;
	if (f->used && f->screen)
		frame_append(f, "\r\n", 2);
	if (f->bold)
		frame_sequence(f, BOLD);
}

void frame_head(struct frame *f)
{
	f->bold = true;
}

void frame_put(struct frame *f, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!frame_left(f))
		return;
	frame_open(f);
	for (const char *p = text; *p; p++) {
		char c = *p < ' ' || *p > '~' ? '?' : *p;

		if (c == ' ') { /* no line ends with spaces */
			f->pending++;
			continue;
		}
		while (f->at < f->columns && f->pending > 0) {
			frame_append(f, " ", 1);
			f->at++;
			f->pending--;
		}
		if (f->at >= f->columns)
			break;
		frame_append(f, &c, 1);
		f->at++;
	}
}

void frame_to(struct frame *f, unsigned column)
{
	if (f->at + f->pending < column)
		f->pending = column - f->at;
}

void frame_next(struct frame *f)
{
	if (frame_left(f)) {
		frame_open(f);
		if (f->bold)
			frame_sequence(f, PLAIN);
		/* after the last column the cursor stands on it, and would clear it */
		if (f->at < f->columns)
			frame_sequence(f, CLEAR_LINE);
		if (!f->screen)
			frame_append(f, "\n", 1);
		f->used++;
	}
	f->at = f->pending = 0;
	f->open = f->bold = false;
}

int frame_end(struct frame *f)
{
	if (!f->used || f->used < f->rows) {
		if (f->used)
			frame_sequence(f, "\r\n");
		frame_sequence(f, CLEAR_REST);
	}
	return f->failed ? -ENOMEM : 0;
}

void frame_free(struct frame *f)
{
	buffer_free(&f->text);
}
