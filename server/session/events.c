/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What does not come over life lines: events of the device, and what workers found out. */
#include "server/session/session.h"

#include <poll.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/time.h"

/*
 * The control thread waits this long for the last receives of queue pairs that it takes apart, for
 * all those of a session together; and after so many waits in vain it takes the device for one that
 * never tells, and waits no more until it hears of one.
 */
#define LAST_RECEIVE_NS (20 * NS_PER_MS)
#define UNTOLD_MAX	3u

void sessions_device_events(struct sessions *all)
{
	const struct rdma_device *dev = all->dev;
	struct rdma_event event;

	while (rdma_device_event(dev, &event) == 0) {
		log_line(event.fatal  ? LOG_ERROR
			 : event.port ? LOG_WARN
				      : LOG_DEBUG,
			 "rdma", "%s: %s", dev->name, event.text);
		if (event.fatal)
			all->fatal = event.text;
		if (event.last_receive) {
			/* It is still there: events die with their queue pair. */
			((struct conn *)event.context)->gave_back = true;
			all->untold = 0;
		}
	}
}

static bool gave_back(const struct session *s, unsigned first, unsigned last)
{
	for (unsigned i = first; i <= last; i++) {
		if (s->conns[i] && s->conns[i]->attached && !s->conns[i]->gave_back)
			return false;
	}
	return true;
}

void session_await_receives(struct session *s, unsigned first, unsigned last)
{
	struct sessions *all = s->all;
	uint64_t now = time_now_ns(), end = now + LAST_RECEIVE_NS;

	sessions_device_events(all);
	while (!gave_back(s, first, last) && all->untold < UNTOLD_MAX) {
		struct pollfd p = { .fd = rdma_device_event_fd(all->dev), .events = POLLIN };

		if (now >= end) {
			all->untold++;
			return;
		}
		poll(&p, 1, (int)((end - now) / NS_PER_MS) + 1);
		sessions_device_events(all);
		now = time_now_ns();
	}
}

void sessions_notices(struct sessions *all)
{
	uint64_t notices;
	struct session *s;

	if (read(all->notice_fd, &notices, sizeof(notices)) < 0)
		return;
	cds_list_for_each_entry (s, &all->list, node)
		session_qps_lost(s);
}
