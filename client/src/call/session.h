/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
#include "client/src/link/session.h"

/* session_release_handle - give @number back; frees the session where it was the last and
 * gkv_session_close() was called. Waits for no connection: takes handles_lock alone. */
void session_release_handle(struct gkv_session *s, unsigned number);

/* session_hold_memory - it lasts until as many session_release_memory(), which may free it. */
void session_hold_memory(struct gkv_session *s);
void session_release_memory(struct gkv_session *s);
