/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What a server is, by the configuration of its group:
 *
 *	BEGINS --no configuration--> FOUNDS ----------------> OPENS --> LEADS
 *	  |    --another is primary--> FOLLOWS <--> TAKES_OVER --^        |
 *	  `----an earlier life of this node is--> WAITS, or FOUNDS        v
 *	                   taken out, deposed, unfit: from anywhere --> ENDS
 *
 * THE THREAD waits for nobody: etcd is asked by the proposer's thread and followed by another one,
 * the lines to other servers have threads of their own, the log of a member is applied by one more,
 * and leases are that of the thread of leases. Each of them writes wake_fd; the thread takes what
 * they have, and makes a turn every LEAD_TURN_MS besides. It waits for a round of the thread of
 * leases, which itself waits for nobody, and for a member's thread that it has told to stop.
 *
 * A TAKE-OVER goes through the steps of docs/internals/replication.md 4 in their order: the promise
 * is over; etcd says, after that, that the configuration still is the one in which this server is
 * in sync; the thread of leases revokes, if no beat has come meanwhile; the old primary's queue
 * pair and ring go; what had come is held; a transaction. If that fails for good, etcd is read
 * once more; the rights are gone and stay gone, so this server either wins or follows another one.
 *
 * WHAT ETCD TELLS comes twice, by answers and by who follows the key, in any order. A configuration
 * counts if it is later than what is known; what comes while a proposal is under way is looked at
 * after its answer.
 *
 * ENDS is for good: the server answers nobody, and starts again in another life.
 */
#include "server/member/member.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "server/member/member_internal.h"

#define CALLS_MAX 64u /* that wait for the group's thread */

/* By the thread that follows the key. */
static void told(void *ctx, const struct etcd_value *v)
{
	struct member *m = ctx;
	struct group_known now;
	struct error err;

	if (group_registry_take(m->judges, v, &now, &err)) {
		log_error("group", "the group's configuration in etcd is not believed: %s",
			  err.text);
		return;
	}
	pthread_mutex_lock(&m->lock);
	m->told = now;
	m->has_told = true;
	pthread_mutex_unlock(&m->lock);
	eventfd_write(m->wake_fd, 1);
}

/* The same. */
static void heard(void *ctx, const char *why)
{
	struct member *m = ctx;

	pthread_mutex_lock(&m->lock);
	snprintf(m->silent, sizeof(m->silent), "%s", why ? why : "");
	pthread_mutex_unlock(&m->lock);
	if (why)
		log_warn("group",
			 "etcd does not answer: %s (reads and writes go on; nobody comes, goes or "
			 "takes over)",
			 why);
	else
		log_info("group", "etcd answers");
}

static void take_told(struct member *m)
{
	struct group_known now;
	bool has;

	pthread_mutex_lock(&m->lock);
	has = m->has_told;
	now = m->told;
	pthread_mutex_unlock(&m->lock);
	if (!has || !member_told(m, &now))
		return;
	pthread_mutex_lock(&m->lock);
	if (m->told.modified == now.modified)
		m->has_told = false;
	pthread_mutex_unlock(&m->lock);
}

static void take_call(struct member *m, const struct member_caller *c)
{
	if (c->first.type == WIRE_GROUP_ASK) {
		member_ask(m, c->fd, &c->first.group_ask);
	} else if (m->lead && m->role != MEMBER_ENDS) {
		lead_hello(m->lead, c->fd, &c->first.peer_hello);
	} else {
		exchange_refuse(c->fd, 0, -EAGAIN,
				"this server is not its group's primary (dial again)");
		close(c->fd);
	}
}

static void take_calls(struct member *m)
{
	struct mail *next;

	for (struct mail *mail = mailbox_take(&m->calls); mail; mail = next) {
		struct member_caller *c = (struct member_caller *)mail;

		next = mail->next;
		atomic_fetch_sub(&m->called, 1);
		take_call(m, c);
		free(c);
	}
}

static void publish_state(struct member *m)
{
	const struct group_member *self = group_find(&m->known.config, m->config.self.life);
	struct member_state s = { .role = m->role, .known = m->known };
	bool news;

	if (m->follow)
		follow_look(m->follow, &s.follow);
	for (unsigned i = 0; m->lead && i < MIRROR_PEERS_MAX; i++)
		lead_look(m->lead, i, &s.peer[i]);
	s.sent = m->mirror ? mirror_sent(m->mirror) : 0;
	pthread_mutex_lock(&m->lock);
	snprintf(s.why, sizeof(s.why), "%s", m->role == MEMBER_WAITS ? m->waits_for : m->silent);
	news = s.role != m->state.role || s.known.modified != m->state.known.modified;
	m->state = s;
	pthread_mutex_unlock(&m->lock);
	if (news && s.role != MEMBER_ENDS)
		m->config.news(m->config.ctx, self && self->in_sync);
}

static bool is_stopping(struct member *m)
{
	bool stop;

	pthread_mutex_lock(&m->lock);
	stop = m->stop;
	pthread_mutex_unlock(&m->lock);
	return stop;
}

static void await_something(struct member *m)
{
	struct pollfd fds[2 + LEAD_FDS_MAX] = { { .fd = m->wake_fd, .events = POLLIN },
						{ .fd = m->calls.fd, .events = POLLIN } };
	nfds_t count = 2;
	eventfd_t times;

	if (m->lead)
		count += lead_watch(m->lead, fds + 2);
	poll(fds, count, LEAD_TURN_MS);
	if (fds[0].revents)
		eventfd_read(m->wake_fd, &times);
}

static void *run(void *arg)
{
	struct member *m = arg;

	while (!is_stopping(m)) {
		take_told(m);
		take_calls(m);
		member_turn(m);
		publish_state(m);
		await_something(m);
	}
	return NULL;
}

static int open_all(struct member *m, struct error *err)
{
	const struct member_config *c = &m->config;
	const struct etcd_follow_config follow = {
		.etcd = &c->etcd, .told = told, .heard = heard, .ctx = m
	};
	struct etcd_follow_config with_key = follow;
	int rc = group_registry_open(&m->asks, &c->etcd, c->cluster, c->group, err);

	if (rc == 0)
		rc = group_registry_open(&m->judges, &c->etcd, c->cluster, c->group, err);
	if (rc == 0)
		rc = proposer_start(&m->proposer, m->asks, m->wake_fd, err);
	if (rc)
		return rc;
	with_key.key = group_registry_key(m->judges);
	rc = etcd_follow_start(&m->etcd, &with_key, err);
	if (rc)
		return rc;
	rc = -pthread_create(&m->thread, NULL, run, m);
	if (rc)
		return error_set(err, rc,
				 "starting the group's thread failed: %s (raise the limit "
				 "of threads)",
				 error_name(rc));
	m->runs = true;
	pthread_setname_np(m->thread, "gkv-group");
	return 0;
}

int member_start(struct member **out, const struct member_config *config, struct error *err)
{
	struct member *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return error_set(err, -ENOMEM, "there is no memory for a member of a group");
	m->config = *config;
	m->wish.fd = -1;
	pthread_mutex_init(&m->lock, NULL);
	m->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = m->wake_fd < 0 ? -errno : mailbox_create(&m->calls);
	if (rc) {
		if (m->wake_fd >= 0)
			close(m->wake_fd);
		pthread_mutex_destroy(&m->lock);
		free(m);
		return error_set(err, rc,
				 "starting the group's thread failed: %s (raise the limit of open "
				 "files)",
				 error_name(rc));
	}
	rc = open_all(m, err);
	if (rc) {
		member_stop(m);
		member_destroy(m);
		return rc;
	}
	*out = m;
	return 0;
}

/* Those who have called meanwhile. */
static void hang_up(struct member *m)
{
	struct mail *next;

	for (struct mail *mail = mailbox_take(&m->calls); mail; mail = next) {
		next = mail->next;
		close(((struct member_caller *)mail)->fd);
		free(mail);
	}
}

void member_stop(struct member *m)
{
	const struct error stops = { -ECANCELED, "this server stops" };
	struct error err;

	pthread_mutex_lock(&m->lock);
	m->stop = true;
	pthread_mutex_unlock(&m->lock);
	eventfd_write(m->wake_fd, 1);
	if (m->runs)
		pthread_join(m->thread, NULL);
	m->runs = false;
	etcd_follow_stop(m->etcd);
	lead_stop(m->lead);
	proposer_stop(m->proposer);
	for (unsigned i = 0; m->mirror && i < MIRROR_PEERS_MAX; i++)
		mirror_remove(m->mirror, i);
	beat_stop(m->beat);
	if (m->follow && follow_leave(m->follow, &err))
		log_error("group", "%s", err.text);
	hang_up(m);
	member_wish_failed(m, &stops);
	m->etcd = NULL;
	m->lead = NULL;
	m->proposer = NULL;
	m->beat = NULL;
}

void member_destroy(struct member *m)
{
	if (!m)
		return;
	follow_destroy(m->follow);
	mirror_close(m->mirror);
	group_registry_close(m->asks);
	group_registry_close(m->judges);
	mailbox_destroy(&m->calls);
	close(m->wake_fd);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

void member_call(struct member *m, int fd, const struct wire_frame *first)
{
	struct member_caller *c = NULL;

	if (atomic_fetch_add(&m->called, 1) < CALLS_MAX)
		c = malloc(sizeof(*c));
	if (!c) {
		atomic_fetch_sub(&m->called, 1);
		exchange_refuse(
			fd, 0, -EAGAIN,
			"too many wait for this member of a group to answer (it may wait for "
			"etcd: ask again in a moment)");
		close(fd);
		return;
	}
	*c = (struct member_caller){ .fd = fd, .first = *first };
	mailbox_post(&m->calls, &c->mail);
}

void member_wake(struct member *m)
{
	eventfd_write(m->wake_fd, 1);
}

void member_look(struct member *m, struct member_state *out)
{
	pthread_mutex_lock(&m->lock);
	*out = m->state;
	pthread_mutex_unlock(&m->lock);
}
