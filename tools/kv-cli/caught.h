/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Signals that are only noted, for a while. They are blocked for all that time except where a wait
 * lets them in, so none comes unseen. One at a time in a process, one thread.
 */
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#define CAUGHT_MAX 8u

struct caught {
	const int *numbers;
	size_t count; /* at most CAUGHT_MAX */
	struct sigaction before[CAUGHT_MAX];
	sigset_t outside; /* the mask that was: for ppoll() */
};

/*
 * caught_begin - from now on @numbers are blocked, and noted where they are let in; none has come.
 * @flags: of sigaction().
 */
void caught_begin(struct caught *c, const int *numbers, size_t count, int flags);

/* caught_let - let them in until caught_hold(): for calls that may block. */
void caught_let(const struct caught *c);
void caught_hold(const struct caught *c);

/* caught_take - has it come since it was asked for last? */
bool caught_take(int number);

/* caught_any - has one come that nobody took? */
bool caught_any(const struct caught *c);

/* caught_end - they do again what they did before; so do those that are still blocked. */
void caught_end(const struct caught *c);
