/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the control thread, the queue-pair thread and the clock thread write each other of sessions
 * (session.h), by mailbox. A note that was posted is not touched until it has come back. */
#include <stddef.h>

#include "common/base/mailbox.h"

enum note_kind {
	/* Control thread to queue-pair thread, which sends them back, in this order. */
	NOTE_BEGIN, /* a session has said HELLO: its epoch slot is wanted */
	NOTE_OPEN, /* a queue pair is wanted */
	NOTE_CLOSE, /* one is wanted no longer */
	NOTE_END, /* the session is over: comes back when nothing of it is left */
	NOTE_STOP, /* so is the thread. Does not come back */

	/* Queue-pair thread to clock thread. */
	NOTE_LEASE_COMES, /* does not come back */
	NOTE_LEASE_GOES, /* comes back when its slot is not looked at any more */

	/* Clock thread to control thread, which answers by leases_carry_on(). */
	NOTE_FOUND, /* leases that are over */
};

struct note {
	struct mail mail;
	enum note_kind kind;
	void *of; /* struct session, or struct lease: NOTE_LEASE_ */
};

/* note_of_mail - of a mailbox of notes. */
static inline struct note *note_of_mail(struct mail *mail)
{
	return (struct note *)((char *)mail - offsetof(struct note, mail));
}
