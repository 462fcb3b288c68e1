/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The connecting thread of a session: makes the attempts at queue pairs for handles with operations
 * in flight. Each may take seconds, and the session's lock; so the housekeeper, whose beat must not
 * stand still, leaves them alone. It is started when a queue pair is wanted, goes on to the next
 * one that is, and ends when none was for IDLE_NS.
 *
 * None is forgotten. The handle's thread stores WANTED, then takes thread_lock in
 * connecting_wake(). The thread ends only after it has found nothing wanted under that lock, with
 * running cleared before it lets go of it: it saw the handle's, or the handle sees that no thread
 * runs, and starts one. Where that fails, the handle's own thread makes the attempt.
 */
#include "client/src/base/thread.h"
#include "client/src/flight/async.h"

#define NAME	"gkv-connector"
#define IDLE_NS NS_PER_S

/* Not the time of an exchange where calls have less: gkv_close() waits for it. */
static uint64_t attempt_until(const struct settings *o)
{
	const uint64_t ms = o->timeout_ms;

	return time_now_ns() + (ms < EXCHANGE_DEADLINE_MS ? ms : EXCHANGE_DEADLINE_MS) * NS_PER_MS;
}

/* One that is wanted, from handle @next on, which is moved past it. Whether there was one. */
static bool connect_one(struct gkv_session *s, unsigned *next)
{
	struct flights *f = s->flights;

	for (unsigned i = 0; i < SESSION_HANDLES_MAX; i++) {
		unsigned number = (*next + i) % SESSION_HANDLES_MAX;
		struct connector *c = NULL;
		struct async *a;

		pthread_mutex_lock(&f->lock);
		a = f->async[number];
		if (a && connector_take(&a->h->connector))
			c = &a->h->connector;
		pthread_mutex_unlock(&f->lock);
		if (!c)
			continue;
		connector_try(c, attempt_until(&s->settings));
		pthread_mutex_lock(&f->lock); /* until it is signalled it stays */
		connector_set(c, CONNECTOR_DONE);
		wait_signal(a);
		pthread_mutex_unlock(&f->lock);
		bell_ring(&s->bell); /* its own queue pair may be due: the lease runs */
		*next = number + 1;
		return true;
	}
	return false;
}

static bool any_wanted(struct flights *f)
{
	bool any = false;

	pthread_mutex_lock(&f->lock);
	for (unsigned i = 0; i < SESSION_HANDLES_MAX && !any; i++)
		any = f->async[i] &&
		      connector_state(&f->async[i]->h->connector) == CONNECTOR_WANTED;
	pthread_mutex_unlock(&f->lock);
	return any;
}

static bool may_leave(struct flights *f)
{
	bool leave;

	pthread_mutex_lock(&f->thread_lock);
	leave = bell_stopped(&f->bell) || !any_wanted(f);
	f->running = !leave;
	pthread_mutex_unlock(&f->thread_lock);
	return leave;
}

static void *run(void *arg)
{
	struct gkv_session *s = arg;
	struct flights *f = s->flights;
	unsigned next = 0;
	uint64_t now;

	do {
		while (!bell_stopped(&f->bell) && connect_one(s, &next))
			;
		now = time_now_ns();
		bell_wait(&f->bell, now, now + IDLE_NS);
	} while (!may_leave(f));
	return NULL;
}

bool connecting_wake(struct gkv_session *s)
{
	struct flights *f = s->flights;
	bool running;

	pthread_mutex_lock(&f->thread_lock);
	if (f->running) {
		bell_ring(&f->bell);
	} else if (!bell_stopped(&f->bell)) {
		if (f->started) /* it has nothing left to do */
			pthread_join(f->thread, NULL);
		f->running = f->started = thread_start(&f->thread, NAME, run, s) == 0;
	}
	running = f->running;
	pthread_mutex_unlock(&f->thread_lock);
	return running;
}

void flights_end(struct flights *f)
{
	bool started;

	bell_stop(&f->bell);
	pthread_mutex_lock(&f->thread_lock); /* later ones see that it was stopped */
	started = f->started;
	f->started = false;
	pthread_mutex_unlock(&f->thread_lock);
	if (started) /* without the lock: its last look takes it */
		pthread_join(f->thread, NULL);
}
