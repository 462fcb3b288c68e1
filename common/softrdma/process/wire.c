/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/process/wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/random.h"
#include "common/base/time.h"
#include "common/softrdma/device/port.h"
#include "common/softrdma/shared/shared.h"

#define BACKLOG	 SHARED_SLOTS /* or net.core.somaxconn, if that is less */
#define RETRY_NS 2000000

static socklen_t wire_address(struct sockaddr_un *address, uint32_t slot)
{
	int n;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	n = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "softrdma/%u/%s/%u",
		     SHARED_VERSION, soft_port_ib() ? "ib" : "roce", slot);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int soft_wire_claim(uint32_t *slot)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	uint32_t start = 0;
	int rc;

	if (fd < 0)
		return -errno;
	/* Somewhere else each time: a stale QP number then rarely names a living process. */
	if (random_fill(&start, sizeof(start), NULL))
		start = (uint32_t)getpid();
	for (uint32_t i = 0; i < SHARED_SLOTS; i++) {
		struct sockaddr_un address;
		socklen_t len;

		*slot = (start % SHARED_SLOTS + i) % SHARED_SLOTS;
		len = wire_address(&address, *slot);
		if (bind(fd, (struct sockaddr *)&address, len) == 0) {
			if (listen(fd, BACKLOG) == 0)
				return fd;
			break;
		}
		if (errno != EADDRINUSE)
			break;
	}
	rc = errno == EADDRINUSE ? -EUSERS : -errno;
	close(fd);
	return rc;
}

int soft_wire_connect(uint32_t slot, int timeout_ms)
{
	uint64_t deadline = time_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	struct sockaddr_un address;
	socklen_t len = wire_address(&address, slot);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

	if (fd < 0)
		return -errno;
	while (connect(fd, (struct sockaddr *)&address, len) < 0) {
		rc = -errno;
		/* EAGAIN: its backlog is full */
		if ((rc == -EAGAIN || rc == -EINTR) && time_now_ns() < deadline) {
			time_sleep(RETRY_NS);
			continue;
		}
		close(fd);
		return rc;
	}
	return fd;
}

int soft_wire_send(int fd, const void *message, size_t size, const int *fds, unsigned count)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)message, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (count) {
		struct cmsghdr *c = &control.header;

		memset(&control, 0, sizeof(control));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	}
	if (sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return -errno;
	return 0;
}

int soft_wire_receive(int fd, void *message, size_t size, int *fds)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = message, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n;

	for (unsigned i = 0; i < WIRE_FDS_MAX; i++)
		fds[i] = -1;
	do {
		n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -EAGAIN : -EPIPE;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		    c->cmsg_len <= CMSG_LEN(WIRE_FDS_MAX * sizeof(int)))
			memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	}
	if (n > 0 && (size_t)n == size && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return 0;
	for (unsigned i = 0; i < WIRE_FDS_MAX; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
	return n == 0 ? -EPIPE : -EPROTO;
}
