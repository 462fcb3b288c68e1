/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Commands: the control thread hands one over and waits; the worker takes it between two polls. */
#include "server/worker/worker_internal.h"

#include <errno.h>
#include <unistd.h>

#include "common/base/log.h"

static void attach(struct worker *w, struct command *cmd)
{
	struct conn *c = cmd->conn, **chain = worker_chain(w, c->qp.qp->qp_num);

	while (w->receives.posted < w->receives.chunks * RECEIVE_CHUNK) {
		cmd->result = receives_post_more(&w->receives);
		if (cmd->result)
			return;
	}
	c->heard = w->receives.now;
	c->next = *chain;
	*chain = c;
	atomic_fetch_add_explicit(&w->rpc.counters.connections, 1, memory_order_relaxed);
}

void worker_take_command(struct worker *w)
{
	struct command *cmd;

	/* pairs with worker_command(): the command's fields before the pointer */
	cmd = atomic_exchange_explicit(&w->command, NULL, memory_order_acquire);
	if (!cmd)
		return;
	switch (cmd->kind) {
	case COMMAND_ATTACH:
		attach(w, cmd);
		break;
	case COMMAND_FAIL:
		worker_fail(w, cmd);
		break;
	case COMMAND_DETACH:
		worker_detach(w, cmd);
		break;
	case COMMAND_STOP:
		w->stopping = true;
		break;
	}
	sem_post(&cmd->done);
}

void worker_command(struct worker *w, struct command *cmd)
{
	uint64_t one = 1;

	sem_init(&cmd->done, 0, 0);
	atomic_store_explicit(&w->command, cmd,
			      memory_order_release); /* pairs with worker_take_command */
	if (write(w->wake_fd, &one, sizeof(one)) != sizeof(one))
		log_error("worker", "waking worker %u failed: %s", w->number, error_name(errno));
	while (sem_wait(&cmd->done) && errno == EINTR)
		;
	sem_destroy(&cmd->done);
}
