/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Unreliable datagrams, see ud.c and seat.c. A @qp is a UD queue pair. */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct soft_cq;
struct soft_local;
struct soft_qp;
struct soft_ud;

/*
 * soft_ud_open - a socket for @qp, which shall have number @qpn and is not in a state to receive.
 * Returns 0, -EADDRINUSE when that number is taken, or another negative errno.
 */
int soft_ud_open(struct soft_qp *qp, uint32_t qpn);

/* soft_ud_close - nothing is received any more when it returns. Nothing is sent meanwhile. */
void soft_ud_close(struct soft_qp *qp);

/* soft_ud_qkey - set what senders must know. Messages under way may be held against either. */
void soft_ud_qkey(struct soft_qp *qp, uint32_t qkey);

/* soft_ud_send - execute a SEND; @local was gathered. Holds sq. Returns a status or
 * EXECUTE_ROOM. */
int soft_ud_send(struct soft_qp *qp, const struct ibv_send_wr *wr, struct soft_local *local);

/* soft_ud_fence - wait for a message that is being received just now. */
void soft_ud_fence(struct soft_qp *qp);

/* soft_ud_drain - throw away what has come so far. @qp is not in a state to receive. */
void soft_ud_drain(struct soft_qp *qp);

/* soft_ud_poll - receive what has come for QPs that receive to @cq, some of it. Holds no lock. */
void soft_ud_poll(struct soft_cq *cq);

/* soft_ud_armed - @cq was armed: the service thread looks after all its sockets again. */
void soft_ud_armed(struct soft_cq *cq);

/* soft_ud_service - service thread: something has come for the QP of @index. */
void soft_ud_service(uint32_t index);

/* soft_ud_tick - service thread: returns true to be called again in a millisecond. */
bool soft_ud_tick(void);

/* soft_ud_fork_lock, _unlock, _child - around fork(); the child closes what it inherited. */
void soft_ud_fork_lock(void);
void soft_ud_fork_unlock(void);
void soft_ud_fork_child(void);
