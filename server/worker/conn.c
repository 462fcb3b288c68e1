/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Connections from the control thread's side. */
#include "server/worker/conn.h"

#include <errno.h>
#include <stdlib.h>

#include "server/worker/worker_internal.h"

/* Sends that one request slot can have in the queue: a READ, a WRITE and the reply. */
#define SENDS_PER_SLOT 3u

int conn_create(struct conn **out, struct worker *w, unsigned credits, struct error *err)
{
	const struct rdma_device *dev = w->rpc.config.dev;
	const struct rdma_qp_config config = {
		.cq = &w->cq,
		.srq = &w->receives.srq,
		.max_send = SENDS_PER_SLOT * credits + credits + 16,
		.inline_min = dev->software ? RPC_REPLY_MAX : RPC_REPLY_BYTES,
		.remote_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	struct conn *c;
	int rc;

	rc = receives_room(&w->receives, dev, w->credits + credits, err);
	if (rc)
		return rc;
	c = calloc(1, sizeof(*c));
	if (!c)
		return error_set(err, -ENOMEM, "out of memory for a connection");
	rc = rdma_buffer_create(dev, RPC_SLOTS_MAX * RPC_REPLY_MAX + CONN_STATS_BYTES,
				IBV_ACCESS_LOCAL_WRITE, "reply buffers", &c->replies, err);
	if (rc)
		goto err_free;
	rc = rdma_qp_create(dev, &config, &c->qp, err);
	if (rc)
		goto err_replies;
	c->worker = w;
	c->credits = credits;
	for (unsigned i = 0; i < RPC_SLOTS_MAX; i++) {
		c->request[i].conn = c;
		c->request[i].slot = (uint16_t)i;
	}
	w->credits += credits;
	*out = c;
	return 0;

err_replies:
	rdma_buffer_destroy(&c->replies);
err_free:
	free(c);
	return rc;
}

int worker_attach(struct conn *c, struct error *err)
{
	struct command attach = { .kind = COMMAND_ATTACH, .conn = c };

	worker_command(c->worker, &attach);
	if (attach.result)
		return error_set(err, attach.result, "posting receives failed: %s",
				 error_name(attach.result));
	c->attached = true;
	return 0;
}

void conn_destroy(struct conn *c, bool graceful)
{
	struct command detach = { .kind = COMMAND_DETACH, .conn = c, .graceful = graceful };

	if (!c)
		return;
	if (c->attached)
		worker_command(c->worker, &detach); /* destroys the queue pair */
	else
		rdma_qp_destroy(&c->qp);
	rdma_buffer_destroy(&c->replies);
	c->worker->credits -= c->credits;
	free(c);
}
