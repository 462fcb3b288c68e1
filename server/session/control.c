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
#include "server/session/session.h"

#define EVENTS_MAX   64
#define GRACEFUL_NS  (500 * NS_PER_MS) /* to answer what has arrived, all sessions together */
#define REST_NS	     (20 * NS_PER_MS) /* the same, of a server that gives way to another one */
#define COMPLAINT_NS (5 * NS_PER_S) /* between two complaints of one kind */
#define ACCEPTS_MAX  64 /* a turn: life lines are read in between */
#define TICK_MS	     100u

/* What an epoll event points to: one of these, or a session. */
static char tag_listen, tag_signal, tag_timer, tag_notice, tag_news;

static int watch(int epoll_fd, int fd, void *tag)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP, .data = { .ptr = tag } };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

/* What the loop waits for. */
struct control {
	struct sessions *all;
	int epoll_fd, timer_fd, listen_fd, signal_fd;
	bool deaf; /* a connection could not be accepted: none is until the next tick */
	uint64_t complaint_ns; /* the last line of the log about it */
	const struct control_hooks *hooks;
};

/* No descriptors, say: what waits would keep it readable and this thread spinning. */
static void plug(struct control *c, int code)
{
	uint64_t now = time_now_ns();

	if (now - c->complaint_ns > COMPLAINT_NS) {
		log_warn("session",
			 "accept failed: %s (raise the limit of open files with LimitNOFILE= or "
			 "ulimit -n)",
			 error_name(code));
		c->complaint_ns = now;
	}
	c->deaf = epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, c->listen_fd, NULL) == 0;
}

static void unplug(struct control *c)
{
	if (c->deaf && watch(c->epoll_fd, c->listen_fd, &tag_listen) == 0)
		c->deaf = false;
}

static void accept_some(struct control *c)
{
	for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct session *s;

		if (fd < 0) {
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				plug(c, errno);
			return;
		}
		s = session_accept(c->all, fd);
		if (s && watch(c->epoll_fd, fd, s))
			session_end(s, 0);
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
		/* It may be this thread that is late: what has come by now counts. */
		if (!s->hello && session_readable(s, false)) {
			session_end(s, 0);
			continue;
		}
		if (s->hello || s->begun)
			continue;
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
	sessions_retry(all);
	unplug(c);
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

static int make_timer(int *out)
{
	const struct timespec period = { 0, TICK_MS * (long)NS_PER_MS };
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

void sessions_rest(struct sessions *all)
{
	/* release: pairs with rest(); what serves() looks at was written before */
	atomic_fetch_add_explicit(&all->rest, 1, memory_order_release);
	sessions_wake_control(all);
}

bool sessions_rested(const struct sessions *all)
{
	/* acquire: pairs with rest() */
	return atomic_load_explicit(&all->rests, memory_order_acquire) ==
	       atomic_load_explicit(&all->rest, memory_order_relaxed);
}

void sessions_go_on(struct sessions *all)
{
	atomic_fetch_add_explicit(&all->rest, 1, memory_order_relaxed);
}

/*
 * What begins before serves() says no is seen here. That it says so is certain once this thread has
 * read the value of `rest` that it answers with: so none begins after the answer.
 */
static void rest(struct sessions *all)
{
	/* acquire: pairs with sessions_rest() */
	const uint32_t asked = atomic_load_explicit(&all->rest, memory_order_acquire);
	struct session *s, *next;

	if (!(asked & 1) || atomic_load_explicit(&all->rests, memory_order_relaxed) == asked)
		return;
	cds_list_for_each_entry_safe (s, next, &all->list, node)
		session_end(s, time_now_ns() + REST_NS);
	if (!cds_list_empty(&all->parting))
		return;
	/* release: pairs with sessions_rested() */
	atomic_store_explicit(&all->rests, asked, memory_order_release);
	all->rested(all->group_ctx);
}

/* Sessions, until the last one has come back: workers bound what each of them takes. */
static void end_all(struct sessions *all)
{
	uint64_t answer_until_ns = time_now_ns() + GRACEFUL_NS;
	struct session *s, *next;

	cds_list_for_each_entry_safe (s, next, &all->strangers, node)
		session_end(s, 0);
	cds_list_for_each_entry_safe (s, next, &all->list, node)
		session_end(s, answer_until_ns);
	while (!cds_list_empty(&all->parting)) {
		struct pollfd news = { .fd = all->news.fd, .events = POLLIN };

		poll(&news, 1, -1);
		sessions_news(all);
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
	uint64_t departures;
	int n;

	sessions_admit(all);
	rest(all);
	departures = all->departures;
	n = epoll_wait(c->epoll_fd, events, EVENTS_MAX, -1);

	for (int i = 0; i < n && departures == all->departures; i++) {
		void *tag = events[i].data.ptr;

		if (tag == &tag_signal && take_signal(c))
			return true;
		if (tag == &tag_signal)
			continue;
		if (tag == &tag_news)
			sessions_news(all);
		else if (tag == &tag_notice)
			sessions_notices(all);
		else if (tag == &tag_listen)
			accept_some(c);
		else if (tag == &tag_timer)
			tick(c);
		else if (session_readable(tag, events[i].events & ~(uint32_t)EPOLLIN))
			session_end(tag, 0);
	}
	return sessions_fatal(all);
}

int control_run(struct sessions *all, int listen_fd, const struct control_hooks *hooks,
		struct error *err)
{
	autoclose int epoll_fd = epoll_create1(EPOLL_CLOEXEC), signal_fd = -1, timer_fd = -1;
	int rc = epoll_fd < 0 ? -errno : 0;

	if (rc == 0)
		rc = make_signals(&signal_fd);
	if (rc == 0)
		rc = make_timer(&timer_fd);
	if (rc == 0)
		rc = watch(epoll_fd, listen_fd, &tag_listen);
	if (rc == 0)
		rc = watch(epoll_fd, signal_fd, &tag_signal);
	if (rc == 0)
		rc = watch(epoll_fd, timer_fd, &tag_timer);
	if (rc == 0)
		rc = watch(epoll_fd, all->notice_fd, &tag_notice);
	if (rc == 0)
		rc = watch(epoll_fd, all->news.fd, &tag_news);
	if (rc)
		return error_set(err, rc, "setting up the control thread failed: %s",
				 error_name(rc));
	struct control control = {
		.all = all,
		.epoll_fd = epoll_fd,
		.timer_fd = timer_fd,
		.signal_fd = signal_fd,
		.listen_fd = listen_fd,
		.hooks = hooks,
	};

	all->epoll_fd = epoll_fd;
	while (!turn(&control))
		;
	all->epoll_fd = -1;
	log_info("session", "told to stop: %" PRIu64 " sessions are ended",
		 atomic_load_explicit(&all->counters.sessions, memory_order_relaxed));
	end_all(all);
	if (sessions_fatal(all))
		return error_set(
			err, -EIO,
			"device %s: %s; the server cannot go on (look at the kernel's log, "
			"then start it again)",
			all->dev->name, sessions_fatal(all));
	return 0;
}
