/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A connected socket with a buffer each way. What is handed over is sent together, when somebody
 * waits for answers; what has come is received together. Both buffers have room for all that may be
 * in flight, so that neither end can wait for the other to make room. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct stream {
	int fd;
	char *out, *in;
	size_t out_len, in_at, in_len; /* in: what has come and was not taken: in_at to in_len */
	size_t cap; /* of each buffer */
};

/*
 * stream_open - @fd is the stream's from here on, also where this fails. At most @cap bytes are on
 * their way in each direction. Returns 0 or a negative errno.
 */
int stream_open(struct stream *s, int fd, size_t cap);
void stream_close(struct stream *s);

/* stream_flush - send what was written to out. Returns 0 or a negative errno. */
int stream_flush(struct stream *s);

/*
 * stream_receive - wait for more, until @until_ns where that is not 0. Returns 1; 0: the time has
 * come; -ECONNRESET: the other end has closed; -ETIMEDOUT: it is silent; or another negative errno.
 */
int stream_receive(struct stream *s, uint64_t until_ns);
