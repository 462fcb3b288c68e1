/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Connections, and what a worker counts, from the queue-pair thread's side. */
#include "server/worker/conn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "server/worker/worker_internal.h"

/* Sends that one request slot can have in the queue: a READ, a WRITE and the reply. */
#define SENDS_PER_SLOT 3u
#define CREDITS_SHARE  32u /* one queue pair is granted at most this part of what is left */

/*
 * What a queue pair is granted of the credits that it asks for: all, while there are plenty; then
 * a share of what is left, so that a greedy client leaves room for others.
 */
static unsigned granted(const struct worker *w, unsigned asked)
{
	unsigned room = receives_credits(&w->receives);
	unsigned left = room > w->credits ? room - w->credits : 0;
	unsigned share = left / CREDITS_SHARE;

	return asked <= share ? asked : share ? share : 1;
}

/* What belongs to request slots, and to places of the send queue, is as many as those. */
static struct conn *conn_new(struct worker *w, unsigned credits, unsigned places)
{
	uint32_t marks = 1;
	struct conn *c;

	while (marks < places)
		marks *= 2;
	c = calloc(1, sizeof(*c) + credits * sizeof(c->request[0]) + marks * sizeof(uint32_t));
	if (!c)
		return NULL;
	c->worker = w;
	c->credits = credits;
	c->gave_back = !credits; /* it has no receive to give back */
	c->queue.places = places;
	c->queue.marks = marks;
	c->queue.mark = (uint32_t *)&c->request[credits];
	for (unsigned i = 0; i < credits; i++) {
		c->request[i].conn = c;
		c->request[i].slot = (uint16_t)i;
	}
	return c;
}

int conn_create(struct conn **out, struct worker *w, unsigned asked,
		const struct rdma_source *source, struct error *err)
{
	const struct rdma_device *dev = w->rpc.config.dev;
	const unsigned credits = granted(w, asked);
	struct rdma_qp_config config = {
		.cq = &w->cq,
		.srq = credits ? &w->receives.srq : NULL,
		.max_recv = 1, /* without credits, and nothing is posted there */
		/* without credits nothing is sent but the marker (apart.c) */
		.max_send = credits ? SENDS_PER_SLOT * credits + credits + 16 : 1,
		.inline_wish = !credits	       ? 0
			       : dev->software ? RPC_REPLY_MAX
					       : RPC_REPLY_BYTES,
		/* without credits it is the housekeeper's: that one writes the epoch slot */
		.remote_access = IBV_ACCESS_REMOTE_READ | (credits ? 0 : IBV_ACCESS_REMOTE_WRITE),
		.source = source,
	};
	struct conn *c;
	int rc;

	rc = credits ? receives_room(&w->receives, dev, w->credits + credits, err) : 0;
	if (rc)
		return rc;
	if (w->sends + config.max_send + w->receives.max > (unsigned)w->cq.cq->cqe)
		return error_set(err, -EUSERS,
				 "the completion queue of a worker has no room for one more queue "
				 "pair (close some, or start the server with more --workers)");
	c = conn_new(w, credits, config.max_send);
	if (!c)
		return error_set(err, -ENOMEM, "out of memory for a connection");
	rc = credits ? rdma_buffer_create(dev, credits * RPC_REPLY_MAX, IBV_ACCESS_LOCAL_WRITE,
					  "reply buffers", &c->replies, err)
		     : 0;
	if (rc)
		goto err_free;
	config.context = c;
	rc = rdma_qp_create(dev, &config, &c->qp, err);
	if (rc)
		goto err_replies;
	w->credits += credits;
	w->sends += config.max_send;
	*out = c;
	return 0;

err_replies:
	rdma_buffer_destroy(&c->replies);
err_free:
	free(c);
	return rc;
}

static void order(struct conn *c, enum conn_command command)
{
	c->command = command;
	mailbox_post(&c->worker->commands, &c->mail);
}

void conn_attach(struct conn *c)
{
	order(c, CONN_ATTACH);
}

void conn_answer(struct conn *c, uint64_t until_ns)
{
	c->until_ns = until_ns;
	order(c, CONN_ANSWER);
}

void conn_drain(struct conn *c)
{
	order(c, CONN_DRAIN);
}

void conn_detach(struct conn *c)
{
	order(c, CONN_DETACH);
}

void conn_fail(struct conn *c)
{
	/* relaxed: see expect_failure() */
	atomic_store_explicit(&c->doomed, true, memory_order_relaxed);
	c->alive = rdma_qp_fail(&c->qp) != 0;
}

int conn_destroy(struct conn *c)
{
	/* in ERR it serves nothing remote, destroyed or not */
	return rdma_qp_destroy(&c->qp) && c->alive ? -EIO : 0;
}

void conn_free(struct conn *c)
{
	cm_destroy(c->cm); /* after its queue pair: the client takes it for that one's end */
	rdma_buffer_destroy(&c->replies);
	c->worker->credits -= c->credits;
	c->worker->sends -= c->queue.places;
	free(c);
}

const struct worker_counters *worker_counters(const struct worker *w)
{
	return &w->rpc.counters;
}

const struct write_door *worker_door(const struct worker *w)
{
	return &w->rpc.door;
}

uint64_t worker_receives_lost(const struct worker *w)
{
	/* relaxed: a counter */
	return atomic_load_explicit(&w->receives.lost, memory_order_relaxed);
}

unsigned worker_receives_held(const struct worker *w)
{
	/* relaxed: a number to look at */
	return atomic_load_explicit(&w->receives.held, memory_order_relaxed);
}

unsigned worker_credits(const struct worker *w)
{
	return w->credits;
}
