/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The device of a session, and the one that follows when it has failed: see device.c. */
#include <stdatomic.h>

#include "client/src/link/session.h"

struct session_device {
	struct rdma_device *rdma;
	_Atomic(const char *) failed; /* what it said, static, when it failed; NULL: it has not */
	unsigned users; /* the session, handles, memory; protected by handles_lock */
};

/* session_device_get - the one that the session has, with a user more; NULL: none. Any thread. */
struct session_device *session_device_get(struct gkv_session *s);

/* session_device_put - one user less; the last closes it. @d: may be NULL. Any thread. */
void session_device_put(struct gkv_session *s, struct session_device *d);

/*
 * session_device_open - must hold the lock, while there is none: open it, for a connection over
 * the socket @fd. Where it has failed before, it is the same by name.
 * Returns 0, or as rdma_device_open() and session_open_by_cm().
 */
int session_device_open(struct gkv_session *s, int fd, uint64_t deadline_ns, struct error *err);

/*
 * session_device_look - take what the device has to say. Returns whether it has failed; then the
 * session is given up, where its lock is free. Any thread.
 */
bool session_device_look(struct gkv_session *s);

/*
 * session_device_gone - the same of @d, of which the caller is a user: it has failed, or another
 * one has followed already.
 */
bool session_device_gone(struct gkv_session *s, const struct session_device *d);

/*
 * session_device_check - must hold the lock: where the device has failed, the session lets go of
 * it, and of the connection; s->lost says why.
 */
void session_device_check(struct gkv_session *s);
