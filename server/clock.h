/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The clock thread stores the wall clock, as the store has it, into the root page, keeps the leases
 * of sessions (session/lease.h), and sleeps. It takes no lock, allocates nothing, calls no verb and
 * logs nothing, so nothing that clients or devices do makes it late: what one of them keeps another
 * thread from doing is not the time.
 */
#include <pthread.h>
#include <stdbool.h>

#include "common/base/error.h"
#include "common/layout/root.h"
#include "server/session/lease.h"
#include "server/store/store.h"

struct clock {
	struct root *root;
	struct store *store;
	struct leases *leases;
	pthread_t thread;
	int stop_fd; /* eventfd: readable when it is to end */
	bool runs;
};

/*
 * clock_start - Returns 0 or a negative errno with @err. @root, @store and @leases stay until
 * clock_stop(), which comes after the end of the last session: a lease that goes waits for this
 * thread.
 */
int clock_start(struct clock *c, struct root *root, struct store *store, struct leases *leases,
		struct error *err);

/* clock_stop - waits for the thread. One that was not started, all zeros, is fine. */
void clock_stop(struct clock *c);
