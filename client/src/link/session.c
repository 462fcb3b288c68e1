/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/link/session.h"

#include <time.h>

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

static void begin_watch(void)
{
	pthread_atfork(NULL, NULL, count_fork);
}

void fork_watch(void)
{
	pthread_once(&forks_once, begin_watch);
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
			 session_server(s)->host, session_server(s)->port);
}

void session_unlock(struct gkv_session *s)
{
	pthread_mutex_unlock(&s->lock);
}

int session_usable(const struct gkv_session *s, struct error *err)
{
	if (!s)
		return error_set(err, -EINVAL, "the session is NULL");
	if (session_foreign(s)) /* its locks may be held, by threads that are not here */
		return error_set(err, -EPERM,
				 "the session belongs to the parent of this process (open another "
				 "one after fork())");
	return 0;
}
