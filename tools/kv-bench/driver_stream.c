/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Redis, memcached and the floor server, by one stream and three codecs, rather than by a library
 * each: what the client's side costs is then the same for all of them, and little. A value is
 * looked at where it was received, without a copy; requests that are handed over together are sent
 * by one system call. That is to their advantage, as ours copies the value and makes no use of
 * batches.
 */
#include <errno.h>
#include <stdlib.h>

#include "tools/kv-bench/codec.h"
#include "tools/kv-bench/stream.h"
#include "tools/kv-bench/system.h"

struct connection {
	struct stream stream;
	const struct system *system;
	unsigned depth, first, count; /* in flight: a ring, in the order of requests */
	struct kv_op *op[];
};

static void driver_close(void *connection)
{
	struct connection *c = connection;

	stream_close(&c->stream);
	free(c);
}

static int driver_open(const struct system *system, unsigned depth, size_t value_max, void **out,
		       struct error *err)
{
	struct connection *c = calloc(1, sizeof(*c) + depth * sizeof(c->op[0]));
	int fd, rc;

	if (!c)
		return error_set(err, -ENOMEM, "no memory");
	c->system = system;
	c->depth = depth;
	fd = peer_connect(system->socket, system->port);
	rc = fd < 0 ? fd
		    : stream_open(&c->stream, fd, depth * (value_max + CODEC_MORE) + CODEC_LINE);
	if (rc == 0) {
		*out = c;
		return 0;
	}
	c->stream.fd = fd;
	driver_close(c);
	return error_set(err, rc, "connecting to %s failed: %s", system->name, error_name(rc));
}

static void driver_submit(void *connection, struct kv_op *op)
{
	struct connection *c = connection;
	struct stream *s = &c->stream;

	s->out_len += c->system->codec->request(op, s->out + s->out_len);
	c->op[(c->first + c->count++) % c->depth] = op;
}

static int failed(const struct connection *c, int rc, const char *why, struct error *err)
{
	if (rc == -EPROTO)
		return error_set(err, rc, "%s answers what is no reply: '%s'", c->system->name,
				 why);
	if (rc == -EIO)
		return error_set(err, rc, "%s refuses: %s", c->system->name, why);
	if (rc == -ETIMEDOUT)
		return error_set(err, rc, "%s has answered nothing for %u s", c->system->name,
				 DRIVER_PATIENCE_S);
	return error_set(err, rc, "the connection to %s was lost: %s", c->system->name,
			 error_name(rc));
}

/* All replies that have come whole. */
static int replies(struct connection *c, struct kv_op **done, unsigned max, struct error *err)
{
	struct stream *s = &c->stream;
	char why[CODEC_WHY_MAX] = "";
	unsigned n = 0;

	while (n < max && c->count && s->in_at < s->in_len) {
		struct kv_op *op = c->op[c->first];
		ssize_t took =
			c->system->codec->reply(op, s->in + s->in_at, s->in_len - s->in_at, why);

		if (took < 0)
			return failed(c, (int)took, why, err);
		if (took == 0)
			break;
		s->in_at += (size_t)took;
		c->first = (c->first + 1) % c->depth;
		c->count--;
		done[n++] = op;
	}
	if (c->count == 0 && s->in_at < s->in_len)
		return failed(c, -EPROTO, "more than was asked for", err);
	return (int)n;
}

static int driver_collect(void *connection, struct kv_op **done, unsigned max, uint64_t until_ns,
			  struct error *err)
{
	struct connection *c = connection;
	int rc = c->stream.out_len ? stream_flush(&c->stream) : 0, n = 0;

	if (rc < 0)
		return failed(c, rc, "", err);
	while (c->count && (n = replies(c, done, max, err)) == 0) {
		rc = stream_receive(&c->stream, until_ns);
		if (rc == 0)
			return 0;
		if (rc < 0)
			return failed(c, rc, "more than was asked for", err);
	}
	return n;
}

const struct driver driver_stream = { driver_open, driver_submit, driver_collect, driver_close };
