/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-bench/floor.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/lib/child.h"

#define EVENTS 64
#define IN     (64u << 10)
#define OUT    (FLOOR_BYTES_MAX + (256u << 10))

/* A client of the floor server. Its requests wait while its answers do not go out. */
struct guest {
	int fd;
	bool full; /* it is waited for until it takes more */
	uint32_t skip; /* bytes that still come of a request whose head was answered */
	size_t in_at, in_len, out_at, out_len;
	char in[IN];
	char *out; /* OUT bytes */
};

static void guest_end(struct guest *g)
{
	close(g->fd);
	free(g->out);
	free(g);
}

/* Returns 0, -EAGAIN: the client takes no more at present; or another negative errno. */
static int guest_send(struct guest *g)
{
	while (g->out_at < g->out_len) {
		ssize_t n = send(g->fd, g->out + g->out_at, g->out_len - g->out_at,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno != EINTR)
			return -errno;
		g->out_at += n > 0 ? (size_t)n : 0;
	}
	g->out_at = g->out_len = 0;
	return 0;
}

/* Answer a head. Returns 0, -ENOBUFS: what is to be sent has to go first; or -EPROTO. */
static int answer(struct guest *g, const uint32_t head[4])
{
	const uint32_t reply[2] = { FLOOR_MAGIC, head[2] };

	if (head[0] != FLOOR_MAGIC || head[1] > FLOOR_BYTES_MAX || head[2] > FLOOR_BYTES_MAX)
		return -EPROTO;
	if (g->out_len + FLOOR_REPLY + head[2] > OUT)
		return -ENOBUFS;
	memcpy(g->out + g->out_len, reply, FLOOR_REPLY);
	memset(g->out + g->out_len + FLOOR_REPLY, 'x', head[2]);
	g->out_len += FLOOR_REPLY + head[2];
	return 0;
}

/* All requests that have come, as far as there is room for answers. */
static int guest_answers(struct guest *g)
{
	uint32_t head[4];
	int rc = 0;

	while (g->in_at < g->in_len) {
		size_t has = g->in_len - g->in_at;

		if (g->skip) {
			size_t n = has < g->skip ? has : g->skip;

			g->skip -= (uint32_t)n;
			g->in_at += n;
			continue;
		}
		if (has < FLOOR_REQUEST)
			break;
		memcpy(head, g->in + g->in_at, sizeof(head));
		rc = answer(g, head);
		if (rc)
			break;
		g->in_at += FLOOR_REQUEST;
		g->skip = head[1];
	}
	memmove(g->in, g->in + g->in_at, g->in_len - g->in_at);
	g->in_len -= g->in_at;
	g->in_at = 0;
	return rc;
}

static int guest_turn(struct guest *g)
{
	int rc = 0, more = -ENOBUFS;

	while (rc == 0 && more == -ENOBUFS) {
		more = guest_answers(g);
		rc = guest_send(g);
	}
	return rc ? rc : more;
}

/* Returns 0, -EAGAIN: go on when it takes more; or another negative errno: it is gone. */
static int guest_serve(struct guest *g)
{
	int rc = g->out_len || g->in_len ? guest_turn(g) : 0;
	ssize_t n;

	if (rc)
		return rc;
	n = recv(g->fd, g->in + g->in_len, IN - g->in_len, MSG_DONTWAIT); /* there is room */
	if (n == 0)
		return -ECONNRESET;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	g->in_len += (size_t)n;
	return guest_turn(g);
}

static void guest_new(int ep, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), on = 1;
	struct guest *g = fd < 0 ? NULL : calloc(1, sizeof(*g));
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = g };

	if (g)
		g->out = malloc(OUT);
	if (!g || !g->out || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e)) {
		if (fd >= 0)
			close(fd);
		if (g)
			free(g->out);
		free(g);
		return;
	}
	g->fd = fd;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void guest_event(int ep, struct guest *g)
{
	int rc = guest_serve(g);
	bool full = rc == -EAGAIN;
	struct epoll_event e = { .events = full ? EPOLLOUT : EPOLLIN, .data.ptr = g };

	if (full != g->full && (full || rc == 0)) {
		g->full = full;
		rc = epoll_ctl(ep, EPOLL_CTL_MOD, g->fd, &e);
	}
	if (rc && !full)
		guest_end(g);
}

static void serve(int listener)
{
	struct epoll_event e = { .events = EPOLLIN }, event[EVENTS];
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e))
		_exit(1);
	for (;;) {
		int n = epoll_wait(ep, event, EVENTS, -1);

		if (n < 0 && errno != EINTR)
			_exit(1);
		for (int i = 0; i < n; i++) {
			if (event[i].data.ptr)
				guest_event(ep, event[i].data.ptr);
			else
				guest_new(ep, listener);
		}
	}
}

int floor_start(struct peer_process *p, struct error *err)
{
	int listener, rc;

	*p = (struct peer_process){ .name = "the floor server" };
	listener = peer_listen(&p->port);
	if (listener < 0)
		return error_set(err, listener, "no port of 127.0.0.1 is free: %s",
				 error_name(listener));
	snprintf(p->version, sizeof(p->version), "of kv-bench " GRACEKV_VERSION ", keeps nothing");
	p->pid = child_fork();
	if (p->pid == 0)
		serve(listener);
	rc = p->pid < 0 ? -errno : 0;
	close(listener);
	if (rc) {
		p->pid = 0;
		return error_set(err, rc, "fork failed: %s", error_name(rc));
	}
	return 0;
}
