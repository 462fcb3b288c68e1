/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The socket between processes, for the control path only: which process holds a slot,
 * and file descriptors on request. Abstract Unix sockets of type SEQPACKET; a slot is claimed by
 * binding its name, which is exclusive and vanishes with the process. One request, one reply. RoCE
 * and InfiniBand (port.c) have names of their own.
 */
#include <stddef.h>
#include <stdint.h>

#define WIRE_FDS_MAX 2

enum wire_op {
	WIRE_HELLO, /* arena and kick descriptor */
	WIRE_CHANNEL, /* arg: id of a completion channel; its eventfd */
	WIRE_FILE, /* arg: id of a file that regions lie in; the file */
};

struct wire_request {
	uint32_t op, sequence;
	uint64_t arg;
};

struct wire_reply {
	uint32_t sequence;
	int32_t error; /* 0 or a negative errno */
	uint64_t incarnation;
};

/*
 * soft_wire_claim - bind some free slot. Returns a listening descriptor, or a negative errno:
 * -EUSERS when all are taken.
 */
int soft_wire_claim(uint32_t *slot);

/* soft_wire_connect - returns a descriptor or a negative errno, after @timeout_ms at the latest. */
int soft_wire_connect(uint32_t slot, int timeout_ms);

/* soft_wire_send - never blocks. @count descriptors go along. Returns 0 or a negative errno. */
int soft_wire_send(int fd, const void *message, size_t size, const int *fds, unsigned count);

/*
 * soft_wire_receive - never blocks. @fds: WIRE_FDS_MAX places, -1 where nothing came.
 * Returns 0, -EAGAIN, -EPIPE when the other side is gone, -EPROTO for another size.
 */
int soft_wire_receive(int fd, void *message, size_t size, int *fds);
