/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* For the tests of datagrams: one message, waited for. */
#include "ends.h"

#define GRH 40 /* bytes in front of each received message */

/* A send in all that it can say. */
struct message {
	struct ibv_ah *ah;
	uint32_t qpn, qkey, length;
	unsigned flags;
	enum ibv_wr_opcode opcode;
};

/* 8 bytes, signalled, with what arrives. */
struct message message_to(const struct end *from, const struct end *to);

/* Post it, from offset 0, and wait for the end of it. */
void message_send(struct end *end, const struct message *message, enum ibv_wc_status status);

/*
 * Send from @a to @b and see it arrive in the receive of @wr_id: what was sent before has been
 * received or lost by then, since order is kept.
 */
void message_next(struct end *a, struct end *b, uint64_t wr_id);
