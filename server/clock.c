/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/time.h"

#define PERIOD_MS (CLOCK_PERIOD_MS / 4) /* the rest is for this thread to get to run */

static void *run(void *arg)
{
	const struct clock *c = arg;
	struct pollfd fds[] = { { .fd = c->stop_fd, .events = POLLIN },
				{ .fd = c->leases->box.fd, .events = POLLIN } };
	const unsigned look_ms = leases_period_ms(c->leases);
	const int period_ms = (int)(look_ms < PERIOD_MS ? look_ms : PERIOD_MS);
	uint64_t looked_ns = 0, now_ns;

	do {
		/* relaxed: a time that orders nothing */
		atomic_store_explicit(&c->root->clock_ms, store_now_ns(c->store) / NS_PER_MS,
				      memory_order_relaxed);
		leases_take(c->leases); /* those that go are waited for */
		now_ns = time_now_ns();
		if (now_ns - looked_ns >= look_ms * NS_PER_MS) {
			leases_look(c->leases, now_ns);
			looked_ns = now_ns;
		}
		poll(fds, 2, period_ms);
	} while (!fds[0].revents);
	return NULL;
}

int clock_start(struct clock *c, struct root *root, struct store *store, struct leases *leases,
		struct error *err)
{
	int rc;

	*c = (struct clock){ .root = root,
			     .store = store,
			     .leases = leases,
			     .stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
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
