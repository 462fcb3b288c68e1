/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Commands. The queue-pair thread posts a connection to its worker's mailbox with what is to be
 * done with it (conn.c); the worker takes them between two polls, in order, and posts each
 * connection back, with the result, when that is done. Nobody waits for anybody.
 */
#include "server/worker/worker_internal.h"

#include <assert.h>

static int attach(struct worker *w, struct conn *c)
{
	struct conn **chain = worker_chain(w, c->qp.qp->qp_num);

	while (w->receives.posted < w->receives.chunks * RECEIVE_CHUNK) {
		int rc = receives_post_more(&w->receives);

		if (rc)
			return rc;
	}
	c->came = c->heard = w->receives.now;
	c->next = *chain;
	*chain = c;
	atomic_fetch_add_explicit(&w->rpc.counters.connections, 1, memory_order_relaxed);
	return 0;
}

void worker_obeyed(struct worker *w, struct conn *c, int result)
{
	c->result = result;
	mailbox_post(w->rpc.config.obeyed, &c->mail); /* from now on it is not ours */
}

static void obey(struct worker *w, struct conn *c)
{
	switch (c->command) {
	case CONN_ATTACH:
		worker_obeyed(w, c, attach(w, c));
		return;
	case CONN_ANSWER:
		worker_answer(w, c);
		return;
	case CONN_DRAIN:
		worker_drain(w, c);
		return;
	case CONN_DETACH:
		worker_detach(w, c);
		return;
	case CONN_IDLE:
		break;
	}
	assert(!"a connection without a command");
}

void worker_take_commands(struct worker *w)
{
	struct mail *next;

	for (struct mail *m = mailbox_take(&w->commands); m; m = next) {
		next = m->next; /* a connection that was posted back may be gone */
		if (m == &w->stop)
			w->stopping = true;
		else
			obey(w, conn_of_mail(m));
	}
}
