/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/call/ready.h"

#include <errno.h>

#include "client/src/flight/async.h"

/* The pause is longer than the call may take; why the last queue pair broke is known still. */
static int never_due(struct gkv *h)
{
	if (!h->lost.code)
		return error_set(
			&h->error, -ETIMEDOUT,
			"queue pairs to %s:%s keep breaking, and the next one is due after "
			"the %u ms of this call (the log of kv-server may say more)",
			h->session->settings.host, h->session->settings.port,
			h->session->settings.timeout_ms);
	h->error = h->lost;
	error_prefix(&h->error, "queue pairs keep breaking, the next one is due after this call");
	h->error.code = -ETIMEDOUT;
	return -ETIMEDOUT;
}

int handle_connect(struct gkv *h)
{
	uint64_t deadline_ns = handle_deadline(h), due;
	bool again;
	int rc;

	handle_disconnect(h);
	if (h->async && !connector_settle(h->async, deadline_ns)) {
		connector_why(h->async);
		h->error.code = -ETIMEDOUT;
		return -ETIMEDOUT;
	}
	if (handle_current(h))
		return 0;
	for (;;) {
		/* A queue pair that broke before it did any work is not replaced at once. */
		due = backoff_due(&h->backoff, time_now_ns());
		backoff_sleep(due, deadline_ns);
		if (due > deadline_ns) /* without time it would cost all handles their session */
			return never_due(h);
		rc = handle_attempt(h, deadline_ns, &due, &again);
		if (rc == 0)
			break;
		handle_disconnect(h);
		if (rc == -ESHUTDOWN)
			return -ECONNRESET; /* by ourselves, for good */
		if (!again || time_now_ns() >= deadline_ns)
			return rc;
		backoff_sleep(due, deadline_ns); /* without the lock */
		if (time_now_ns() >= deadline_ns)
			return rc;
	}
	h->reader.stats.reconnects += h->connected_before;
	h->connected_before = true;
	if (h->async)
		async_up(h->async);
	bell_ring(&h->session->bell); /* its queue pair is to be made again as well */
	return 0;
}
