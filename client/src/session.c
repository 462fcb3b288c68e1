/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "client/src/async.h"
#include "common/base/time.h"

/*
 * Forks are counted by a handler that runs in the child, before anything else of it does. A plain
 * word: it changes only while the process has one thread.
 */
static unsigned forks;
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
	forks++;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, count_fork);
}

unsigned fork_current(void)
{
	return forks;
}

/* ThreadSanitizer of gcc 12 and clang 14 does not know pthread_mutex_clocklock(): tell it. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define say_locking(mutex) __tsan_mutex_pre_lock(mutex, __tsan_mutex_try_lock)
#define say_locked(mutex, rc)   \
	__tsan_mutex_post_lock( \
		mutex, __tsan_mutex_try_lock | ((rc) ? __tsan_mutex_try_lock_failed : 0), 0)
#else
#define say_locking(mutex)    ((void)(mutex))
#define say_locked(mutex, rc) ((void)(mutex))
#endif

int lock_until(pthread_mutex_t *lock, uint64_t deadline_ns)
{
	struct timespec until = { (time_t)(deadline_ns / NS_PER_S),
				  (long)(deadline_ns % NS_PER_S) };
	int rc;

	say_locking(lock);
	rc = pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &until);
	say_locked(lock, rc);
	return -rc;
}

int session_lock(struct gkv_session *s, uint64_t deadline_ns, struct error *err)
{
	int rc = lock_until(&s->lock, deadline_ns);

	if (rc == 0)
		return 0;
	return error_set(err, rc,
			 "another thread was still connecting to %s:%s when the time of this call "
			 "was over (is the server reachable?)",
			 s->settings.host, s->settings.port);
}

void session_unlock(struct gkv_session *s)
{
	pthread_mutex_unlock(&s->lock);
}

static void session_free(struct gkv_session *s)
{
	world_put(s->world);
	addresses_drop(&s->addresses);
	rdma_device_close(s->dev);
	housekeeper_destroy(&s->keeper);
	epochs_destroy(&s->epochs);
	hints_destroy(&s->hints);
	pthread_mutex_destroy(&s->async_lock);
	pthread_mutex_destroy(&s->handles_lock);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Must hold handles_lock. */
static bool unused(const struct gkv_session *s)
{
	return s->orphan && s->handle_count == 0 && s->memory_count == 0;
}

static void describe(struct gkv_session *s)
{
	snprintf(s->describe, sizeof(s->describe),
		 "server %s:%s (process %u, device %s, incarnation %016llx); %s; MTU %u", //
		 s->settings.host, s->settings.port, s->welcome.pid, s->welcome.device,
		 (unsigned long long)s->welcome.server_incarnation, s->dev->choice,
		 rdma_mtu_bytes(s->dev->mtu));
}

static int session_new(struct gkv_session **out, const struct gkv_options *options,
		       struct error *err)
{
	struct gkv_session *s = aligned_alloc(alignof(struct gkv_session), sizeof(*s));
	int rc;

	if (!s)
		return error_set(err, -ENOMEM, "out of memory for a session");
	memset(s, 0, sizeof(*s));
	rc = settings_take(&s->settings, options, err);
	if (rc)
		goto err_free;
	if (getrandom(s->client_id, sizeof(s->client_id), 0) != sizeof(s->client_id)) {
		rc = error_set(err, -EIO, "getrandom failed: %s", error_name(errno));
		goto err_free;
	}
	rc = hints_create(&s->hints, s->settings.hint_bytes, err);
	if (rc)
		goto err_free;
	s->fork_count = fork_current();
	s->lifeline = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->handles_lock, NULL);
	pthread_mutex_init(&s->async_lock, NULL);
	epochs_init(&s->epochs, &s->hints);
	housekeeper_init(&s->keeper);
	/* not shared yet */
	atomic_store_explicit(&s->next_sequence, 1, memory_order_relaxed);
	atomic_store_explicit(&s->number, 1, memory_order_relaxed);
	*out = s;
	return 0;

err_free:
	free(s);
	return rc;
}

int gkv_session_open(struct gkv_session **out, const struct gkv_options *options, char *text,
		     size_t cap)
{
	struct error err = { 0 };
	struct gkv_session *s = NULL;
	int rc;

	pthread_once(&forks_once, watch_forks);
	rc = out ? session_new(&s, options, &err)
		 : error_set(&err, -EINVAL, "there is no place for the session (out is NULL)");
	if (rc == 0) {
		pthread_mutex_lock(&s->lock);
		rc = session_connect(
			s, time_now_ns() + (uint64_t)s->settings.timeout_ms * NS_PER_MS, &err);
		if (rc == 0) {
			describe(s);
			s->keeper.lease_ms = s->welcome.lease_ms; /* not shared yet */
		}
		pthread_mutex_unlock(&s->lock);
	}
	if (text && cap)
		snprintf(text, cap, "%s", rc ? err.text : "");
	if (rc == 0) {
		*out = s;
	} else if (s) {
		session_free(s);
	}
	return rc;
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
	session_async_signal(s); /* who sleeps is to hear that there is nothing to wait for */
	pthread_mutex_lock(&s->handles_lock);
	s->orphan = true;
	last = unused(s);
	pthread_mutex_unlock(&s->handles_lock);
	if (last)
		session_free(s);
}

void session_failed(struct gkv_session *s, const struct error *err)
{
	pthread_mutex_lock(&s->handles_lock);
	s->failed = *err;
	pthread_mutex_unlock(&s->handles_lock);
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
	return s ? s->describe : "";
}

const char *gkv_session_error(const struct gkv_session *s)
{
	return s ? s->failed.text : "";
}

void session_async_add(struct gkv_session *s, unsigned number, struct async *a)
{
	pthread_mutex_lock(&s->async_lock);
	s->async[number] = a;
	pthread_mutex_unlock(&s->async_lock);
}

void session_async_remove(struct gkv_session *s, unsigned number)
{
	session_async_add(s, number, NULL);
}

void session_async_signal(struct gkv_session *s)
{
	pthread_mutex_lock(&s->async_lock);
	for (unsigned i = 0; i < SESSION_HANDLES_MAX; i++) {
		if (s->async[i])
			wait_signal(s->async[i]);
	}
	pthread_mutex_unlock(&s->async_lock);
}
