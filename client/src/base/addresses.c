/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A query is made by a detached thread, since nothing can end getaddrinfo() before its time, and no
 * call, and no gkv_session_close(), may wait for that. It belongs to the thread and to whoever
 * asked; the last of them to let go frees it. There is one at a time for each session.
 */
#include "client/src/base/addresses.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/src/base/thread.h"
#include "common/base/time.h"
#include "common/rdma/tcp.h"

#define NAME "gkv-resolver"

struct query {
	char *host, *port;
	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t answered; /* CLOCK_MONOTONIC */
	unsigned owners;
	bool done;
	int rc;
	struct addrinfo *list; /* whose takes it makes it NULL */
	struct error error;
};

/* Must hold the lock, and lets go of it. */
static void let_go(struct query *q)
{
	bool last = --q->owners == 0;

	pthread_mutex_unlock(&q->lock);
	if (!last)
		return;
	if (q->list)
		freeaddrinfo(q->list);
	pthread_cond_destroy(&q->answered);
	pthread_mutex_destroy(&q->lock);
	free(q->host);
	free(q->port);
	free(q);
}

static void *ask(void *arg)
{
	struct query *q = arg;
	struct addrinfo *list = NULL;
	struct error error = { 0 };
	int rc = tcp_resolve(q->host, q->port, &list, &error);

	pthread_mutex_lock(&q->lock);
	q->rc = rc;
	q->list = rc ? NULL : list;
	q->error = error;
	q->done = true;
	pthread_cond_signal(&q->answered);
	let_go(q);
	return NULL;
}

static struct query *query_new(const char *host, const char *port)
{
	struct query *q = calloc(1, sizeof(*q));
	pthread_condattr_t attr;

	if (!q)
		return NULL;
	q->host = strdup(host);
	q->port = strdup(port);
	pthread_mutex_init(&q->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&q->answered, &attr);
	pthread_condattr_destroy(&attr);
	q->owners = 1;
	return q;
}

static int query_start(struct query **out, const char *host, const char *port, struct error *err)
{
	struct query *q = query_new(host, port);
	pthread_t thread;
	int rc = q && q->host && q->port ? 0 : -ENOMEM;

	if (rc == 0) {
		q->owners = 2; /* not shared yet */
		rc = thread_start(&thread, NAME, ask, q);
	}
	if (rc == 0) {
		pthread_detach(thread);
		*out = q;
		return 0;
	}
	if (q) {
		pthread_mutex_lock(&q->lock);
		q->owners = 1;
		let_go(q);
	}
	return error_set(err, rc,
			 "starting a thread that looks up '%s' failed: %s (raise the limit of "
			 "threads, or give the server's address in digits)",
			 host, error_name(rc));
}

static void take(struct addresses *a, struct addrinfo *list)
{
	if (a->list)
		freeaddrinfo(a->list);
	a->list = list;
	a->asked_ns = time_now_ns();
}

/* Until @until_ns. Whether it was answered; then it is gone, and a->list may be another one. */
static bool take_answer(struct addresses *a, uint64_t until_ns, int *rc, struct error *err)
{
	const struct timespec until = { (time_t)(until_ns / NS_PER_S),
					(long)(until_ns % NS_PER_S) };
	struct query *q = a->query;

	pthread_mutex_lock(&q->lock);
	while (!q->done && time_now_ns() < until_ns)
		pthread_cond_timedwait(&q->answered, &q->lock, &until);
	if (!q->done) {
		pthread_mutex_unlock(&q->lock);
		return false;
	}
	a->query = NULL;
	a->asked_ns = time_now_ns(); /* even if in vain: it may have taken long */
	*rc = q->rc;
	if (q->rc && err)
		*err = q->error;
	if (q->rc == 0)
		take(a, q->list);
	q->list = NULL;
	let_go(q);
	return true;
}

int addresses_find(struct addresses *a, const char *host, const char *port, uint64_t deadline_ns,
		   struct error *err)
{
	const uint64_t now = time_now_ns(), soon = now + ADDRESSES_WAIT_MS * NS_PER_MS;
	uint64_t until_ns = deadline_ns;
	struct addrinfo *list;
	int rc = 0;

	if (a->query) {
		until_ns = a->list ? now : deadline_ns;
	} else {
		if (a->list && (!a->failed || now - a->asked_ns < ADDRESSES_AGAIN_MS * NS_PER_MS))
			return 0;
		if (a->list && soon < deadline_ns)
			until_ns = soon;
		rc = tcp_resolve_digits(host, port, &list, err);
		if (rc == 0)
			take(a, list);
		else if (rc > 0)
			rc = query_start(&a->query, host, port, err);
		if (!a->query)
			return a->list ? 0 : rc;
	}
	if (take_answer(a, until_ns, &rc, err) || a->list)
		return a->list ? 0 : rc;
	return error_set(err, -ETIMEDOUT,
			 "looking up '%s' took the rest of this call's time (is the machine's "
			 "resolver well? an address in digits needs none)",
			 host);
}

void addresses_drop(struct addresses *a)
{
	if (a->list)
		freeaddrinfo(a->list);
	a->list = NULL;
	if (!a->query)
		return;
	pthread_mutex_lock(&a->query->lock);
	let_go(a->query);
	a->query = NULL;
}
