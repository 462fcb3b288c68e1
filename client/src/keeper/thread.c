/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A thread makes the rounds, started with the first handle; or gkv_tick() does, where the
 * application wants no thread. Both go through one lock; gkv_open() makes the first round of a
 * queue pair itself, so that a session without room for a housekeeper shows there and not after a
 * lease.
 *
 * The beat must not stand still for what others do, or the session is fenced although its queue
 * pair is sound. A round over that queue pair takes round_lock, then, for moments, flights->lock,
 * handles_lock and epochs.lock; under none of these does anybody wait for the server, but under
 * round_lock where the housekeeper's own queue pair is being opened, and then there is no beat. It
 * never waits for session->lock, which is held over exchanges: a life line that has something to
 * say is looked at where that lock is free (link/channel.c). Handles are connected by their own
 * threads, or by another one (flight/connecting.c). To open its own queue pair the housekeeper has
 * to wait its turn on the life line like all others.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/src/base/thread.h"
#include "client/src/keeper/housekeeper.h"
#include "client/src/keeper/pace.h"
#include "client/src/link/handle.h"

#define NAME	       "gkv-housekeeper"
#define NUDGE_NS       (100 * NS_PER_MS) /* for a round that a waiting write makes */
#define NUDGE_LEAST_NS (10 * NS_PER_MS) /* less: none; one cut short costs its queue pair */

void housekeeper_init(struct housekeeper *k)
{
	pthread_mutex_init(&k->round_lock, NULL);
	k->pause_ms = HOUSEKEEPER_BUSY_MS;
}

void housekeeper_destroy(struct housekeeper *k)
{
	pthread_mutex_destroy(&k->round_lock);
}

static void *run(void *arg)
{
	struct gkv_session *s = arg;
	struct housekeeper *k = s->keeper;
	unsigned least_ms;
	uint64_t start;
	int pause_ms;

	do {
		start = time_now_ns();
		pthread_mutex_lock(&k->round_lock);
		pause_ms =
			round_keep(s, start + EXCHANGE_DEADLINE_MS * NS_PER_MS); /* nobody's call */
		if (pause_ms < 0) /* session->unkept says why, to the calls that it makes fail */
			pause_ms = (int)housekeeper_pause(UINT16_MAX, HOUSEKEEPER_IDLE, 0,
							  k->lease_ms, 0);
		least_ms = housekeeper_pause(0, HOUSEKEEPER_HURRY, k->took_ms, k->lease_ms, 0);
		pthread_mutex_unlock(&k->round_lock);
	} while (bell_wait(&s->bell, start + least_ms * NS_PER_MS,
			   start + (uint64_t)pause_ms * NS_PER_MS));
	return NULL;
}

/* Must hold round_lock. */
static int start(struct gkv_session *s, struct error *err)
{
	struct housekeeper *k = s->keeper;
	int rc = thread_start(&k->thread, NAME, run, s);

	if (rc)
		return error_set(err, rc,
				 "starting a session's housekeeper thread failed: %s (raise the "
				 "limit of threads, or set the option housekeeper to "
				 "GKV_HOUSEKEEPER_TICK and call gkv_tick())",
				 error_name(rc));
	k->started = true;
	return 0;
}

static int lock_round(struct housekeeper *k, uint64_t deadline_ns, struct error *err)
{
	int rc = lock_until(&k->round_lock, deadline_ns);

	return rc ? error_set(err, rc,
			      "another thread was still busy with the session's housekeeping when "
			      "the time of this call was over (is the server reachable?)")
		  : 0;
}

/*
 * gkv_open() makes an attempt of its own, or a refusal would not show there: it waits until one is
 * due. Must hold round_lock, or another thread would take the turn.
 */
static int own_round(struct gkv_session *s, uint64_t deadline_ns, struct error *err)
{
	struct housekeeper *k = s->keeper;
	uint64_t due = 0;
	int rc;

	if (!handle_current(k->h)) {
		round_disconnect(k); /* what did its work is forgotten by the back-off */
		due = backoff_due(&k->h->link.backoff, time_now_ns());
		backoff_sleep(due, deadline_ns);
	}
	if (due > deadline_ns) {
		*err = k->h->error;
		error_prefix(err, "the housekeeper's next queue pair is due after this call");
		err->code = -ETIMEDOUT;
		return -ETIMEDOUT;
	}
	rc = round_keep(s, deadline_ns);
	if (rc < 0)
		*err = k->h->error;
	return rc < 0 ? rc : 0;
}

int housekeeper_begin(struct gkv_session *s, uint64_t deadline_ns, struct error *err)
{
	const bool by_thread = s->settings.housekeeper == GKV_HOUSEKEEPER_THREAD;
	struct housekeeper *k = s->keeper;
	int rc = lock_round(k, deadline_ns, err);

	if (rc)
		return rc;
	if (bell_stopped(&s->bell)) /* what is begun now would have no end */
		rc = error_set(err, -ECONNRESET, "the session was closed (open another one)");
	else if (!k->h)
		rc = round_create(s, err);
	/* without a thread, a program that opens many handles must not be silent for a lease */
	if (rc == 0 && (!by_thread || !handle_current(k->h)))
		rc = own_round(s, deadline_ns, err);
	if (rc == 0 && by_thread && !k->started)
		rc = start(s, err);
	pthread_mutex_unlock(&k->round_lock);
	return rc;
}

void housekeeper_nudge(struct gkv_session *s, uint64_t deadline_ns)
{
	const uint64_t now = time_now_ns();
	struct housekeeper *k = s->keeper;

	if (s->settings.housekeeper == GKV_HOUSEKEEPER_THREAD) {
		bell_ring(&s->bell);
		return;
	}
	/* The holder of the lock makes a round, and the next pause brings us back. */
	if (now + NUDGE_LEAST_NS > deadline_ns || pthread_mutex_trylock(&k->round_lock))
		return;
	if (now + NUDGE_NS < deadline_ns)
		deadline_ns = now + NUDGE_NS;
	/* A queue pair is gkv_tick()'s to open: cut short, that costs all handles their session. */
	if (k->h && handle_current(k->h))
		round_keep(s, deadline_ns); /* why it fails is said by gkv_tick() */
	pthread_mutex_unlock(&k->round_lock);
}

void housekeeper_leave(struct gkv_session *s)
{
	struct housekeeper *k = s->keeper;
	bool last;

	if (lock_until(&k->round_lock, time_now_ns() + LINK_LEAVE_NS))
		return; /* the next round sees to it */
	pthread_mutex_lock(&s->handles_lock);
	last = s->handle_count == 1;
	pthread_mutex_unlock(&s->handles_lock);
	if (last)
		round_leave(s);
	pthread_mutex_unlock(&k->round_lock);
}

void housekeeper_end(struct gkv_session *s)
{
	struct housekeeper *k = s->keeper;
	bool started;

	bell_stop(&s->bell);
	pthread_mutex_lock(&k->round_lock); /* earlier rounds are done; later ones see stop */
	started = k->started;
	pthread_mutex_unlock(&k->round_lock);
	if (started) /* without the lock: its last round takes it */
		pthread_join(k->thread, NULL);
	pthread_mutex_lock(&k->round_lock);
	if (k->h) {
		round_disconnect(k);
		reader_drop(&k->h->reader);
		handle_buffers_destroy(k->h);
		free(k->h);
		k->h = NULL;
	}
	pthread_mutex_unlock(&k->round_lock);
}

int gkv_tick(struct gkv_session *s, char *why, size_t cap)
{
	uint64_t deadline_ns;
	struct error err = { 0 };
	int rc = session_usable(s, &err);

	if (rc)
		return error_tell(&err, rc, why, cap);
	deadline_ns = time_now_ns() + (uint64_t)s->settings.timeout_ms * NS_PER_MS;
	rc = lock_round(s->keeper, deadline_ns, &err);
	if (rc)
		return error_tell(&err, rc, why, cap);
	rc = round_keep(s, deadline_ns);
	error_tell(rc < 0 ? &s->keeper->h->error : &err, rc < 0 ? rc : 0, why, cap);
	pthread_mutex_unlock(&s->keeper->round_lock);
	return rc;
}
