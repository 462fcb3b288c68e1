/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Opening and closing sessions. */
#include "client/src/call/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/flight/async.h"
#include "client/src/keeper/housekeeper.h"
#include "client/src/link/device.h"
#include "client/src/request/rpc.h"
#include "common/base/random.h"
#include "common/base/time.h"

/* What each room keeps of a session, in one piece of memory. */
struct parts {
	struct gkv_session session;
	struct flights flights;
	struct housekeeper keeper;
};

/* session_services.follow */
static int follow(struct gkv *h)
{
	if (h->requests)
		requests_destroy(h->requests); /* a call that needs staging memory makes it */
	if (!h->async)
		return 0;
	lanes_destroy(h->async);
	return lanes_create(h->async);
}

static const struct session_services services = { .nudge = housekeeper_nudge, .follow = follow };

static void session_free(struct gkv_session *s)
{
	/* relaxed: nobody has it any more */
	struct session_words *w = atomic_load_explicit(&s->words, memory_order_relaxed), *before;

	for (; w; w = before) {
		before = w->before;
		free(w);
	}
	world_put(s->world);
	for (unsigned i = 0; i < SETTINGS_SERVERS_MAX; i++)
		addresses_drop(&s->addresses[i]);
	session_device_put(s, s->device);
	housekeeper_destroy(s->keeper);
	bell_destroy(&s->bell);
	epochs_destroy(&s->epochs);
	hints_destroy(&s->hints);
	flights_destroy(s->flights);
	pthread_mutex_destroy(&s->handles_lock);
	pthread_mutex_destroy(&s->lock);
	free(s); /* the first of its parts */
}

/* Must hold handles_lock. */
static bool unused(const struct gkv_session *s)
{
	return s->orphan && s->handle_count == 0 && s->memory_count == 0;
}

static int session_new(struct gkv_session **out, const struct gkv_options *options,
		       struct error *err)
{
	struct parts *parts = aligned_alloc(alignof(struct parts), sizeof(*parts));
	struct gkv_session *s;
	int rc;

	if (!parts)
		return error_set(err, -ENOMEM, "out of memory for a session");
	memset(parts, 0, sizeof(*parts));
	s = &parts->session;
	rc = settings_take(&s->settings, options, err);
	if (rc)
		goto err_free;
	rc = random_fill(s->client_id, sizeof(s->client_id), err);
	if (rc)
		goto err_free;
	rc = hints_create(&s->hints, s->settings.hint_bytes, err);
	if (rc)
		goto err_free;
	memcpy(s->server, s->settings.server, sizeof(s->server));
	s->fork_count = fork_current();
	s->lifeline = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->handles_lock, NULL);
	bell_init(&s->bell);
	epochs_init(&s->epochs, &s->hints);
	s->flights = &parts->flights;
	flights_init(s->flights);
	s->keeper = &parts->keeper;
	housekeeper_init(s->keeper);
	s->services = &services;
	/* not shared yet */
	atomic_store_explicit(&s->servers, s->settings.servers, memory_order_relaxed);
	atomic_store_explicit(&s->next_sequence, 1, memory_order_relaxed);
	atomic_store_explicit(&s->number, 1, memory_order_relaxed);
	*out = s;
	return 0;

err_free:
	free(parts);
	return rc;
}

/* One attempt; of a group, as many as its time has, since a fail-over ends by itself. Must hold the
 * lock. */
static int connect_first(struct gkv_session *s, struct error *err)
{
	const uint64_t deadline_ns = time_now_ns() + s->settings.timeout_ms * NS_PER_MS;
	int rc = session_connect(s, deadline_ns, err);

	while (rc && session_servers(s) > 1 && session_worth_another(rc)) {
		const uint64_t due_ns = backoff_due(&s->backoff, time_now_ns());

		if (due_ns >= deadline_ns)
			return rc;
		backoff_sleep(due_ns, deadline_ns);
		rc = session_connect(s, deadline_ns, err);
	}
	return rc;
}

int gkv_session_open(const struct gkv_options *options, struct gkv_session **out, char *why,
		     size_t cap)
{
	struct error err = { 0 };
	struct gkv_session *s = NULL;
	int rc;

	fork_watch();
	rc = out ? session_new(&s, options, &err)
		 : error_set(&err, -EINVAL, "there is no place for the session (out is NULL)");
	if (rc == 0) {
		pthread_mutex_lock(&s->lock);
		rc = connect_first(s, &err);
		if (rc == 0)
			s->keeper->lease_ms = s->welcome.lease_ms; /* not shared yet */
		pthread_mutex_unlock(&s->lock);
	}
	if (rc && s) {
		session_free(s);
		s = NULL;
	}
	if (out)
		*out = s;
	return error_tell(&err, rc, why, cap);
}

void gkv_session_close(struct gkv_session *s)
{
	bool last;

	if (!s || session_foreign(s)) /* a child has nothing of its own in it */
		return;
	pthread_mutex_lock(&s->lock);
	s->closed = true;
	if (s->connected) {
		const struct wire_frame bye = { .type = WIRE_BYE };

		exchange_send(s->lifeline, &bye, 0, NULL);
	}
	session_lost(s);
	pthread_mutex_unlock(&s->lock);
	housekeeper_end(s);
	flights_end(s->flights);
	flights_signal(s->flights); /* sleepers must hear that there is nothing to wait for */
	pthread_mutex_lock(&s->handles_lock);
	s->orphan = true;
	last = unused(s);
	pthread_mutex_unlock(&s->handles_lock);
	if (last)
		session_free(s);
}

void session_release_handle(struct gkv_session *s, unsigned number)
{
	bool last;

	pthread_mutex_lock(&s->handles_lock);
	s->handle_taken[number] = false;
	s->handle_count--;
	last = unused(s);
	pthread_mutex_unlock(&s->handles_lock);
	if (last)
		session_free(s);
}

void session_hold_memory(struct gkv_session *s)
{
	pthread_mutex_lock(&s->handles_lock);
	s->memory_count++;
	pthread_mutex_unlock(&s->handles_lock);
}

void session_release_memory(struct gkv_session *s)
{
	bool last;

	pthread_mutex_lock(&s->handles_lock);
	s->memory_count--;
	last = unused(s);
	pthread_mutex_unlock(&s->handles_lock);
	if (last)
		session_free(s);
}

const char *gkv_session_describe(const struct gkv_session *s)
{
	/* acquire pairs with describe() */
	const struct session_words *w =
		s ? atomic_load_explicit(&s->words, memory_order_acquire) : NULL;

	return w ? w->text : "";
}
