/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The control thread: accepts connections, reads life lines, and leaves on SIGTERM or
 * SIGINT. It is the main thread of kv-server.
 */
#include <signal.h>

#include "server/session/session.h"

/* What the control thread does for the server as a whole, on its own thread. NULL: nothing. */
struct control_hooks {
	void (*reload)(void *ctx); /* SIGHUP came */
	void *reload_ctx;
	void (*tick)(void *ctx); /* several times in a lease */
	void *tick_ctx;
};

/*
 * control_run - after pairs_start(): serve until told to stop; then stop accepting, let workers
 * answer what arrived, and end every session. The signals of control_signals() must be blocked in
 * every thread.
 * @listen_fd: does not block; stays the caller's. @hooks: of the whole server; NULL: none.
 * Returns 0, or a negative errno with @err.
 */
int control_run(struct sessions *all, int listen_fd, const struct control_hooks *hooks,
		struct error *err);

/* control_signals - those that control_run() takes. */
void control_signals(sigset_t *set);
