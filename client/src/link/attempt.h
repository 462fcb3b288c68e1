/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Attempts at queue pairs, by the exchange over the life line. The essay is in attempt.c. */
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/layout/limits.h"
#include "common/layout/wire_tcp.h"

#define ATTEMPT_FRAMES_MAX (2 * SESSION_QPS_MAX) /* that the server owes an answer to */

struct gkv_session;

/* A session's; under its lock. */
struct attempts {
	uint32_t ask; /* number of the last one; 0: there was none */
	bool going; /* it is under way: its answers are waited for */
	unsigned unanswered; /* frames that the server owes an answer to, on this connection */
};

/*
 * What follows must hold the session's lock, from attempt_begin() to attempt_end().
 *
 * attempt_begin - its number into @ask. Where the server owes too many answers already some are
 *	waited for. Returns 0, or as attempt_answer().
 * attempt_send - QP_OPEN, or QP_READY. Returns 0, or why not: the session was given up then.
 * attempt_answer - wait for the answer, which is to be of type @want. News of queue pairs that
 *	comes in between is noted, answers to earlier attempts are dropped. Returns 0; why the
 *	server refuses; -ETIMEDOUT: the answer may come later; or why the session was given up.
 * attempt_end - @came_about: the queue pair of @handle did. Otherwise the server, which may have
 *	one for it now or later, is told that nobody waits.
 */
int attempt_begin(struct gkv_session *s, uint32_t *ask, uint64_t deadline_ns, struct error *err);
int attempt_send(struct gkv_session *s, const struct wire_frame *frame, uint64_t deadline_ns,
		 struct error *err);
int attempt_answer(struct gkv_session *s, enum wire_type want, struct wire_frame *out,
		   uint64_t deadline_ns, struct error *err);
void attempt_end(struct gkv_session *s, unsigned handle, bool came_about);

/* attempt_note - must hold the session's lock. Whether the frame is one that nobody has to wait
 * for: news of a queue pair, which is noted, or an answer that comes too late. */
bool attempt_note(struct gkv_session *s, const struct wire_frame *frame);
