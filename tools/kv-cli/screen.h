/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The terminal while a page is watched on it: its other screen, where it has one, without a cursor,
 * and keys as they are typed. It is as it was whenever the program does not run: at the end, and
 * while it is stopped (SIGTSTP). Where stdout is no terminal there is no screen and there are no
 * keys, and waiting is all that is left of it. One in a process, one thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct screen;

enum screen_event {
	SCREEN_READY, /* the descriptor is readable */
	SCREEN_TIME, /* the time has come */
	SCREEN_REDRAW, /* what was shown is gone, or is of another size */
	SCREEN_LEFT, /* q, or an interrupt: see screen_close() */
};

/*
 * screen_open - @wanted: false: no screen, whatever stdout is. Neither is there one where $TERM is
 * dumb, or not set. Signals are only noted from now on (see caught.h).
 * Returns 0 or a negative errno.
 */
int screen_open(struct screen **out, bool wanted);

/* screen_on - is there one? */
bool screen_on(const struct screen *s);

/* screen_size - its size now; 80 by 24 where the terminal does not know. */
void screen_size(const struct screen *s, unsigned *rows, unsigned *columns);

/*
 * screen_show - write a page. What a terminal that stands still does not take within a second, or
 * before a signal comes, is dropped. Returns 0, or a negative errno: the terminal is gone.
 */
int screen_show(struct screen *s, const char *text, size_t len);

/*
 * screen_wait - for one of the events, @until_ns (CLOCK_MONOTONIC) at most. Where nothing is
 * waited for any more since SCREEN_LEFT it comes again at once.
 */
enum screen_event screen_wait(struct screen *s, int fd, uint64_t until_ns);

/*
 * screen_let, screen_hold - between them signals come in though nobody waits: around output that
 * may block, to others than a screen.
 */
void screen_let(struct screen *s);
void screen_hold(struct screen *s);

/*
 * screen_close - the terminal is as it was, signals do again what they did. Returns 0 where it was
 * left by a key, ^C among them, or not at all; else the signal that has come.
 */
int screen_close(struct screen *s);
