/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/session/control.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "server/session/fence.h"

#define EVENTS_MAX   64
#define GRACEFUL_NS  (500 * NS_PER_MS) /* to answer what has arrived, all sessions together */
#define COMPLAINT_NS (5 * NS_PER_S) /* between two complaints of one kind */
#define ACCEPTS_MAX  64 /* a turn: life lines are read in between */
#define CM_MAX	     16 /* the same for events of the CM: each may make a queue pair */

/* What an epoll event points to: one of these, or a session. */
static char tag_listen, tag_signal, tag_timer, tag_device, tag_notice, tag_cm, tag_obeyed;

static int watch(int epoll_fd, int fd, void *tag)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP, .data = { .ptr = tag } };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

/* A descriptor whose events could not be taken is not watched until the next tick. */
struct ear {
	int fd; /* -1: none */
	void *tag;
	bool deaf;
	uint64_t complaint_ns; /* the last line of the log about it */
};

/* What the loop waits for. */
struct control {
	struct sessions *all;
	int epoll_fd, timer_fd;
	struct ear listen, cm;
	int signal_fd;
	const struct control_hooks *hooks;
};

/* No descriptors, say: what waits would keep it readable and this thread spinning. */
static void plug(struct control *c, struct ear *ear, const char *what, int code, const char *advice)
{
	uint64_t now = time_now_ns();

	if (now - ear->complaint_ns > COMPLAINT_NS) {
		log_warn("session", "%s failed: %s (%s)", what, error_name(code), advice);
		ear->complaint_ns = now;
	}
	ear->deaf = epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, ear->fd, NULL) == 0;
}

static void unplug(struct control *c, struct ear *ear)
{
	if (ear->deaf && watch(c->epoll_fd, ear->fd, ear->tag) == 0)
		ear->deaf = false;
}

static void accept_some(struct control *c)
{
	for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(c->listen.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct session *s;

		if (fd < 0) {
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				plug(c, &c->listen, "accept", errno,
				     "raise the limit of open files with LimitNOFILE= or "
				     "ulimit -n");
			return;
		}
		s = session_accept(c->all, fd);
		if (s && watch(c->epoll_fd, fd, s))
			session_end(s, 0);
	}
}

static void cm_events(struct control *c)
{
	struct sessions *all = c->all;

	for (unsigned i = 0; i < CM_MAX && !all->fatal; i++) {
		int rc = session_cm_event(all);

		if (rc && rc != -EAGAIN)
			plug(c, &c->cm, "taking an event of the RDMA CM", rc,
			     "no queue pair is connected by it meanwhile; the kernel's log may say "
			     "more");
		if (rc)
			return;
	}
}

static void end_late_strangers(struct sessions *all)
{
	uint64_t now = time_now_ns();
	struct session *s, *next;
	struct error err;

	cds_list_for_each_entry_safe (s, next, &all->strangers, node) {
		if (now < s->deadline_ns)
			break; /* in the order of their coming */
		if (s->hello)
			continue; /* the server is late */
		error_set(&err, -ETIMEDOUT, "no HELLO within %u s of connecting",
			  EXCHANGE_DEADLINE_MS / 1000);
		session_refuse(s, 0, &err);
		session_end(s, 0);
	}
}

static void tick(struct control *c)
{
	struct sessions *all = c->all;
	uint64_t ticks;

	if (read(c->timer_fd, &ticks, sizeof(ticks)) < 0)
		return;
	end_late_strangers(all);
	fence_look(all);
	unplug(c, &c->listen);
	unplug(c, &c->cm);
	if (c->hooks && c->hooks->tick)
		c->hooks->tick(c->hooks->tick_ctx);
}

/* True to stop. None of the others may end the server: the records would be lost. */
static bool take_signal(struct control *c)
{
	struct signalfd_siginfo info;

	if (read(c->signal_fd, &info, sizeof(info)) != sizeof(info))
		return false;
	if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
		return true;
	if (info.ssi_signo == SIGHUP && c->hooks && c->hooks->reload)
		c->hooks->reload(c->hooks->reload_ctx);
	else
		log_info("config",
			 "SIG%s is ignored (SIGHUP reloads the configuration file, SIGTERM stops "
			 "the server)",
			 sigabbrev_np((int)info.ssi_signo));
	return false;
}

/* For leases. */
static int make_timer(unsigned period_ms, int *out)
{
	const struct timespec period = { 0, period_ms * (long)NS_PER_MS };
	const struct itimerspec spec = { period, period };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	*out = fd; /* the caller closes it, also on failure */
	return fd < 0 || timerfd_settime(fd, 0, &spec, NULL) ? -errno : 0;
}

void control_signals(sigset_t *set)
{
	const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 };

	sigemptyset(set);
	for (unsigned i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(set, signals[i]);
}

static int make_signals(int *out)
{
	sigset_t set;

	control_signals(&set);
	*out = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return *out < 0 ? -errno : 0;
}

/* Sessions, until the last one has parted: workers bound what each of them takes. */
static void end_all(struct sessions *all)
{
	uint64_t answer_until_ns = time_now_ns() + GRACEFUL_NS;
	struct session *s, *next;

	cds_list_for_each_entry_safe (s, next, &all->strangers, node)
		session_end(s, 0);
	cds_list_for_each_entry_safe (s, next, &all->list, node)
		session_end(s, answer_until_ns);
	for (;;) {
		struct pollfd fds[2] = { { .fd = all->obeyed.fd, .events = POLLIN },
					 { .fd = rdma_device_event_fd(all->dev),
					   .events = POLLIN } };
		int wait_ms = sessions_work(all);

		if (cds_list_empty(&all->parting))
			return;
		poll(fds, 2, wait_ms);
		sessions_device_events(all);
	}
}

/*
 * One turn. Returns true to stop: a signal asks for it, or the device has failed.
 * An event can end other sessions than its own (a client comes back, strangers are late): then the
 * rest of the array may point to freed ones, and epoll is asked again.
 */
static bool turn(struct control *c)
{
	struct sessions *all = c->all;
	struct epoll_event events[EVENTS_MAX];
	const int wait_ms = sessions_work(all);
	uint64_t departures;
	int n;

	sessions_admit(all);
	departures = all->departures;
	n = all->fatal ? 0 : epoll_wait(c->epoll_fd, events, EVENTS_MAX, wait_ms);

	for (int i = 0; i < n && departures == all->departures; i++) {
		void *tag = events[i].data.ptr;

		if (tag == &tag_signal && take_signal(c))
			return true;
		if (tag == &tag_signal || tag == &tag_obeyed)
			continue; /* sessions_work() takes what came back */
		if (tag == &tag_device)
			sessions_device_events(all);
		else if (tag == &tag_notice)
			sessions_notices(all);
		else if (tag == &tag_cm)
			cm_events(c);
		else if (tag == &tag_listen)
			accept_some(c);
		else if (tag == &tag_timer)
			tick(c);
		else if (session_readable(tag, events[i].events & ~(uint32_t)EPOLLIN))
			session_end(tag, 0);
		if (all->fatal)
			return true;
	}
	return all->fatal;
}

int control_run(struct sessions *all, int listen_fd, const struct control_hooks *hooks,
		struct error *err)
{
	autoclose int epoll_fd = epoll_create1(EPOLL_CLOEXEC), signal_fd = -1, timer_fd = -1;
	int rc = epoll_fd < 0 ? -errno : 0;

	if (rc == 0)
		rc = make_signals(&signal_fd);
	if (rc == 0)
		rc = make_timer(fence_period_ms(all->lease_ms), &timer_fd);
	if (rc == 0)
		rc = watch(epoll_fd, listen_fd, &tag_listen);
	if (rc == 0)
		rc = watch(epoll_fd, signal_fd, &tag_signal);
	if (rc == 0)
		rc = watch(epoll_fd, timer_fd, &tag_timer);
	if (rc == 0)
		rc = watch(epoll_fd, rdma_device_event_fd(all->dev), &tag_device);
	if (rc == 0)
		rc = watch(epoll_fd, all->notice_fd, &tag_notice);
	if (rc == 0)
		rc = watch(epoll_fd, all->obeyed.fd, &tag_obeyed);
	if (rc == 0 && all->cm)
		rc = watch(epoll_fd, cm_listener_fd(all->cm), &tag_cm);
	if (rc)
		return error_set(err, rc, "setting up the control thread failed: %s",
				 error_name(rc));
	struct control control = {
		.all = all,
		.epoll_fd = epoll_fd,
		.timer_fd = timer_fd,
		.signal_fd = signal_fd,
		.hooks = hooks,
		.listen = { .fd = listen_fd, .tag = &tag_listen },
		.cm = { .fd = all->cm ? cm_listener_fd(all->cm) : -1, .tag = &tag_cm },
	};

	all->epoll_fd = epoll_fd;
	while (!turn(&control))
		;
	all->epoll_fd = -1;
	log_info("session", "told to stop: %" PRIu64 " sessions are ended",
		 atomic_load_explicit(&all->counters.sessions, memory_order_relaxed));
	end_all(all);
	if (all->fatal)
		return error_set(
			err, -EIO,
			"device %s: %s; the server cannot go on (look at the kernel's log, "
			"then start it again)",
			all->dev->name, all->fatal);
	return 0;
}
