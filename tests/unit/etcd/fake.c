/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/etcd/fake.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/unit.h"

#define REQUEST_MAX 65536u
#define LOOK_MS	    20
#define PATIENCE_MS 20000

struct fake {
	const struct fake_answer *answers;
	unsigned count;
	int listener;
	char url[64];
	char request[REQUEST_MAX], last[REQUEST_MAX];
	_Atomic unsigned requests;
	_Atomic bool stop;
	pthread_t thread;
};

static int listen_somewhere(char *url, size_t cap)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_ok(bind(fd, (struct sockaddr *)&at, sizeof(at)));
	assert_ok(listen(fd, 8));
	assert_ok(getsockname(fd, (struct sockaddr *)&at, &len));
	snprintf(url, cap, "http://127.0.0.1:%u", ntohs(at.sin_port));
	return fd;
}

/* Whether there is something to read, within @ms; gives up at once when told to. */
static bool readable(struct fake *f, int fd, int ms)
{
	for (int waited = 0; waited < ms && !atomic_load(&f->stop); waited += LOOK_MS) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		if (poll(&p, 1, LOOK_MS) > 0)
			return true;
	}
	return false;
}

/* Whether there is something to read, before another connection comes. */
static bool readable_first(struct fake *f, int fd)
{
	while (!atomic_load(&f->stop)) {
		struct pollfd p[2] = { { .fd = fd, .events = POLLIN },
				       { .fd = f->listener, .events = POLLIN } };

		if (poll(p, 2, LOOK_MS) > 0)
			return p[0].revents;
	}
	return false;
}

/* Bytes of a whole request that stand at the beginning of f->request; 0: there is none yet. */
static size_t whole(const struct fake *f)
{
	const char *end = strstr(f->request, "\r\n\r\n");
	const char *length = strcasestr(f->request, "content-length:");

	if (!end)
		return 0;
	end += 4;
	if (length)
		end += strtoul(length + 15, NULL, 10);
	return strlen(f->request) >= (size_t)(end - f->request) ? (size_t)(end - f->request) : 0;
}

static bool read_request(struct fake *f, int fd)
{
	size_t len = 0;

	memset(f->request, 0, sizeof(f->request));
	while (!whole(f)) {
		ssize_t got;

		if (!len && !readable_first(f, fd))
			return false;
		if (!readable(f, fd, PATIENCE_MS))
			return false;
		got = read(fd, f->request + len, sizeof(f->request) - 1 - len);
		if (got <= 0)
			return false;
		len += (size_t)got;
	}
	memcpy(f->last, f->request, sizeof(f->last));
	return true;
}

static void say(int fd, const char *text)
{
	for (size_t left = strlen(text); left;) {
		ssize_t sent = send(fd, text + strlen(text) - left, left, MSG_NOSIGNAL);

		if (sent <= 0)
			return;
		left -= (size_t)sent;
	}
}

static void hang(struct fake *f, int fd)
{
	char byte;

	while (!atomic_load(&f->stop))
		if (readable(f, fd, PATIENCE_MS) && read(fd, &byte, 1) <= 0)
			return;
}

/* Returns whether the connection goes on. */
static bool answer(struct fake *f, int fd, const struct fake_answer *a)
{
	char head[160];

	switch (a->way) {
	case FAKE_REPLY:
		snprintf(head, sizeof(head), "HTTP/1.1 %u It\r\nContent-Length: %zu\r\n\r\n",
			 a->status, strlen(a->body));
		say(fd, head);
		say(fd, a->body);
		return true;
	case FAKE_STREAM:
		snprintf(head, sizeof(head),
			 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%zx\r\n",
			 strlen(a->body));
		say(fd, head);
		say(fd, a->body);
		say(fd, "\r\n");
		hang(f, fd);
		return false;
	case FAKE_BYTES:
		say(fd, a->body);
		return false;
	case FAKE_HANG:
		hang(f, fd);
		return false;
	default:
		return false;
	}
}

static const struct fake_answer *next_answer(struct fake *f)
{
	const unsigned i = atomic_load(&f->requests);

	return &f->answers[i < f->count ? i : f->count - 1];
}

static void serve(struct fake *f, int fd)
{
	for (bool on = true; on && !atomic_load(&f->stop);) {
		const struct fake_answer *a = next_answer(f);

		if (a->way == FAKE_RESET) {
			atomic_fetch_add(&f->requests, 1);
			return;
		}
		if (!read_request(f, fd))
			return;
		if (a->path && !strstr(f->request, a->path))
			a = &(struct fake_answer){ NULL, FAKE_REPLY, 500, "not what was expected" };
		atomic_fetch_add(&f->requests, 1);
		on = answer(f, fd, a);
	}
}

static void *run(void *arg)
{
	struct fake *f = arg;

	while (!atomic_load(&f->stop)) {
		int fd;

		if (!readable(f, f->listener, PATIENCE_MS))
			continue;
		fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		serve(f, fd);
		close(fd);
	}
	return NULL;
}

struct fake *fake_start(const struct fake_answer *answers, unsigned count)
{
	struct fake *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->answers = answers;
	f->count = count;
	f->listener = listen_somewhere(f->url, sizeof(f->url));
	assert_ok(pthread_create(&f->thread, NULL, run, f));
	return f;
}

void fake_stop(struct fake *f)
{
	atomic_store(&f->stop, true);
	pthread_join(f->thread, NULL);
	close(f->listener);
	free(f);
}

const char *fake_url(const struct fake *f)
{
	return f->url;
}

unsigned fake_requests(const struct fake *f)
{
	return atomic_load(&f->requests);
}

const char *fake_request(const struct fake *f)
{
	return f->last;
}

const char *fake_nobody(void)
{
	static char url[64];

	/* A port that was free, and that the kernel does not give away again soon. */
	close(listen_somewhere(url, sizeof(url)));
	return url;
}
