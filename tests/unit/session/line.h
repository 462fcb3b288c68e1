/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A client's end of a life line, by hand. What it waits for comes within LINE_WAIT_MS, which a test
 * may define before, or the test fails. */
#include <string.h>

#include "common/base/time.h"
#include "common/layout/root.h"
#include "common/rdma/exchange.h"
#include "common/rdma/tcp.h"
#include "tests/lib/unit.h"

#ifndef LINE_WAIT_MS
#define LINE_WAIT_MS 20000u
#endif

struct line {
	struct exchange_reader reader;
	struct wire_frame frame; /* the last that came */
	int fd;
};

static inline uint64_t line_soon(void)
{
	return time_now_ns() + LINE_WAIT_MS * NS_PER_MS;
}

/* line_dial - @bound: where the server listens, "HOST:PORT". */
static inline void line_dial(struct line *l, const char *bound)
{
	struct error err;

	memset(l, 0, sizeof(*l));
	assert_ok(tcp_connect("127.0.0.1", strrchr(bound, ':') + 1, line_soon(), &l->fd, &err));
}

static inline void line_say(struct line *l, const struct wire_frame *frame)
{
	struct error err;

	assert_ok(exchange_send(l->fd, frame, line_soon(), &err));
}

/* line_hear - the next frame is of @type; a REFUSE and a BYE are, too, where they are wanted. */
static inline void line_hear(struct line *l, enum wire_type type)
{
	struct error err;
	int rc = exchange_recv(l->fd, &l->reader, type, &l->frame, line_soon(), &err);

	assert_true(rc == 0 || type == WIRE_REFUSE || type == WIRE_BYE);
	assert_int_equal(l->frame.type, type);
}

/* line_hello - dial, and say HELLO as client @id. */
static inline void line_hello(struct line *l, const char *bound, unsigned id)
{
	const struct wire_frame frame = { .type = WIRE_HELLO,
					  .hello = { .layout_version = LAYOUT_VERSION,
						     .layout_hash = layout_hash(),
						     .client_id = { 1, id },
						     .first_sequence = 1 } };

	line_dial(l, bound);
	line_say(l, &frame);
}
