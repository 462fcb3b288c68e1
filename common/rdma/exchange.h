/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Frames over a TCP socket: the exchange, and the life line. wire_tcp.h says what they are.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/layout/wire_tcp.h"

#define EXCHANGE_DEADLINE_MS 5000u

/* Collects one frame from a socket that need not deliver it at once. Zero it to start. */
struct exchange_reader {
	size_t have;
	unsigned char bytes[sizeof(struct wire_header) + WIRE_PAYLOAD_MAX];
};

/*
 * exchange_read - read what is there, without blocking.
 * Returns 1: @out holds a frame; 0: more must come; -ECONNRESET: the peer closed or vanished;
 * -EPROTO, -EPROTONOSUPPORT: as wire_decode().
 */
int exchange_read(int fd, struct exchange_reader *reader, struct wire_frame *out,
		  struct error *err);

/* exchange_send - the whole frame, waiting at most until @deadline_ns. -ETIMEDOUT, -ECONNRESET. */
int exchange_send(int fd, const struct wire_frame *frame, uint64_t deadline_ns, struct error *err);

/*
 * exchange_recv - wait for a frame of type @want until @deadline_ns.
 * A REFUSE becomes its code and text. Returns 0, -ETIMEDOUT, or as exchange_read().
 */
int exchange_recv(int fd, struct exchange_reader *reader, enum wire_type want,
		  struct wire_frame *out, uint64_t deadline_ns, struct error *err);

/* exchange_refusal - what a REFUSE says: @err, and its code, which is negative. */
int exchange_refusal(const struct wire_refuse *r, struct error *err);

/*
 * exchange_refuse - tell the peer in words why not, without blocking. @ask: of what is refused; 0:
 * the session, or connection. A negative errno when the frame did not go out whole: nothing else
 * may be sent then.
 */
int exchange_refuse(int fd, uint32_t ask, int code, const char *text);
