/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Frames over a socket: in pieces, cut off, refused, too late. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/rdma/exchange.h"
#include "common/rdma/tcp.h"

#define FRAME_MAX (sizeof(struct wire_header) + WIRE_PAYLOAD_MAX)

struct pair {
	int fd[2];
};

static struct pair make_pair(void)
{
	struct pair p;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p.fd), 0);
	return p;
}

static uint64_t soon(void)
{
	return time_now_ns() + 200 * NS_PER_MS;
}

UNIT_TEST(byte_by_byte)
{
	struct wire_frame in = { .type = WIRE_QP_OPEN, .qp = { .qpn = 77 } }, out;
	struct exchange_reader reader = { 0 };
	struct pair p = make_pair();
	unsigned char bytes[FRAME_MAX];
	struct error err;
	size_t len = wire_encode(&in, bytes);

	for (size_t i = 0; i < len; i++) {
		assert_int_equal(exchange_read(p.fd[1], &reader, &out, &err), 0);
		assert_int_equal(write(p.fd[0], bytes + i, 1), 1);
	}
	assert_int_equal(exchange_read(p.fd[1], &reader, &out, &err), 1);
	assert_int_equal(out.qp.qpn, 77);
	assert_int_equal(exchange_read(p.fd[1], &reader, &out, &err), 0);
	close(p.fd[0]);
	assert_int_equal(exchange_read(p.fd[1], &reader, &out, &err), -ECONNRESET);
	close(p.fd[1]);
}

UNIT_TEST(two_at_once)
{
	struct wire_frame a = { .type = WIRE_QP_READY, .handle = { 1, 0 } },
			  b = { .type = WIRE_QP_LIVE, .handle = { 2, 0 } }, out;
	struct exchange_reader reader = { 0 };
	struct pair p = make_pair();
	struct error err;

	assert_int_equal(exchange_send(p.fd[0], &a, soon(), &err), 0);
	assert_int_equal(exchange_send(p.fd[0], &b, soon(), &err), 0);
	assert_int_equal(exchange_recv(p.fd[1], &reader, WIRE_QP_READY, &out, soon(), &err), 0);
	assert_int_equal(exchange_recv(p.fd[1], &reader, WIRE_QP_LIVE, &out, soon(), &err), 0);
	assert_int_equal(out.handle.handle, 2);
	close(p.fd[0]);
	close(p.fd[1]);
}

UNIT_TEST(refusals)
{
	static const int strange[] = { 0, 1, EUSERS, -4096, INT_MIN }; /* not negative errnos */
	struct exchange_reader reader = { 0 };
	struct wire_frame out;
	struct pair p = make_pair();
	struct error err;

	exchange_refuse(p.fd[0], 0, -EUSERS, "no room");
	assert_int_equal(exchange_recv(p.fd[1], &reader, WIRE_WELCOME, &out, soon(), &err),
			 -EUSERS);
	assert_non_null(strstr(err.text, "no room"));
	for (unsigned i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		exchange_refuse(p.fd[0], 0, strange[i], "hm");
		assert_int_equal(exchange_recv(p.fd[1], &reader, WIRE_WELCOME, &out, soon(), &err),
				 -EPROTO);
	}
	assert_int_equal(exchange_recv(p.fd[1], &reader, WIRE_WELCOME, &out, soon(), &err),
			 -ETIMEDOUT);
	assert_int_equal(write(p.fd[0], "GET / HTTP/1.1\r\n\r\n", 18), 18);
	assert_int_equal(exchange_recv(p.fd[1], &reader, WIRE_WELCOME, &out, soon(), &err),
			 -EPROTO);
	close(p.fd[0]);
	close(p.fd[1]);
}

/* A peer that never reads must not hold us for ever. */
UNIT_TEST(a_full_socket_times_out)
{
	struct wire_frame frame = { .type = WIRE_REFUSE };
	struct pair p = make_pair();
	struct error err;
	int rc = 0;

	for (unsigned i = 0; i < 100000 && rc == 0; i++)
		rc = exchange_send(p.fd[0], &frame, soon(), &err);
	assert_int_equal(rc, -ETIMEDOUT);
	close(p.fd[0]);
	close(p.fd[1]);
}

/* The kernel takes at most 127 probes: all that an option may say must do, from 1 ms to a day. */
UNIT_TEST(a_life_line_of_any_length)
{
	static const unsigned seconds[] = { 0, 1, 2, 3, 126, 127, 128, 255, 1000, 86400 };
	int fd = socket(AF_INET, SOCK_STREAM, 0), interval, probes;
	socklen_t len = sizeof(int);

	assert_true(fd >= 0);
	assert_int_equal(tcp_lifeline(fd, 1), 0);
	for (unsigned i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		assert_int_equal(tcp_lifeline(fd, seconds[i] * 1000), 0);
		getsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, &len);
		getsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, &len);
		assert_in_range(interval * probes, 1, seconds[i] < 2 ? 1 : seconds[i] - 1);
	}
	close(fd);
}
