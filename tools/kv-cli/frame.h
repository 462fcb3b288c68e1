/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A page of text: lines that are cut where a screen ends, and as many as it has rows. For a screen
 * it is one run of bytes that draws it over what was there (the sequences of ECMA-48 that every
 * terminal knows), otherwise plain lines. ASCII; other bytes become '?'. One thread.
 */
#include <stdbool.h>

#include "tools/kv-cli/buffer.h"

struct frame {
	unsigned rows; /* 0: as many as there are */
	unsigned columns;
	bool screen;
	struct buffer text; /* what is to be written */
	unsigned used; /* lines */
	unsigned at; /* column of the line under way */
	unsigned pending; /* spaces that stand before what comes next in it */
	bool open, bold, failed;
};

/* frame_begin - an empty page; of @f only its memory is kept. @rows may be 0 but for a screen. */
void frame_begin(struct frame *f, unsigned rows, unsigned columns, bool screen);

/* frame_head - the line under way is a heading: before its first text. */
void frame_head(struct frame *f);

/* frame_put - text goes on in the line under way, and is cut where that is full. */
void frame_put(struct frame *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* frame_to - it goes on at @column, counted from 0, or after what is there already. */
void frame_to(struct frame *f, unsigned column);

/* frame_next - the line is over, which may be empty. */
void frame_next(struct frame *f);

/* frame_left - how many lines there is room for, those over not counted. */
unsigned frame_left(const struct frame *f);

/* frame_end - the page is over: f->text. Returns 0 or -ENOMEM. */
int frame_end(struct frame *f);

void frame_free(struct frame *f);
