/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What people ask a member through kv-cluster (wire_group.h). Status is answered at once, as of the
 * last turn. A change is begun, and answered when it stands in etcd, or cannot be: there is one at
 * a time, and its connection is kept as the wish. Nothing here waits: an answer that the socket
 * does not take is not given.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/time.h"
#include "server/member/member_internal.h"

static_assert(WIRE_GROUP_MEMBERS_MAX == GROUP_MEMBERS_MAX, "as many as a configuration has");

static void refuse(int fd, const struct error *why)
{
	exchange_refuse(fd, 0, why->code, why->text);
	close(fd);
}

/* Status. */

static uint32_t role_of(const struct member_state *s)
{
	static const uint32_t role[] = {
		[MEMBER_BEGINS] = WIRE_GROUP_BEGINS,
		[MEMBER_WAITS] = WIRE_GROUP_WAITS,
		[MEMBER_FOUNDS] = WIRE_GROUP_OPENS,
		[MEMBER_FOLLOWS] = WIRE_GROUP_FOLLOWS,
		[MEMBER_TAKES_OVER] = WIRE_GROUP_TAKES_OVER,
		[MEMBER_OPENS] = WIRE_GROUP_OPENS,
		[MEMBER_LEADS] = WIRE_GROUP_LEADS,
		[MEMBER_GIVES_WAY] = WIRE_GROUP_GIVES_WAY,
		[MEMBER_ENDS] = WIRE_GROUP_ENDS,
	};

	return s->role == MEMBER_FOLLOWS && !s->follow.learned ? WIRE_GROUP_LEARNS : role[s->role];
}

static uint64_t lease_left_us(const struct member_config *c)
{
	const uint64_t now_us = time_read_ns(CLOCK_BOOTTIME) / 1000;
	const uint64_t until_us = atomic_load_explicit(c->until, memory_order_relaxed);

	return until_us > now_us ? until_us - now_us : 0;
}

static struct wire_frame status_of(const struct member *m, const struct member_state *s)
{
	const struct member_config *c = &m->config;
	const struct group_config *known = &s->known.config;
	struct wire_frame f = { .type = WIRE_GROUP_STATUS };
	struct wire_group_status *out = &f.group_status;

	out->life = c->self.life;
	out->term = known->term;
	out->primary = known->primary;
	out->lease_left_us = m->lead ? lease_left_us(c) : 0;
	out->position = m->lead ? s->sent : s->follow.log.held;
	out->applied = s->follow.log.applied;
	out->role = role_of(s);
	out->lease_ms = known->lease_ms;
	out->min_in_sync = known->min_in_sync;
	out->members = known->count;
	out->rho_ppm = known->rho_ppm;
	if (c->sessions) /* relaxed: a figure */
		out->sessions = (uint32_t)atomic_load_explicit(c->sessions, memory_order_relaxed);
	out->memory = c->memory;
	snprintf(out->cluster, sizeof(out->cluster), "%s", c->cluster);
	snprintf(out->group, sizeof(out->group), "%s", c->group);
	memcpy(out->node, c->self.node, sizeof(out->node));
	memcpy(out->address, c->self.address, sizeof(out->address));
	memcpy(out->why, known->why, sizeof(out->why));
	memcpy(out->waits, s->why, sizeof(out->waits));
	return f;
}

static uint32_t stage_of(enum lead_stage s)
{
	static const uint32_t stage[] = {
		[LEAD_AWAITED] = WIRE_GROUP_AWAITED,
		[LEAD_WAITS] = WIRE_GROUP_CONNECTS,
		[LEAD_COMES] = WIRE_GROUP_CONNECTS,
		[LEAD_LEARNS] = WIRE_GROUP_WALKS,
		[LEAD_CATCHES_UP] = WIRE_GROUP_CATCHES_UP,
		[LEAD_IN_SYNC] = WIRE_GROUP_IN_SYNC,
		[LEAD_CUT] = WIRE_GROUP_CUT,
	};

	return stage[s];
}

static const struct lead_state *peer_of(const struct member_state *s, uint64_t life)
{
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++)
		if (s->peer[i].stage != LEAD_FREE && s->peer[i].life == life)
			return &s->peer[i];
	return NULL;
}

static struct wire_frame member_frame(const struct member_state *s, const struct group_member *g)
{
	const uint64_t now_ns = time_read_ns(CLOCK_BOOTTIME);
	const struct lead_state *p = peer_of(s, g->life);
	struct wire_frame f = { .type = WIRE_GROUP_MEMBER };
	struct wire_group_member *out = &f.group_member;

	out->life = g->life;
	out->in_sync = g->in_sync;
	memcpy(out->node, g->node, sizeof(out->node));
	memcpy(out->address, g->address, sizeof(out->address));
	if (!p)
		return f;
	out->stage = stage_of(p->stage);
	out->held = p->mirror.held;
	out->applied = p->mirror.applied;
	out->granted_left_us = p->granted_ns > now_ns ? (p->granted_ns - now_ns) / 1000 : 0;
	snprintf(out->why, sizeof(out->why), "%s", p->why);
	return f;
}

static void tell_status(struct member *m, int fd)
{
	struct member_state s;
	struct wire_frame f;
	int rc;

	member_look(m, &s);
	f = status_of(m, &s);
	rc = exchange_send(fd, &f, 0, NULL);
	for (uint32_t i = 0; i < s.known.config.count && rc == 0; i++) {
		f = member_frame(&s, &s.known.config.member[i]);
		rc = exchange_send(fd, &f, 0, NULL);
	}
	close(fd);
}

/* Changes. */

static bool has_gone(int fd)
{
	char byte;

	return fd >= 0 && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static int begin(struct member *m, const struct wire_group_ask *ask, struct error *err)
{
	struct member_wish *w = &m->wish;

	if (has_gone(w->fd)) {
		close(w->fd);
		w->fd = -1;
	}
	if (w->fd >= 0)
		return error_set(err, -EBUSY,
				 "another change is under way (ask again when it is done)");
	w->what = ask->what;
	if (ask->what == WIRE_GROUP_ASK_FORCE) {
		w->life = m->config.self.life;
		return member_force(m, err);
	}
	if (!m->lead || m->role == MEMBER_ENDS)
		return error_set(err, -EREMOTE,
				 "this server is not its group's primary, which alone changes the "
				 "group (kv-cluster status says which one is)");
	if (ask->what == WIRE_GROUP_ASK_SWITCH)
		return lead_switch(m->lead, ask->node, &w->life, err);
	if (ask->what == WIRE_GROUP_ASK_REMOVE)
		return lead_remove(m->lead, ask->node, &w->life, err);
	return error_set(err, -EPROTO, "question %u is none of this release", ask->what);
}

void member_ask(struct member *m, int fd, const struct wire_group_ask *ask)
{
	struct error err = { 0 };

	if (ask->group[0] && strcmp(ask->group, m->config.group) != 0) {
		error_set(&err, -EXDEV, "this server is of group %s, not of %s", m->config.group,
			  ask->group);
		refuse(fd, &err);
	} else if (ask->what == WIRE_GROUP_ASK_STATUS) {
		tell_status(m, fd);
	} else if (begin(m, ask, &err)) {
		refuse(fd, &err);
	} else {
		m->wish.fd = fd;
	}
}

static bool is_done(const struct member *m)
{
	const struct group_config *c = &m->known.config;

	return m->wish.what == WIRE_GROUP_ASK_REMOVE ? !group_find(c, m->wish.life)
						     : c->primary == m->wish.life;
}

void member_wish_known(struct member *m)
{
	struct wire_frame f = { .type = WIRE_GROUP_DONE,
				.group_done = { .term = m->known.config.term } };

	if (m->wish.fd < 0 || !is_done(m))
		return;
	memcpy(f.group_done.why, m->known.config.why, sizeof(f.group_done.why));
	exchange_send(m->wish.fd, &f, 0, NULL); /* whoever asked may be gone */
	close(m->wish.fd);
	m->wish.fd = -1;
}

void member_wish_failed(struct member *m, const struct error *why)
{
	struct error now = *why;

	if (m->wish.fd < 0)
		return;
	now.code = -EAGAIN; /* its own may be one of the network to etcd, not of this one */
	refuse(m->wish.fd, &now);
	m->wish.fd = -1;
}
