/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The floor of sockets: a server of requests and replies over TCP that keeps nothing. It is a
 * process of one thread around epoll, as redis-server is, takes what a request carries, and answers
 * with as many bytes as it asks for. What a store over TCP does beyond it, is the store's.
 *
 * Both ends are this program, on one machine. A request, numbers little-endian:
 *	0	4	FLOOR_MAGIC
 *	4	4	bytes that follow: a key, and the value of a put
 *	8	4	bytes that are asked for
 *	12	4	0
 * A reply:
 *	0	4	FLOOR_MAGIC
 *	4	4	bytes that follow
 */
#include "tools/lib/peer_process.h"

#define FLOOR_MAGIC	0x726f6c66u /* "flor" */
#define FLOOR_REQUEST	16u
#define FLOOR_REPLY	8u
#define FLOOR_BYTES_MAX (4u << 20)

/* floor_start - Returns 0 or a negative errno with @err. Ended by peer_stop(). */
int floor_start(struct peer_process *p, struct error *err);
