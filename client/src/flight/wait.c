/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Sleeping until something is to be done: one descriptor for what may wake a handle, an epoll(7)
 * set of the completion channel, the life line, a timer (deadlines, pauses) and an event counter
 * (another thread has connected). The first two change with the queue pair.
 *
 * No wake-up is missed: gkv_arm() takes the events that are there, asks for one, and polls after
 * that until nothing comes: what has come by then is found, what comes later makes the event. An
 * event is not taken after that: there would be none for what comes next. The connector's signal
 * is a counter, which stays readable until gkv_poll() has read it.
 *
 * Nothing is readable without end: gkv_poll() takes it, or finds out why (the life line, also where
 * nothing is in flight), and the timer is set for what there is to do only.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client/src/flight/async.h"

#define DAY_MS 86400000u
#define SLEEP_MS_MAX \
	20 /* of gkv_wait(), which polls again then, whether there was an event or not */

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void wait_end(struct async *a)
{
	close_one(&a->event);
	close_one(&a->timer);
	close_one(&a->epoll);
}

static int watch(const struct async *a, int fd)
{
	struct epoll_event e = { .events = EPOLLIN };

	return epoll_ctl(a->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

void wait_unwatch(struct async *a)
{
	if (a->watching && a->h->link.cq.channel)
		epoll_ctl(a->epoll, EPOLL_CTL_DEL, rdma_cq_fd(&a->h->link.cq), NULL);
	/* not by its end: the socket lives on while others have it */
	if (a->watching && a->h->link.lifeline >= 0)
		epoll_ctl(a->epoll, EPOLL_CTL_DEL, a->h->link.lifeline, NULL);
	a->watching = false;
}

static int watch_link(struct async *a)
{
	int rc;

	if (a->watching || !a->h->link.live)
		return 0;
	rc = watch(a, rdma_cq_fd(&a->h->link.cq));
	if (rc)
		return rc;
	a->watching = true;
	if (a->h->link.lifeline >= 0)
		rc = watch(a, a->h->link.lifeline);
	if (rc) /* all or nothing: the next gkv_arm() tries again */
		wait_unwatch(a);
	return rc;
}

static int make(struct async *a)
{
	int rc;

	a->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	a->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	a->epoll = epoll_create1(EPOLL_CLOEXEC);
	rc = a->timer < 0 || a->event < 0 || a->epoll < 0 ? -errno : 0;
	if (rc == 0)
		rc = watch(a, a->timer);
	if (rc == 0)
		rc = watch(a, a->event);
	if (rc == 0)
		return 0;
	wait_end(a);
	return error_set(&a->h->error, rc,
			 "a descriptor to sleep on could not be made: %s (raise the limit of open "
			 "files with ulimit -n)",
			 error_name(rc));
}

/* The event is made under the lock under which the connector looks for it. */
static int ready(struct gkv *h)
{
	struct gkv_session *s = h->session;
	int rc = h->async ? 0 : async_create(h);

	if (rc || h->async->epoll >= 0)
		return rc;
	pthread_mutex_lock(&s->flights->lock);
	rc = make(h->async);
	pthread_mutex_unlock(&s->flights->lock);
	return rc;
}

void wait_signal(struct async *a)
{
	const uint64_t one = 1;

	if (a->event >= 0 && write(a->event, &one, sizeof(one)) < 0)
		return; /* it is at its greatest: readable */
}

/* Not readable any more; where it was not, that one did not wake us. */
static void drain(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
}

void wait_awake(struct async *a)
{
	a->armed = false;
	if (a->h->link.live)
		rdma_cq_drain_events(&a->h->link.cq);
	drain(a->timer);
	drain(a->event);
}

static int set_timer(const struct async *a)
{
	uint64_t due = async_due(a);
	struct itimerspec t = { 0 };

	if (due != UINT64_MAX) /* 0 would disarm it */
		t.it_value = (struct timespec){ (time_t)(due / NS_PER_S),
						(long)(due % NS_PER_S) + (due == 0) };
	return timerfd_settime(a->timer, TFD_TIMER_ABSTIME, &t, NULL) ? -errno : 0;
}

static int arm(struct gkv *h)
{
	struct async *a;
	int rc = ready(h);

	if (rc)
		return rc;
	a = h->async;
	if (a->armed)
		wait_awake(a);
	do {
		if (a->done.first)
			return -EAGAIN;
		rc = h->link.live ? rdma_cq_arm(&h->link.cq) : 0;
		if (rc)
			channel_fail(h, "arming its completion queue failed: %s", error_name(rc));
	} while (async_step(a));
	if (a->done.first)
		return -EAGAIN;
	rc = watch_link(a);
	if (rc == 0)
		rc = set_timer(a);
	if (rc)
		return error_set(&h->error, rc, "a descriptor to sleep on could not be set: %s",
				 error_name(rc));
	a->armed = true;
	return 0;
}

int gkv_fd(struct gkv *h)
{
	int rc = handle_begin(h);

	if (rc)
		return rc;
	rc = ready(h);
	return handle_end(h, rc ? rc : h->async->epoll);
}

int gkv_arm(struct gkv *h)
{
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, arm(h));
}

/* Until @until_ns, or until something is to be done. Returns 0, or a negative errno. */
static int sleep_until(struct gkv *h, uint64_t until_ns)
{
	struct pollfd p = { .events = POLLIN };
	uint64_t now, left_ms;
	int rc = arm(h);

	if (rc)
		return rc == -EAGAIN ? 0 : rc;
	p.fd = h->async->epoll;
	now = time_now_ns();
	left_ms = now < until_ns ? (until_ns - now) / NS_PER_MS + 1 : 0;
	if (left_ms)
		poll(&p, 1, left_ms < SLEEP_MS_MAX ? (int)left_ms : SLEEP_MS_MAX);
	return 0;
}

static int wait_for_one(struct gkv *h, struct gkv_completion *out, size_t max, unsigned timeout_ms)
{
	uint64_t since_ns = 0, until_ns = 0, now;
	bool slept = false;
	int n;

	if (timeout_ms > DAY_MS)
		return error_set(&h->error, -EINVAL,
				 "timeout_ms is %u, at most %u are possible (a day)", timeout_ms,
				 DAY_MS);
	for (unsigned i = 0;; i++) {
		n = async_poll(h, out, max);
		if (n)
			h->call.spun_in_vain &= !i || slept;
		if (n || !max || !h->async || !h->async->pending)
			return n;
		now = time_now_ns();
		if (!since_ns) {
			since_ns = now;
			until_ns = now + timeout_ms * NS_PER_MS;
		} else if (now >= until_ns) {
			return 0;
		}
		if (i <= handle_spin_polls(h)) {
			time_relax();
		} else if (now - since_ns >= HANDLE_SPIN_NS ||
			   (!time_yield() && !handle_spins_on(h))) {
			slept = h->call.spun_in_vain = true; /* as in channel.c */
			if ((n = sleep_until(h, until_ns)))
				return n;
		}
	}
}

int gkv_wait(struct gkv *h, struct gkv_completion *out, size_t max, unsigned timeout_ms)
{
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, wait_for_one(h, out, max, timeout_ms));
}
