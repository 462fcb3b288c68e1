/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A device that fails takes all along that was made on it: queue pairs, completion queues and
 * registrations are of no use any more, and calls of the verbs fail. Opened again, it is another
 * context, on which all is made afresh.
 *
 * 1. The session lets go of the failed device, and gives up its connection, so that handles learn
 *    of it as of any lost session. The next attempt to connect opens the device again, by its name:
 *    "auto" might find another one, which leads nowhere. The session's back-off paces that.
 * 2. A handle has the device that its memory is registered on. It follows the session's with its
 *    own thread, while it has no queue pair (handle_follow()): no READ, reply or WRITE can come to
 *    what it lets go of. A queue pair is made on the session's device only by a handle that has
 *    followed (link_attempt()).
 * 3. A device is closed when its last user is gone: the session, a handle, memory of the
 *    application's. So nobody calls into a context that is closed. Where a key did not die, its
 *    memory stays mapped (region.h).
 * 4. What the application has registered stays on the device that it was registered on, and values
 *    for it are copied from then on: the session can not know when the application would bear that
 *    its memory is registered again, which takes long.
 *
 * Ordering: s->device is written under lock and handles_lock, and read under either. A handle's
 * own pointer is its thread's.
 */
#include "client/src/link/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rdma/tcp.h"

#define EVENTS_MAX 16u /* of the device, at a look */

struct session_device *session_device_get(struct gkv_session *s)
{
	struct session_device *d;

	pthread_mutex_lock(&s->handles_lock);
	d = s->device;
	if (d)
		d->users++;
	pthread_mutex_unlock(&s->handles_lock);
	return d;
}

void session_device_put(struct gkv_session *s, struct session_device *d)
{
	bool last;

	if (!d)
		return;
	pthread_mutex_lock(&s->handles_lock);
	last = --d->users == 0;
	pthread_mutex_unlock(&s->handles_lock);
	if (!last)
		return;
	rdma_device_close(d->rdma);
	free(d);
}

static void set(struct gkv_session *s, struct session_device *d)
{
	pthread_mutex_lock(&s->handles_lock);
	s->device = d;
	pthread_mutex_unlock(&s->handles_lock);
}

int session_device_open(struct gkv_session *s, int fd, uint64_t deadline_ns, struct error *err)
{
	struct rdma_options options = s->settings.rdma;
	struct session_device *d = calloc(1, sizeof(*d));
	char address[64];
	int rc;

	if (!d)
		return error_set(err, -ENOMEM, "out of memory for a device");
	tcp_local_address(fd, address);
	if (s->device_name[0]) {
		options.device = s->device_name;
		options.why = "it has failed, and was opened again";
	}
	rc = s->settings.connect == GKV_CONNECT_CM
		     ? session_open_by_cm(s, fd, deadline_ns, &d->rdma, err)
		     : rdma_device_open(&d->rdma, &options, address, err);
	if (rc) {
		free(d);
		return rc;
	}
	d->rdma->options.device = d->rdma->name; /* what it was named by may go */
	memcpy(s->device_name, d->rdma->name, sizeof(s->device_name));
	d->users = 1;
	set(s, d);
	s->device_gone = false;
	return 0;
}

void session_device_check(struct gkv_session *s)
{
	struct session_device *d = s->device;
	/* relaxed: a static text */
	const char *failed = d ? atomic_load_explicit(&d->failed, memory_order_relaxed) : NULL;

	if (!failed)
		return;
	session_lost(s);
	error_set(&s->lost, -ECONNRESET,
		  "device %s: %s, and is opened again (the kernel's log may say why it failed)",
		  d->rdma->name, failed);
	s->device_gone = true;
	set(s, NULL);
	session_device_put(s, d);
}

bool session_device_look(struct gkv_session *s)
{
	struct session_device *d = session_device_get(s);
	struct rdma_event event;
	bool failed;

	if (!d) /* it has, and another thread saw it */
		return true;
	for (unsigned i = 0; i < EVENTS_MAX && rdma_device_event(d->rdma, &event) == 0; i++) {
		if (event.fatal) /* relaxed: a static text; those that see it late find out */
			atomic_store_explicit(&d->failed, event.text, memory_order_relaxed);
	}
	failed = atomic_load_explicit(&d->failed, memory_order_relaxed);
	if (failed && pthread_mutex_trylock(&s->lock) == 0) {
		session_device_check(s);
		pthread_mutex_unlock(&s->lock);
	}
	session_device_put(s, d);
	return failed;
}

bool session_device_gone(struct gkv_session *s, const struct session_device *d)
{
	bool gone = session_device_look(s);

	pthread_mutex_lock(&s->handles_lock);
	gone |= s->device != d;
	pthread_mutex_unlock(&s->handles_lock);
	return gone;
}
