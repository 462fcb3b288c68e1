/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The sockets that carry the messages of UD queue pairs: one each, an abstract Unix socket of type
 * DGRAM whose name is made from the QP's number. It vanishes with the last descriptor, so that a
 * dead process has none.
 */
#include <assert.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum {
	DATAGRAM_MTU = 4096, /* what a message may be long */
	DATAGRAM_PIECES = 18, /* SHARED_SGES, header and one to spare */
};

#define DATAGRAM_MAGIC 0x3144554654464f53ull

enum datagram_flags {
	DATAGRAM_IMM = 1,
	DATAGRAM_SOLICITED = 2,
	DATAGRAM_GLOBAL = 4, /* sgid, dgid and the fields about the route count */
	DATAGRAM_FLAGS = 7,
};

/* In front of each message. */
struct datagram_header {
	uint64_t magic;
	uint32_t source; /* QP number, which is also in the name that it is sent from */
	uint32_t qkey;
	uint32_t imm; /* as the application gave it */
	uint32_t length; /* of the message, which follows */
	uint32_t flow_label;
	uint16_t flags; /* enum datagram_flags */
	uint16_t slid;
	uint8_t sl, path_bits, traffic_class, hop_limit;
	uint32_t reserved; /* 0 */
	union ibv_gid sgid, dgid;
};

static_assert(sizeof(struct datagram_header) == 72, "no padding");
static_assert(offsetof(struct datagram_header, sgid) == 40, "no padding");

struct datagram {
	struct datagram_header header;
	struct ibv_grh grh; /* stays in front of the message: not from the socket */
	unsigned char payload[DATAGRAM_MTU];
};

static_assert(offsetof(struct datagram, payload) == offsetof(struct datagram, grh) + 40,
	      "a receive takes both as one piece");

/* soft_datagram_open - the socket of @qpn, nonblocking. Returns it, -EADDRINUSE or another
 * error. */
int soft_datagram_open(uint32_t qpn);

/*
 * soft_datagram_send - send @pieces, the first of which is the header, from the socket @fd to the
 * one of @qpn. Never waits. Returns 0; -EAGAIN: no room there or here; -EFAULT: memory of a piece
 * is gone; -ECONNREFUSED and others: there is no way.
 */
int soft_datagram_send(int fd, uint32_t qpn, struct iovec *pieces, unsigned count);

/*
 * soft_datagram_receive - take one out of the socket, and check all of it that can be checked
 * without knowing the QP. Never waits. Returns 0; -EAGAIN: there is none; -EPROTO: that was no
 * datagram of a UD queue pair.
 */
int soft_datagram_receive(int fd, struct datagram *datagram);
