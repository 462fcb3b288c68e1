/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The control thread: accepts connections, reads life lines, keeps the root's clock, and leaves on
 * SIGTERM or SIGINT. It is the main thread of kv-server.
 */
#include "server/session/session.h"

/*
 * control_run - serve until told to stop; then stop accepting, let workers answer what arrived, and
 * end every session. SIGTERM and SIGINT must be blocked in every thread.
 * @listen_fd: does not block; stays the caller's.
 * Returns 0, or a negative errno with @err.
 */
int control_run(struct sessions *all, int listen_fd, struct error *err);
