/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What a server is in its group, and what makes it another thing: member.c has the argument. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/member/member_internal.h"

#define LOOK_MIN_NS (10 * NS_PER_MS) /* between two looks at what etcd has, at first */
#define REST_NS	    (200 * NS_PER_MS) /* before etcd is asked again */
#define TAKE_OVERS  3 /* leases in which another one has taken over, if there is one */
#define TIDY_NS	    (200 * NS_PER_MS) /* after it has become primary: clients come first */
#define TELL_NS	    (10 * NS_PER_S) /* between two lines of the log about what is waited for */

static void end(struct member *m, int rc, const char *what, const char *why)
{
	struct error err;

	error_set(&err, rc, "%s: %s", what, why);
	if (m->beat && m->lead)
		beat_rest(m->beat);
	m->role = MEMBER_ENDS;
	log_warn("group", "%s", err.text);
	member_wish_failed(m, &err);
	m->config.ends(m->config.ctx, &err);
}

static void fail(struct member *m, const struct error *err)
{
	end(m, err->code, "this server cannot go on as a member of its group", err->text);
}

static void wait_for(struct member *m, const char *what)
{
	m->role = MEMBER_WAITS;
	snprintf(m->waits_for, sizeof(m->waits_for), "%s", what);
}

/* The thread of leases, when the group's terms are known: never by this server's own options, which
 * count where it founds the group, and another one may. */
static bool has_beat(struct member *m, const struct group_config *of)
{
	const struct beat_config c = { .terms = { of->lease_ms * NS_PER_MS, of->rho_ppm },
				       .until = m->config.until,
				       .clock = m->config.clock,
				       .wake_fd = m->wake_fd };
	struct error err;

	if (!m->beat && beat_start(&m->beat, &c, &err)) {
		m->beat = NULL;
		fail(m, &err);
	}
	return m->beat;
}

/* It is primary. */

static void opened(void *ctx)
{
	struct member *m = ctx;
	const struct member_lead how = { m->mirror, m->follow ? follow_held(m->follow) : NULL,
					 m->known, m->config.self.life };
	struct error err;

	m->role = MEMBER_LEADS;
	if (m->config.lead(m->config.ctx, &how, &err)) {
		fail(m, &err);
		return;
	}
	m->tidy_ns = m->follow ? time_now_ns() + TIDY_NS : 0;
	log_info("group", "this server is primary in term %" PRIu64, m->known.config.term);
}

static void changed(void *ctx, const struct group_known *now)
{
	struct member *m = ctx;

	m->known = *now;
	m->config.changed(m->config.ctx, now);
	member_wish_known(m);
}

static void rest(void *ctx, bool rests)
{
	struct member *m = ctx;

	m->role = rests ? MEMBER_GIVES_WAY : MEMBER_LEADS;
	m->config.rest(m->config.ctx, rests);
}

static bool rested(void *ctx)
{
	struct member *m = ctx;

	return m->config.rested(m->config.ctx);
}

static void stays(void *ctx, const struct error *why)
{
	log_warn("group", "%s", why->text);
	member_wish_failed(ctx, why);
}

static void deposed(void *ctx, const struct group_known *now)
{
	struct member *m = ctx;

	m->known = *now;
	member_wish_known(m);
	end(m, -ESTALE, "this server is not primary any more", now->config.why);
}

static void lead(struct member *m, const struct group_known *now)
{
	const struct member_config *c = &m->config;
	struct follower *held = m->follow ? follow_held(m->follow) : NULL;
	struct lead_config lead = {
		.proposer = m->proposer,
		.dev = c->dev,
		.wake_fd = m->wake_fd,
		.known = *now,
		.self = c->self.life,
		.cluster = { c->cluster_id[0], c->cluster_id[1] },
		.group = c->group,
		.memory = c->memory,
		.brings = held,
		.table = c->table,
		.opened = opened,
		.changed = changed,
		.rest = rest,
		.rested = rested,
		.stays = stays,
		.deposed = deposed,
		.ctx = m,
	};
	struct follower_state s = { .held = m->position };
	struct error err;
	int rc;

	if (!has_beat(m, &now->config))
		return;
	lead.beat = m->beat;
	m->known = *now;
	m->role = MEMBER_OPENS;
	member_wish_known(m);
	log_info("group", "term %" PRIu64 ": %s", now->config.term, now->config.why);
	if (held)
		follower_look(held, &s);
	rc = mirror_open(&m->mirror, c->dev, now->config.term, s.held, &err);
	lead.mirror = m->mirror;
	if (rc == 0)
		rc = lead_start(&m->lead, &lead, &err);
	if (rc)
		fail(m, &err);
}

/* It begins. */

static void propose(struct member *m, const struct group_config *c, int what)
{
	proposer_propose(m->proposer, &m->known, c);
	m->asked = what;
	m->role = MEMBER_FOUNDS;
}

/* What this server has is made ready. */
static int own(struct member *m, struct error *err)
{
	return m->config.own(m->config.ctx, m->config.self.life, m->known.config.primary,
			     &m->position, err);
}

/* With what this server has, alone. */
static void propose_alone(struct member *m, const struct group_config *c)
{
	struct error err;

	if (own(m, &err))
		fail(m, &err);
	else
		propose(m, c, TO_FOUND);
}

static void found_group(struct member *m)
{
	struct group_config c = { .lease_ms = m->config.lease_ms,
				  .rho_ppm = m->config.rho_ppm,
				  .min_in_sync = m->config.min_in_sync };

	if (m->config.was_member) {
		wait_for(m, "etcd has no configuration of this group, and this server has records "
			    "of it: if etcd has lost what it had, kv-cluster force makes this "
			    "server go on with them");
		return;
	}
	group_found(&c, &m->config.self);
	propose_alone(m, &c);
}

static bool has_log_of(const struct member *m, uint64_t life)
{
	return life && (life == m->config.before[0] || life == m->config.before[1]);
}

/*
 * It was to be primary in that life, and answered nobody: its directory would say so. Then what was
 * acknowledged is what the one before it has acknowledged, which has that on its disk.
 */
static bool gives_back(const struct member *m)
{
	const struct group_config *c = &m->known.config;
	const bool answered =
		c->primary == m->config.answered[0] || c->primary == m->config.answered[1];

	return m->config.was_member && !m->config.copied && c->before_count &&
	       (!answered || MUTANT(give_back_all));
}

/*
 * An earlier life had vouched for itself, too, and died before etcd named it. What that one had
 * proposed may come yet, and when this one vouches, that life is forgotten: it must not come then.
 */
static bool may_come_late(const struct member *m)
{
	return m->config.before[0] != m->known.config.primary && m->known.modified == m->begun &&
	       !MUTANT(forget_late);
}

static void return_or_give_back(struct member *m, bool whole)
{
	const struct group_member *self = &m->config.self;
	const bool again = whole && may_come_late(m);
	struct group_config c = m->known.config;
	struct error err;
	int rc;

	if (again)
		rc = group_again(&c, self, &err);
	else if (whole)
		rc = group_return(&c, c.primary, self, &err);
	else
		rc = group_give_back(&c, self, &err);
	if (rc)
		fail(m, &err);
	else if (whole && !again)
		propose_alone(m, &c);
	else
		propose(m, &c, TO_CHANGE);
}

/* An earlier life of this node is primary. Others that are in sync may take over: that keeps more
 * servers in sync than if this one goes on alone. */
static void come_back(struct member *m)
{
	const struct group_config *c = &m->known.config;
	const bool whole = has_log_of(m, c->primary), gives = !whole && gives_back(m);
	const bool others = group_in_sync(c) > 1;

	if (!m->alone_ns)
		m->alone_ns = time_now_ns() + TAKE_OVERS * c->lease_ms * NS_PER_MS + NS_PER_S;
	if ((whole || gives) && (!others || time_now_ns() >= m->alone_ns)) {
		return_or_give_back(m, whole);
	} else if (whole) {
		wait_for(m, "this node was primary in an earlier life, and another one may take "
			    "over: if none does, it goes on with its data directory");
	} else if (gives) {
		wait_for(m, "this node was to be primary in an earlier life, and another one may "
			    "take over: if none does, the primary before it is to go on");
	} else if (m->config.copied) {
		wait_for(m, "this node was primary, its directory is a copy, and may lack what was "
			    "written since: kv-cluster force makes it go on with what it has");
	} else if (others) {
		wait_for(m, "this node was primary in an earlier life, and another one takes over: "
			    "if none is left, kv-cluster force makes it go on with what it has");
	} else {
		wait_for(m,
			 "this node was primary, alone, and its log may not be whole: if no other "
			 "server has more, kv-cluster force makes it go on with what it has");
	}
}

static void dial(struct member *m, const struct group_member *primary)
{
	const struct member_config *c = &m->config;
	struct follow_config config = {
		.dev = c->dev,
		.ring_bytes = c->ring_bytes,
		.who = { .cluster = { c->cluster_id[0], c->cluster_id[1] },
			 .life = c->self.life,
			 .memory = c->memory },
		.wake_fd = m->wake_fd,
		.hooks = c->follow,
	};
	struct error err;
	int rc = 0;

	snprintf(config.who.group, sizeof(config.who.group), "%s", c->group);
	memcpy(config.who.node, c->self.node, sizeof(config.who.node));
	memcpy(config.who.address, c->self.address, sizeof(config.who.address));
	if (!m->follow)
		rc = follow_create(&m->follow, &config, &err);
	if (rc == 0)
		rc = follow_dial(m->follow, primary->address, &err);
	if (rc) {
		fail(m, &err);
		return;
	}
	m->primary = primary->life;
	m->role = MEMBER_FOLLOWS;
	log_info("group", "term %" PRIu64 ": %s (%s) is primary", m->known.config.term,
		 primary->node, primary->address);
}

static void decide(struct member *m)
{
	const struct group_config *c = &m->known.config;
	const struct group_member *primary = group_find(c, c->primary);

	if (!m->known.modified) {
		found_group(m);
		return;
	}
	if (!has_beat(m, c))
		return;
	if (strcmp(primary->node, m->config.self.node) == 0)
		come_back(m);
	else
		dial(m, primary);
}

/* It follows. */

static void give_term(struct member *m, struct pulse *pulse)
{
	if (pulse == m->pulse && m->learned_term == m->known.config.term)
		return;
	if (beat_follow(m->beat, m->known.config.term, pulse) == 0) {
		m->pulse = pulse;
		m->learned_term = m->known.config.term;
	}
}

/* Its primary has no rights here any more. False: the server ends. */
static bool leave(struct member *m)
{
	struct follow_state s;
	struct error err;

	give_term(m, NULL);
	m->primary = 0;
	if (follow_leave(m->follow, &err)) {
		fail(m, &err);
		return false;
	}
	follow_look(m->follow, &s);
	if (s.stage == FOLLOW_UNFIT)
		fail(m, &s.err);
	return s.stage != FOLLOW_UNFIT;
}

/* Whether it has nothing to wait for: it would be primary already, or learns, or may take over. */
static int may_be_forced(const struct member *m, const struct follow_state *s, struct error *err)
{
	const struct group_member *self = group_find(&m->known.config, m->config.self.life);

	if (self && self->in_sync)
		return error_set(err, -EBUSY,
				 "this server has what was acknowledged, and takes over by itself "
				 "when etcd answers (or is primary already)");
	if (!m->knows || (!m->known.modified && m->role != MEMBER_WAITS) || m->asked != NOTHING ||
	    m->lead || (m->role != MEMBER_WAITS && m->role != MEMBER_FOLLOWS))
		return error_set(err, -EBUSY,
				 "this server does not wait for its group (kv-cluster status says "
				 "what it does)");
	if (s->stage == FOLLOW_LEARNS && !s->learned)
		return error_set(
			err, -EBUSY,
			"this server has a part of the primary's records (wait until it has "
			"learned all of them, or starts again)");
	return 0;
}

/* One that has learned keeps what it holds, as in a take-over. */
int member_force(struct member *m, struct error *err)
{
	struct group_config c = m->known.config;
	struct follow_state s = { .stage = FOLLOW_NOBODY };

	if (m->follow)
		follow_look(m->follow, &s);
	if (may_be_forced(m, &s, err))
		return err->code;
	if (m->follow && m->primary && !leave(m))
		return error_set(err, -EIO, "this server ends (its log says why)");
	if (m->known.modified) {
		group_force(&c, &m->config.self);
	} else {
		c = (struct group_config){ .lease_ms = m->config.lease_ms,
					   .rho_ppm = m->config.rho_ppm,
					   .min_in_sync = m->config.min_in_sync };
		group_found(&c, &m->config.self);
	}
	if (!s.learned && own(m, err))
		return err->code;
	log_warn("group", "a person wants this server to be all there is of its group");
	propose(m, &c, TO_FOUND);
	return 0;
}

static void follow_another(struct member *m, const struct group_member *primary)
{
	struct follow_state s;

	if (strcmp(primary->node, m->config.self.node) == 0) {
		end(m, -ESTALE, "this server goes on as what it was before", m->known.config.why);
		return;
	}
	follow_look(m->follow, &s);
	if (!s.learned && s.stage != FOLLOW_DIALS) {
		end(m, -ESTALE, "this server has not learned all from the primary, which is gone",
		    m->known.config.why);
		return;
	}
	if (m->primary == 0 || leave(m))
		dial(m, primary);
}

/*
 * The primary has given way to this server. It answers nobody any more, and cannot commit what is
 * not here: it loses its rights, then what it has sent is looked at, as in a take-over.
 */
static void take_office(struct member *m)
{
	const struct group_known now = m->known;

	if (m->primary == 0 || leave(m))
		lead(m, &now);
}

/* It was taken out. What the primary said of it before that, if anything, is the reason. */
static void dismissed(struct member *m)
{
	struct follow_state s = { 0 };
	struct error err;

	if (m->follow && m->primary) {
		give_term(m, NULL); /* nothing of it is used any more */
		m->primary = 0;
		follow_leave(m->follow, &err); /* it ends anyhow */
	}
	if (m->follow)
		follow_look(m->follow, &s);
	if (s.dismissed.code)
		end(m, s.dismissed.code, "this server was taken out of its group",
		    s.dismissed.text);
	else
		end(m, -ESTALE, "this server was taken out of its group", m->known.config.why);
}

/* A configuration that it did not know. */
static void follow_known(struct member *m)
{
	const struct group_config *c = &m->known.config;
	const struct group_member *self = group_find(c, m->config.self.life);

	if (!self && m->was_member) {
		dismissed(m);
		return;
	}
	m->was_member = self != NULL;
	if (c->primary == m->config.self.life)
		take_office(m);
	else if (c->primary != m->primary)
		follow_another(m, group_find(c, c->primary));
}

/* Broken on purpose, for tests: now and then, so that whoever takes over comes to answer. */
static bool too_early(void)
{
	return MUTANT(take_over_early) && time_now_ns() / NS_PER_MS % 500 < 10 * LEAD_TURN_MS;
}

/* The promise is over: etcd is asked whether the configuration still is the one that it knows. */
static void try_to_take_over(struct member *m)
{
	const struct group_member *self = group_find(&m->known.config, m->config.self.life);

	/* An answer may be due yet: to a read before the primary became another one. */
	if (!self || !self->in_sync || m->asked != NOTHING || time_now_ns() < m->rest_until_ns ||
	    (!beat_is_over(m->beat, m->known.config.term) && !too_early()))
		return;
	log_debug("group", "the primary is silent: etcd is asked");
	proposer_read(m->proposer);
	m->asked = TO_READ;
	m->role = MEMBER_TAKES_OVER;
}

static void follow_turn(struct member *m)
{
	struct follow_state s;

	follow_look(m->follow, &s);
	if (s.stage == FOLLOW_UNFIT) {
		fail(m, &s.err);
		return;
	}
	give_term(m, s.pulse);
	if (s.learned)
		try_to_take_over(m);
	if (!s.line_ended)
		m->look_ns = LOOK_MIN_NS;
	else if (m->asked == NOTHING && time_now_ns() >= m->rest_until_ns &&
		 time_now_ns() - m->looked_ns >= m->look_ns) {
		m->looked_ns = time_now_ns();
		m->look_ns += m->look_ns / 8; /* what it waits for comes soon, or not at all */
		proposer_read(m->proposer);
		m->asked = TO_LOOK;
	}
}

static void go_on_following(struct member *m)
{
	m->role = MEMBER_FOLLOWS;
	m->rest_until_ns = time_now_ns() + REST_NS;
}

/*
 * Etcd says that this is the configuration. The order is that of the rule: no beat is answered any
 * more, then the primary's rights go, then it is looked what this server has.
 */
static void take_over(struct member *m)
{
	struct group_config c = m->known.config;
	char why[GROUP_WHY_MAX];
	struct error err;

	if (m->primary && !beat_revoke(m->beat, c.term) && !MUTANT(take_over_early)) {
		go_on_following(m); /* a beat has come */
		return;
	}
	if (m->primary && !leave(m))
		return;
	log_debug("group", "the primary has no rights here any more");
	snprintf(why, sizeof(why), "%.60s has taken over: the primary was silent",
		 m->config.self.node);
	if (group_take_over(&c, m->config.self.life, why, &err)) {
		fail(m, &err);
		return;
	}
	proposer_propose(m->proposer, &m->known, &c);
	m->asked = TO_TAKE_OVER;
}

/* Answers of etcd, and what it tells. */

static void know(struct member *m, const struct group_known *now)
{
	if (!m->knows)
		m->begun = now->modified;
	m->known = *now;
	m->knows = true;
}

/* It tells what etcd would tell by itself, a little later. */
static void look_answered(struct member *m, const struct proposer_answer *a)
{
	if (a->rc)
		m->rest_until_ns = time_now_ns() + REST_NS;
	else
		member_told(m, &a->now);
}

static void read_answered(struct member *m, const struct proposer_answer *a)
{
	if (a->rc) {
		log_warn("group",
			 "the primary is silent, and etcd cannot be asked: %s (nobody takes over "
			 "before it answers)",
			 a->err.text);
		go_on_following(m);
	} else if (a->now.modified == m->known.modified) {
		if (m->role == MEMBER_TAKES_OVER) /* else it has learned of another primary since */
			take_over(m);
	} else {
		m->role = MEMBER_FOLLOWS;
		member_told(m, &a->now);
	}
}

static void proposal_answered(struct member *m, const struct proposer_answer *a, int asked)
{
	const struct error changed_meanwhile = { -EAGAIN,
						 "the configuration has changed meanwhile" };

	if ((a->rc == 0 && asked != TO_CHANGE) ||
	    (a->rc == -EAGAIN && a->now.modified && a->now.config.primary == m->config.self.life)) {
		lead(m, &a->now);
		return;
	}
	m->role = asked == TO_TAKE_OVER ? MEMBER_FOLLOWS : MEMBER_BEGINS;
	m->rest_until_ns = time_now_ns() + REST_NS;
	if (a->rc)
		member_wish_failed(m, a->rc == -EAGAIN ? &changed_meanwhile : &a->err);
	if (a->rc == 0 || a->rc == -EAGAIN)
		member_told(m, &a->now);
	else
		log_warn("group", "the group's configuration cannot be changed: %s", a->err.text);
}

static void take_answer(struct member *m)
{
	struct proposer_answer a;
	const int asked = m->asked;

	if (asked == NOTHING || !proposer_take(m->proposer, &a))
		return;
	m->asked = NOTHING;
	if (m->role == MEMBER_ENDS) /* it was told otherwise before the answer came */
		return;
	if (asked == TO_LOOK)
		look_answered(m, &a);
	else if (asked == TO_READ)
		read_answered(m, &a);
	else
		proposal_answered(m, &a, asked);
}

bool member_told(struct member *m, const struct group_known *now)
{
	if (m->asked == TO_FOUND || m->asked == TO_CHANGE || m->asked == TO_TAKE_OVER)
		return false; /* if it is what this server has proposed, the answer says so */
	if (m->asked != NOTHING && now->config.primary == m->config.self.life)
		return false; /* the proposer is to be free for one who leads */
	if (m->role == MEMBER_ENDS || (m->knows && now->modified <= m->known.modified))
		return true;
	if (m->lead) {
		lead_told(m->lead, now);
		return true;
	}
	know(m, now);
	if (m->role == MEMBER_BEGINS || m->role == MEMBER_WAITS)
		decide(m);
	else
		follow_known(m);
	return true;
}

/* A line of the log now and then. */
static void tell_wait(struct member *m, const char *what)
{
	const uint64_t now_ns = time_now_ns();

	if (m->told_ns && now_ns - m->told_ns < TELL_NS)
		return;
	m->told_ns = now_ns;
	log_warn("group", "%s", what);
}

/* They are in sync, and etcd answers: one of them may take over. */
static bool others_can_go_on(struct member *m)
{
	bool silent;

	pthread_mutex_lock(&m->lock);
	silent = m->silent[0];
	pthread_mutex_unlock(&m->lock);
	return !silent && group_in_sync(&m->known.config) > 1;
}

/* What it followed with, it does not need any more. */
static void tidy(struct member *m)
{
	if (!m->tidy_ns || time_now_ns() < m->tidy_ns)
		return;
	m->tidy_ns = 0;
	follow_rest(m->follow);
}

void member_turn(struct member *m)
{
	take_answer(m);
	switch (m->role) {
	case MEMBER_BEGINS:
		if (m->knows && m->asked == NOTHING && time_now_ns() >= m->rest_until_ns)
			decide(m);
		else if (!m->knows)
			tell_wait(m, "this server asks etcd what its group is");
		break;
	case MEMBER_WAITS:
		tell_wait(m, m->waits_for);
		if (m->alone_ns && m->asked == NOTHING && time_now_ns() >= m->alone_ns &&
		    time_now_ns() >= m->rest_until_ns)
			decide(m); /* nobody has taken over */
		break;
	case MEMBER_FOLLOWS:
		if (m->primary)
			follow_turn(m);
		else if (m->asked == NOTHING && time_now_ns() >= m->rest_until_ns) {
			proposer_read(m->proposer);
			m->asked = TO_READ;
			m->role = MEMBER_TAKES_OVER;
		}
		break;
	case MEMBER_OPENS:
	case MEMBER_LEADS:
	case MEMBER_GIVES_WAY:
		lead_turn(m->lead);
		if (m->role == MEMBER_LEADS) {
			m->config.turn(m->config.ctx, others_can_go_on(m));
			tidy(m);
		}
		break;
	default:
		break;
	}
}
