/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The root's clock has a thread of its own, which stores the wall clock into the root page and
 * sleeps. It takes no lock, calls no verb and logs nothing, so nothing that clients or devices do
 * makes it late: what one of them keeps the control thread from doing is not the time.
 */
#include <pthread.h>
#include <stdbool.h>

#include "common/base/error.h"
#include "common/layout/root.h"

struct clock {
	struct root *root;
	pthread_t thread;
	int stop_fd; /* eventfd: readable when it is to end */
	bool runs;
};

/* clock_start - Returns 0 or a negative errno with @err. @root stays until clock_stop(). */
int clock_start(struct clock *c, struct root *root, struct error *err);

/* clock_stop - waits for the thread. One that was not started, all zeros, is fine. */
void clock_stop(struct clock *c);
