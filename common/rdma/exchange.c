/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/rdma/exchange.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/time.h"

#define ERRNO_MAX 4095

static int connection_lost(int code, struct error *err)
{
	return error_set(err, -ECONNRESET, "the peer closed the connection%s%s", code ? ": " : "",
			 code ? error_name(code) : "");
}

int exchange_read(int fd, struct exchange_reader *reader, struct wire_frame *out, struct error *err)
{
	const size_t head = sizeof(struct wire_header);
	struct wire_header h;
	size_t want = head;
	int rc;

	for (;;) {
		if (reader->have >= head) {
			memcpy(&h, reader->bytes, head);
			rc = wire_header_check(&h, err);
			if (rc)
				return rc;
			want = head + h.length;
			if (reader->have == want) {
				reader->have = 0;
				rc = wire_decode(reader->bytes, want, out, err);
				return rc ? rc : 1;
			}
		}
		ssize_t n =
			recv(fd, reader->bytes + reader->have, want - reader->have, MSG_DONTWAIT);

		if (n == 0)
			return connection_lost(0, err);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (n < 0)
			return connection_lost(errno, err);
		reader->have += (size_t)n;
	}
}

/* Wait for @events. Returns 0, -ETIMEDOUT. Errors of the socket show with the next call on it. */
static int wait_for(int fd, short events, uint64_t deadline_ns)
{
	for (;;) {
		uint64_t now = time_now_ns();
		struct pollfd p = { .fd = fd, .events = events };
		int rc;

		if (now >= deadline_ns)
			return -ETIMEDOUT;
		rc = poll(&p, 1, (int)((deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS));
		if (rc > 0)
			return 0;
		if (rc < 0 && errno != EINTR)
			return -errno;
	}
}

int exchange_send(int fd, const struct wire_frame *frame, uint64_t deadline_ns, struct error *err)
{
	unsigned char bytes[sizeof(struct wire_header) + WIRE_PAYLOAD_MAX];
	size_t len = wire_encode(frame, bytes), done = 0;

	while (done < len) {
		ssize_t n = send(fd, bytes + done, len - done, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			done += (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			return connection_lost(errno, err);
		if (wait_for(fd, POLLOUT, deadline_ns))
			return error_set(err, -ETIMEDOUT, "the peer takes no data");
	}
	return 0;
}

int exchange_refusal(const struct wire_refuse *r, struct error *err)
{
	const int rc = r->code < 0 && r->code >= -ERRNO_MAX ? r->code : -EPROTO;

	return error_set(err, rc, "the peer refused: %s", r->text);
}

int exchange_recv(int fd, struct exchange_reader *reader, enum wire_type want,
		  struct wire_frame *out, uint64_t deadline_ns, struct error *err)
{
	for (;;) {
		int rc = exchange_read(fd, reader, out, err);

		if (rc < 0)
			return rc;
		if (rc > 0 && out->type == WIRE_REFUSE)
			return exchange_refusal(&out->refuse, err);
		if (rc > 0 && out->type == WIRE_BYE)
			return error_set(err, -ECONNRESET, "the peer is shutting down");
		if (rc > 0 && out->type != want)
			return error_set(err, -EPROTO,
					 "the peer sent a frame of type %u where type %u was due",
					 out->type, want);
		if (rc > 0)
			return 0;
		if (wait_for(fd, POLLIN, deadline_ns))
			return error_set(err, -ETIMEDOUT,
					 "the peer did not answer in time (is it a GraceKV of this "
					 "version, and alive?)");
	}
}

int exchange_refuse(int fd, uint32_t ask, int code, const char *text)
{
	struct wire_frame frame = { .type = WIRE_REFUSE, .refuse = { .code = code, .ask = ask } };

	snprintf(frame.refuse.text, sizeof(frame.refuse.text), "%s", text);
	return exchange_send(fd, &frame, 0, NULL);
}
