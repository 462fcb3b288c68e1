/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The housekeeper of a session: tells the server, over a queue pair of its own, that the session
 * lives, and which epochs none of its sections looks back to (DESIGN 5.3). The essays are in
 * round.c, pace.c and thread.c.
 *
 * Locks: round_lock, then session->lock.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/src/base/figures.h"
#include "common/base/error.h"

#define HOUSEKEEPER_SLOT_AT 512u /* bytes: the image of the epoch slot in h's scratch memory */

struct gkv;
struct gkv_session;

struct housekeeper {
	pthread_mutex_t round_lock; /* one round at a time; protects what follows */
	struct gkv *h; /* hidden: not counted among the handles; NULL: none was needed yet */
	uint64_t slot_addr; /* of the epoch slot, of the connection that h belongs to */
	uint32_t slot_rkey;
	unsigned lease_ms; /* that the server said last */
	unsigned pause_ms; /* the last one, but for those of HOUSEKEEPER_HURRY */
	uint64_t until; /* of the group's lease, that the last round has READ, */
	uint64_t until_before, until_ns; /* another one than before, when: time_now_ns() */
	uint64_t epoch; /* that the last round has READ, */
	bool epoch_grew; /* that it found another one, */
	bool all_said; /* and that what it announced says all of it */
	uint64_t took_ms; /* the last round; 0: none was made */
	uint64_t calls; /* epochs_calls() of the last round */
	uint64_t beat;
	uint64_t connection; /* session_number of what follows */
	struct handle_figures before; /* of what handles did: told to earlier connections */
	struct handle_figures said; /* told to this one */
	uint64_t looked_ns; /* at the device's events */
	bool wrote; /* the queue pair has carried a whole round */
	bool started; /* the thread, to be joined */
	pthread_t thread;

	/* One writer at a time, under round_lock; any reader. */
	_Atomic uint64_t rounds; /* that came to their end */
	_Atomic uint64_t messages;
	_Atomic uint64_t polled; /* sections that were closed for handles that nobody polled */
};

/* housekeeper_init - of a session that is not shared yet. */
void housekeeper_init(struct housekeeper *k);
void housekeeper_destroy(struct housekeeper *k);

/*
 * housekeeper_begin - a handle was opened: make a round, unless a thread makes them, and start the
 * thread, where there is none and the session wants one. Waits for the pause between attempts to
 * open the queue pair.
 * Returns 0, also where the connection was lost meanwhile; why there is none, with @err: -EUSERS,
 * -ENOMEM, -EAGAIN, ...; -ETIMEDOUT; -ECONNRESET: the session was closed.
 */
int housekeeper_begin(struct gkv_session *s, uint64_t deadline_ns, struct error *err);

/*
 * housekeeper_nudge - the calling thread, with no section open, waits for memory that sessions hold
 * back: make a round, by the thread if there is one. Takes a tenth of a second at most, and no
 * longer than the call may, @deadline_ns; opens no queue pair. A round that finds no time or whose
 * lock is taken is left out.
 */
void housekeeper_nudge(struct gkv_session *s, uint64_t deadline_ns);

/* housekeeper_leave - a handle is about to be given back: with the last one goes our queue pair. */
void housekeeper_leave(struct gkv_session *s);

/* housekeeper_end - the session was closed and its connection ended: no thread after it returns,
 * and none is begun. */
void housekeeper_end(struct gkv_session *s);

/* Rounds (round.c). All must hold round_lock. */

/* round_create - the hidden handle. Returns 0 or why there is none, with @err. */
int round_create(struct gkv_session *s, struct error *err);

/* round_keep - what is due now. Returns ms until the next time at the latest, at least 1, or a
 * negative errno: there is no housekeeper, and keeper->h->error says why. */
int round_keep(struct gkv_session *s, uint64_t deadline_ns);

/* round_leave - no handle is left to look after: say what they have done since, and go. */
void round_leave(struct gkv_session *s);

/* round_disconnect - its queue pair goes; one that did its work is forgotten by the back-off. */
void round_disconnect(struct housekeeper *k);
