/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-bench/stream.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tools/kv-bench/driver.h"

int stream_open(struct stream *s, int fd, size_t cap)
{
	struct timeval patience = { .tv_sec = DRIVER_PATIENCE_S };

	*s = (struct stream){ .fd = fd, .cap = cap, .out = malloc(cap), .in = malloc(cap) };
	if (!s->out || !s->in)
		return -ENOMEM;
	return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ? -errno : 0;
}

void stream_close(struct stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	free(s->out);
	free(s->in);
	*s = (struct stream){ .fd = -1 };
}

/* There is always room: it is for all that is in flight. */
static int take(struct stream *s, int flags)
{
	ssize_t n;

	if (s->in_at == s->in_len)
		s->in_at = s->in_len = 0;
	if (s->in_len == s->cap && s->in_at) {
		memmove(s->in, s->in + s->in_at, s->in_len - s->in_at);
		s->in_len -= s->in_at;
		s->in_at = 0;
	}
	if (s->in_len == s->cap)
		return -EPROTO; /* more than was asked for */
	n = recv(s->fd, s->in + s->in_len, s->cap - s->in_len, flags);
	if (n < 0)
		return -errno;
	s->in_len += (size_t)n;
	return n ? 1 : -ECONNRESET;
}

/* The other end takes no more at present: it may be waiting for us to take its answers. */
static int wait_for_room(struct stream *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN | POLLOUT };
	int rc = poll(&p, 1, DRIVER_PATIENCE_S * 1000);

	if (rc < 0)
		return errno == EINTR ? 0 : -errno;
	if (rc == 0)
		return -ETIMEDOUT;
	if (!(p.revents & POLLIN))
		return 0;
	rc = take(s, MSG_DONTWAIT);
	return rc < 0 && rc != -EAGAIN && rc != -EINTR ? rc : 0;
}

int stream_flush(struct stream *s)
{
	size_t at = 0;
	int rc = 0;

	while (at < s->out_len && rc == 0) {
		ssize_t n = send(s->fd, s->out + at, s->out_len - at, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0)
			at += (size_t)n;
		else if (errno == EAGAIN)
			rc = wait_for_room(s);
		else if (errno != EINTR)
			rc = -errno;
	}
	s->out_len = 0;
	return rc;
}

static int wait_until(const struct stream *s, uint64_t until_ns)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	uint64_t now = time_now_ns();
	uint64_t left = now < until_ns ? until_ns - now : 0;
	struct timespec ts = { (time_t)(left / NS_PER_S), (long)(left % NS_PER_S) };
	int rc = ppoll(&p, 1, &ts, NULL);

	return rc < 0 && errno == EINTR ? 0 : rc < 0 ? -errno : rc;
}

int stream_receive(struct stream *s, uint64_t until_ns)
{
	int rc;

	if (until_ns) {
		rc = wait_until(s, until_ns);
		if (rc <= 0)
			return rc;
	}
	do
		rc = take(s, 0);
	while (rc == -EINTR);
	return rc == -EAGAIN ? -ETIMEDOUT : rc;
}
