/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What does not come over life lines: events of the device, and what workers found out. */
#include "server/session/session.h"

#include <unistd.h>

#include "common/base/log.h"

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
		if (event.last_receive) /* it is still there: events die with their queue pair */
			sessions_last_receive(all, event.context);
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
