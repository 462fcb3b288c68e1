/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A wish stands under the lock, and is copied out of it; etcd is asked without the lock.
 *
 * A proposal whose outcome is not known (registry.c) is proposed again, or another one is where
 * that is wished by now, in place of the same configuration. So it ends: either one of them stands,
 * or what they are to replace is gone. From then on only that counts: that the second proposal will
 * never be done says nothing about the first one. Of several wishes only the last one is answered.
 */
#include "server/member/proposer.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>

#include "common/base/mutant.h"
#include "common/base/time.h"

#define REST_MS 100u /* before etcd is asked again about the same proposal */

enum wish { NOTHING, READ, PROPOSE };

struct proposer {
	struct group_registry *registry;
	int wake_fd;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock. */
	bool stop;
	enum wish wish; /* that has not been begun */
	struct group_known from;
	struct group_config to;
	bool busy; /* a wish is not answered, or the answer not taken */
	bool answered;
	struct proposer_answer answer;
	/* The thread's. */
	enum wish doing;
	struct group_known doing_from;
	struct group_config doing_to;
};

/* Must hold the lock. Whether there is something to begin; false: stop, or nothing within @ms. */
static bool await_wish(struct proposer *p, unsigned ms)
{
	const uint64_t until_ns = time_now_ns() + ms * NS_PER_MS;
	const struct timespec until = { (time_t)(until_ns / NS_PER_S),
					(long)(until_ns % NS_PER_S) };
	int rc = 0;

	while (!p->stop && p->wish == NOTHING && rc == 0)
		rc = ms ? pthread_cond_timedwait(&p->changed, &p->lock, &until)
			: pthread_cond_wait(&p->changed, &p->lock);
	if (p->stop || p->wish == NOTHING)
		return false;
	p->doing = p->wish;
	p->doing_from = p->from;
	p->doing_to = p->to;
	p->wish = NOTHING;
	return true;
}

static bool begin_next(struct proposer *p, unsigned ms, bool *stop)
{
	bool next;

	pthread_mutex_lock(&p->lock);
	next = await_wish(p, ms);
	*stop = p->stop;
	pthread_mutex_unlock(&p->lock);
	return next;
}

static int ask(struct proposer *p, struct proposer_answer *a)
{
	if (p->doing == READ)
		return group_registry_read(p->registry, &a->now, &a->err);
	return group_registry_propose(p->registry, &p->doing_from, &p->doing_to, &a->now, &a->err);
}

static void answer(struct proposer *p, const struct proposer_answer *a)
{
	pthread_mutex_lock(&p->lock);
	if (p->wish == NOTHING) {
		p->answer = *a;
		p->answered = true;
		eventfd_write(p->wake_fd, 1);
	}
	pthread_mutex_unlock(&p->lock);
}

/* What ends a proposal that nobody knows the outcome of. */
static bool is_known(int rc)
{
	return rc == 0 || rc == -EAGAIN || rc == -ESTALE;
}

/* Returns false: told to stop. */
static bool settle(struct proposer *p, struct proposer_answer *a)
{
	bool stop = false;

	a->rc = ask(p, a);
	if (a->rc != -EINPROGRESS || MUTANT(unknown_is_no))
		return true;
	while (!is_known(a->rc) && !stop) {
		begin_next(p, REST_MS, &stop);
		if (!stop)
			a->rc = ask(p, a);
	}
	return !stop;
}

static void *run(void *arg)
{
	struct proposer *p = arg;
	struct proposer_answer a = { 0 };
	bool stop;

	while (begin_next(p, 0, &stop) && settle(p, &a))
		answer(p, &a);
	return NULL;
}

static int begin(struct proposer *p)
{
	pthread_condattr_t attr;
	int rc;

	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &attr);
	pthread_condattr_destroy(&attr);
	rc = -pthread_create(&p->thread, NULL, run, p);
	if (rc) {
		pthread_cond_destroy(&p->changed);
		pthread_mutex_destroy(&p->lock);
	}
	return rc;
}

int proposer_start(struct proposer **out, struct group_registry *registry, int wake_fd,
		   struct error *err)
{
	struct proposer *p = calloc(1, sizeof(*p));
	int rc = p ? 0 : -ENOMEM;

	if (rc == 0) {
		p->registry = registry;
		p->wake_fd = wake_fd;
		rc = begin(p);
	}
	if (rc) {
		free(p);
		return error_set(err, rc,
				 "starting the thread that asks etcd failed: %s (raise the limit "
				 "of threads)",
				 error_name(rc));
	}
	pthread_setname_np(p->thread, "gkv-propose");
	*out = p;
	return 0;
}

void proposer_stop(struct proposer *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	group_registry_wake(p->registry);
	pthread_join(p->thread, NULL);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static void wish(struct proposer *p, enum wish what)
{
	p->wish = what;
	p->busy = true;
	p->answered = false;
	pthread_cond_signal(&p->changed);
}

void proposer_read(struct proposer *p)
{
	pthread_mutex_lock(&p->lock);
	assert(!p->busy);
	wish(p, READ);
	pthread_mutex_unlock(&p->lock);
}

void proposer_propose(struct proposer *p, const struct group_known *from,
		      const struct group_config *to)
{
	pthread_mutex_lock(&p->lock);
	assert(!p->busy || from->modified == p->from.modified);
	p->from = *from;
	p->to = *to;
	wish(p, PROPOSE);
	pthread_mutex_unlock(&p->lock);
}

bool proposer_is_busy(struct proposer *p)
{
	bool busy;

	pthread_mutex_lock(&p->lock);
	busy = p->busy;
	pthread_mutex_unlock(&p->lock);
	return busy;
}

bool proposer_take(struct proposer *p, struct proposer_answer *out)
{
	bool answered;

	pthread_mutex_lock(&p->lock);
	answered = p->answered;
	if (answered) {
		*out = p->answer;
		p->answered = p->busy = false;
	}
	pthread_mutex_unlock(&p->lock);
	return answered;
}
