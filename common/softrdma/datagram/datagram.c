/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Anybody may send to such a socket, so a received header is believed only where it can be checked:
 * sizes against what came, the sender's QP number against the name that it came from, addresses
 * against the device's. Descriptors that come along are dropped by the kernel, since no place is
 * offered for them.
 */
#include "common/softrdma/datagram/datagram.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/softrdma/device/context.h"
#include "common/softrdma/shared/shared.h"

#define SEND_BYTES   (1 << 20) /* the kernel bounds it; else few slow receivers hold up the rest */
#define DIGITS	     8
#define TEXT_OF(x)   #x
#define TEXT(x)	     TEXT_OF(x)
#define PREFIX(link) "softrdma/" TEXT(SHARED_VERSION) "/" link "/ud/"

static socklen_t datagram_address(struct sockaddr_un *address, uint32_t qpn)
{
	static const char ib[] = PREFIX("ib"), roce[] = PREFIX("roce");
	static const char hex[] = "0123456789abcdef";
	char *at = address->sun_path;

	address->sun_family = AF_UNIX;
	*at++ = 0;
	/* The processes of the two links do not find each other, as in wire.c. */
	if (soft_port_ib()) {
		memcpy(at, ib, sizeof(ib) - 1);
		at += sizeof(ib) - 1;
	} else {
		memcpy(at, roce, sizeof(roce) - 1);
		at += sizeof(roce) - 1;
	}
	for (int shift = 4 * (DIGITS - 1); shift >= 0; shift -= 4)
		*at++ = hex[qpn >> shift & 15];
	return (socklen_t)(at - (char *)address);
}

int soft_datagram_open(uint32_t qpn)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int bytes = SEND_BYTES, rc;
	struct sockaddr_un address;
	socklen_t len = datagram_address(&address, qpn);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	if (bind(fd, (struct sockaddr *)&address, len) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

int soft_datagram_send(int fd, uint32_t qpn, struct iovec *pieces, unsigned count)
{
	struct sockaddr_un address;
	struct msghdr msg = { .msg_name = &address,
			      .msg_namelen = datagram_address(&address, qpn),
			      .msg_iov = pieces,
			      .msg_iovlen = count };

	if (sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	switch (errno) {
	case EAGAIN:
	case ENOBUFS:
	case ENOMEM:
	case EINTR:
		return -EAGAIN;
	default:
		return -errno;
	}
}

/* Of a datagram of @size bytes, header included; where it was cut, the rest is of another one. */
static bool header_valid(const struct datagram_header *header, size_t size)
{
	/* So it is as long as it says, and no longer than DATAGRAM_MTU, which @size cannot
	 * exceed. */
	if (header->magic != DATAGRAM_MAGIC || size != sizeof(*header) + header->length ||
	    (header->flags & ~DATAGRAM_FLAGS) || header->reserved)
		return false;
	return !(header->flags & DATAGRAM_GLOBAL) ||
	       (soft_gid_known(&header->sgid) && soft_gid_known(&header->dgid));
}

int soft_datagram_receive(int fd, struct datagram *datagram)
{
	struct iovec pieces[] = { { &datagram->header, sizeof(datagram->header) },
				  { datagram->payload, sizeof(datagram->payload) } };
	struct sockaddr_un from, expected;
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = pieces, .msg_iovlen = 2
	};
	ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN ? -EAGAIN : -EPROTO;
	if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
	    !header_valid(&datagram->header, (size_t)n))
		return -EPROTO;
	if (msg.msg_namelen != datagram_address(&expected, datagram->header.source) ||
	    memcmp(&from, &expected, msg.msg_namelen) != 0)
		return -EPROTO;
	return 0;
}
