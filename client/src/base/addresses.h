/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The addresses that the server's name stands for. The resolver takes the time that it likes, and
 * no deadline of a call ends it; so what it said is kept, and it is asked again only when no
 * connection came about with that, at most every ADDRESSES_AGAIN_MS. An address in digits is never
 * handed to it (tcp_resolve()).
 *
 * One thread at a time: the session's lock.
 */
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

#define ADDRESSES_AGAIN_MS 10000u

struct addresses {
	struct addrinfo *list; /* NULL: none known yet */
	uint64_t asked_ns; /* when the resolver had answered */
	bool failed; /* the last attempt to connect: set by the thread that attempts */
};

/*
 * addresses_find - those of @host into a->list: the known ones, or new ones, where it is time to
 * ask. Known ones stay where the resolver has no answer now.
 * Returns 0, or why there are none: as tcp_resolve().
 */
int addresses_find(struct addresses *a, const char *host, const char *port, struct error *err);

/* addresses_drop - forget them. */
void addresses_drop(struct addresses *a);
