/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What all commands look through: a reader, and sections on it. The essay is in inspect.c. */
#include <stdbool.h>
#include <stdint.h>

#include "client/src/know/reader.h"

#define INSPECT_AGAIN 1 /* what a look found may be in the middle of a change */
#define INSPECT_LOOKS 10u /* then what the last one found is taken for what it is */

/*
 * Where sections are: on a handle (live.c), or in a test's memory.
 * begin: open one, over a connection that works. Returns 0, or why not, with the sentence in
 *	reader->err.
 * end: READs of it are polled, or their queue pair is of no use any more.
 * pause: no section is open.
 * stopped: SIGINT came.
 */
struct inspect_ops {
	int (*begin)(void *ctx);
	void (*end)(void *ctx);
	void (*pause)(void *ctx, unsigned ms);
	bool (*stopped)(void *ctx);
};

struct inspect {
	struct reader *r;
	const struct inspect_ops *ops;
	void *ctx;
	uint64_t incarnation; /* of the server that is inspected; 0: no section was opened yet */
	uint64_t waited_ms; /* in pauses */
};

/* A look into the server's memory, in a section: it may be made again from its beginning. */
typedef int (*inspect_look)(struct inspect *in, void *arg);

/*
 * inspect_section - make @look in a section of its own; again in another one where the connection
 * was lost, a bounded number of times.
 * Returns what @look does; -ESTALE: the server restarted; or why there is no connection.
 */
int inspect_section(struct inspect *in, inspect_look look, void *arg);

/*
 * inspect_settle - the same until @look does not return INSPECT_AGAIN, INSPECT_LOOKS times at most,
 * with pauses in between. Returns as the last look.
 */
int inspect_settle(struct inspect *in, inspect_look look, void *arg);

void inspect_pause(struct inspect *in, unsigned ms);

/* inspect_failed - a sentence of our own. Returns @code. */
int inspect_failed(struct inspect *in, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
