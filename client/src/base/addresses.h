/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The addresses that the server's name stands for. The resolver takes the time that it likes, so a
 * thread of its own asks it (addresses.c), and a call waits for that until its deadline. What it
 * said is kept, and it is asked again only when no connection came about with that, at most every
 * ADDRESSES_AGAIN_MS. An address in digits is never handed to it (tcp_resolve()).
 *
 * One thread at a time: the session's lock.
 */
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

#define ADDRESSES_AGAIN_MS 10000u
#define ADDRESSES_WAIT_MS  500u /* for another answer, where there are addresses: then with them */

struct query;

struct addresses {
	struct addrinfo *list; /* NULL: none known yet */
	struct query *query; /* to the resolver, not answered when it was looked at last; NULL */
	uint64_t asked_ns; /* when the resolver's answer was taken */
	bool failed; /* the last attempt to connect: set by the thread that attempts */
};

/*
 * addresses_find - those of @host into a->list: the known ones, or new ones, where it is time to
 * ask. Known ones stay where the resolver has no answer now, or takes long.
 * Returns 0, or why there are none: as tcp_resolve(); -ETIMEDOUT: the resolver has not answered
 * until @deadline_ns, and its answer is there for a later call; -EAGAIN: no thread can be had.
 */
int addresses_find(struct addresses *a, const char *host, const char *port, uint64_t deadline_ns,
		   struct error *err);

/* addresses_drop - forget them. Does not wait for the resolver. */
void addresses_drop(struct addresses *a);
