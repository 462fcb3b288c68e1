/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* An HTTP server that answers as it is told, or does not: one connection at a time, in a thread. */
#include <stdatomic.h>
#include <stdbool.h>

enum fake_way {
	FAKE_REPLY, /* status and body */
	FAKE_HANG, /* reads the request, says nothing until fake_stop() or the peer goes */
	FAKE_CLOSE, /* reads the request, and closes */
	FAKE_RESET, /* closes without reading */
	FAKE_STREAM, /* the body, as one line of an answer that goes on */
	FAKE_BYTES, /* the body, as it is, in place of an HTTP answer */
};

struct fake_answer {
	const char *path; /* what is asked must begin with it; NULL: anything */
	enum fake_way way;
	unsigned status;
	const char *body;
};

struct fake;

/* fake_start - @answers: one for each request, in order; the last one goes on. They stay. */
struct fake *fake_start(const struct fake_answer *answers, unsigned count);
void fake_stop(struct fake *f);
const char *fake_url(const struct fake *f);
unsigned fake_requests(const struct fake *f); /* that were read, or refused to be */
const char *fake_request(const struct fake *f); /* the last one, head and body */

/* fake_nobody - a URL at which nobody listens. */
const char *fake_nobody(void);
