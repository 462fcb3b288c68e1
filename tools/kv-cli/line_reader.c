/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/line_reader.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_READER_BYTES (256u << 10)

int line_reader_init(struct line_reader *r, int fd, size_t max)
{
	*r = (struct line_reader){ .fd = fd, .split = { .max = max } };
	r->in = malloc(LINE_READER_BYTES);
	return r->in ? 0 : -ENOMEM;
}

void line_reader_free(struct line_reader *r)
{
	free(r->in);
	r->in = NULL;
	buffer_free(&r->split);
}

void line_reader_idle(struct line_reader *r, int (*idle)(void *arg), void *arg)
{
	r->idle = idle;
	r->idle_arg = arg;
}

/* Would read(2) wait? Of a regular file it never does. */
static bool line_reader_waits(const struct line_reader *r)
{
	struct pollfd ready = { .fd = r->fd, .events = POLLIN };

	return poll(&ready, 1, 0) == 0;
}

/* Refill the empty input. Returns 1, 0 at the end, negative errno. */
static int line_reader_fill(struct line_reader *r)
{
	ssize_t n;
	int rc;

	if (r->end)
		return 0;
	rc = r->idle && line_reader_waits(r) ? r->idle(r->idle_arg) : 0;
	if (rc)
		return rc;
	do {
		n = read(r->fd, r->in, LINE_READER_BYTES);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	r->in_pos = 0;
	r->in_len = (size_t)n;
	r->end = n == 0;
	return n > 0;
}

int line_reader_next(struct line_reader *r, struct line *out)
{
	bool too_long = false, begun = false;

	r->split.len = 0;
	for (;;) {
		const char *start, *newline;
		size_t len;
		int rc;

		if (r->in_pos == r->in_len) {
			rc = line_reader_fill(r);
			if (rc < 0)
				return rc;
			if (rc == 0 && !begun)
				return 0;
			if (rc == 0)
				break;
		}
		if (!begun)
			r->number++;
		start = r->in + r->in_pos;
		newline = memchr(start, '\n', r->in_len - r->in_pos);
		len = newline ? (size_t)(newline - start) : r->in_len - r->in_pos;
		r->in_pos += len + (newline ? 1 : 0);
		r->consumed += len + (newline ? 1 : 0);
		if (newline && !begun && len <= r->split.max) {
			*out = (struct line){ .text = start, .len = len, .newline = true };
			return 1;
		}
		begun = true;
		rc = too_long ? 0 : buffer_append(&r->split, start, len);
		if (rc == -ENOMEM)
			return rc;
		too_long = too_long || rc == -E2BIG;
		*out = (struct line){ .newline = newline != NULL };
		if (newline)
			break;
	}
	if (too_long)
		return -E2BIG;
	out->text = r->split.data ? r->split.data : "";
	out->len = r->split.len;
	return 1;
}
