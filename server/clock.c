/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/time.h"

#define PERIOD_MS (CLOCK_PERIOD_MS / 4) /* the rest is for this thread to get to run */

static void *run(void *arg)
{
	const struct clock *c = arg;
	struct pollfd stop = { .fd = c->stop_fd, .events = POLLIN };

	do /* relaxed: a time that orders nothing */
		atomic_store_explicit(&c->root->clock_ms, time_wall_ms(), memory_order_relaxed);
	while (poll(&stop, 1, PERIOD_MS) <= 0);
	return NULL;
}

int clock_start(struct clock *c, struct root *root, struct error *err)
{
	int rc;

	*c = (struct clock){ .root = root, .stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	rc = c->stop_fd < 0 ? -errno : -pthread_create(&c->thread, NULL, run, c);
	if (rc) {
		if (c->stop_fd >= 0)
			close(c->stop_fd);
		return error_set(err, rc,
				 "starting the clock's thread failed: %s (raise the limit "
				 "of threads or of open files)",
				 error_name(rc));
	}
	pthread_setname_np(c->thread, "gkv-clock");
	c->runs = true;
	return 0;
}

void clock_stop(struct clock *c)
{
	if (!c->runs)
		return;
	eventfd_write(c->stop_fd, 1);
	pthread_join(c->thread, NULL);
	close(c->stop_fd);
	c->runs = false;
}
