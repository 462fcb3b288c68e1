/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Attempts at queue pairs.
 *
 * One at a time is under way on a session's life line, under its lock: QP_OPEN and its answer,
 * QP_READY and its answer. The time of a call may end in between, and the answer comes when nobody
 * waits for it, perhaps while the next attempt waits for its own, which may be one of the same
 * handle. Four rules keep such an answer from doing harm, so that it costs the call that was late,
 * and neither the session nor another handle:
 *
 *  1. An attempt has a number that no other one of the session has, and an answer says it. What is
 *     about another number than that of the attempt under way is dropped, refusals included. (The
 *     mutant late_answer: the queue pair is connected to an end that the server has taken apart.)
 *  2. Whoever gives an attempt up says QP_CLOSE at once. Frames of one stream stay in order: the
 *     server opens its end, then takes it apart, before it sees the handle's next QP_OPEN.
 *  3. The reader keeps what it has of a frame over the end of a call, so the stream of what the
 *     server says stays in step. A frame of ours that could not be sent whole ends the session.
 *  4. What a server that stands still will have to do later is bounded: it is asked nothing more
 *     while it owes ATTEMPT_FRAMES_MAX answers.
 *
 * Whether the server lives is the life line's to say: that an answer is late does not.
 */
#include "client/src/link/attempt.h"

#include <errno.h>

#include "client/src/link/session.h"
#include "common/base/mutant.h"

#define NOTES_MAX (4 * SESSION_QPS_MAX) /* in a row: news of each queue pair, and late answers */
#define NOTED	  1

/* The number of the attempt that a frame answers; 0: it answers none. */
static uint32_t answered(const struct wire_frame *frame)
{
	switch (frame->type) {
	case WIRE_QP_OPENED:
		return frame->qp.ask;
	case WIRE_QP_LIVE:
		return frame->handle.number;
	case WIRE_REFUSE:
		return frame->refuse.ask;
	default:
		return 0;
	}
}

bool attempt_note(struct gkv_session *s, const struct wire_frame *frame)
{
	struct attempts *a = &s->attempts;
	const uint32_t ask = answered(frame);

	if (frame->type == WIRE_QP_LOST && frame->handle.handle < SESSION_QPS_MAX)
		/* relaxed: the handle looks at it again and again, and it orders nothing */
		atomic_store_explicit(&s->qp_lost[frame->handle.handle], frame->handle.number,
				      memory_order_relaxed);
	if (frame->type == WIRE_QP_LOST)
		return true;
	if (!ask || !a->unanswered) /* a frame that nobody asked for */
		return false;
	a->unanswered--;
	return !a->going || (ask != a->ask && !MUTANT(late_answer));
}

/* One frame. Returns NOTED, where nobody had to wait for it, or as exchange_recv(). */
static int take(struct gkv_session *s, enum wire_type want, struct wire_frame *out,
		uint64_t deadline_ns, struct error *err)
{
	int rc;

	out->type = 0;
	rc = exchange_recv(s->lifeline, &s->reader, want, out, deadline_ns, err);
	return out->type && attempt_note(s, out) ? NOTED : rc;
}

/* What was taken is no answer, because of @rc: the session stays where it is only late. */
static int no_answer(struct gkv_session *s, const struct wire_frame *got, int rc, struct error *err)
{
	if (got->type == WIRE_REFUSE)
		rc = error_set(err, -ECONNRESET, "the server at %s:%s ended the session: %s",
			       session_server(s)->host, session_server(s)->port, got->refuse.text);
	if (got->type || rc != -ETIMEDOUT)
		session_lost(s);
	return rc;
}

int attempt_begin(struct gkv_session *s, uint32_t *ask, uint64_t deadline_ns, struct error *err)
{
	struct attempts *a = &s->attempts;
	struct wire_frame late;
	int rc;

	while (a->unanswered + 2 > ATTEMPT_FRAMES_MAX) { /* QP_OPEN and QP_READY */
		rc = take(s, 0, &late, deadline_ns, err);
		if (rc != NOTED)
			return no_answer(s, &late, rc, err);
	}
	if (!++a->ask)
		a->ask++;
	*ask = a->ask;
	a->going = true;
	return 0;
}

int attempt_send(struct gkv_session *s, const struct wire_frame *frame, uint64_t deadline_ns,
		 struct error *err)
{
	int rc = exchange_send(s->lifeline, frame, deadline_ns, err);

	if (rc)
		session_lost(s); /* some of it may have gone */
	else
		s->attempts.unanswered++;
	return rc;
}

int attempt_answer(struct gkv_session *s, enum wire_type want, struct wire_frame *out,
		   uint64_t deadline_ns, struct error *err)
{
	int rc = NOTED;

	for (unsigned i = 0; i < NOTES_MAX && rc == NOTED; i++)
		rc = take(s, want, out, deadline_ns, err);
	if (rc == 0)
		return 0;
	if (rc == NOTED)
		rc = error_set(err, -EPROTO, "the server sent %u frames, and no answer", NOTES_MAX);
	if (out->type != WIRE_REFUSE || !out->refuse.ask)
		return no_answer(s, out, rc, err);
	s->attempts.going = false; /* it has nothing to be closed */
	return rc;
}

void attempt_end(struct gkv_session *s, unsigned handle, bool came_about)
{
	const struct wire_frame close = { .type = WIRE_QP_CLOSE, .handle = { .handle = handle } };
	const bool tell = s->attempts.going && !came_about && s->connected;

	s->attempts.going = false;
	if (tell && exchange_send(s->lifeline, &close, 0, NULL))
		session_lost(s);
}
