/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A PLANNED SWITCH: a primary gives way to a member that is in sync.
 *
 * THE ORDER. etcd is asked first, so that nobody is kept waiting by one that does not answer. Then
 * all sessions end, and none begins: what clients had sent is answered, their queue pairs are
 * destroyed. Only when none is left, the transaction is proposed that makes the other one primary.
 * So nobody READs here what that one replaces, whatever clocks and leases say, and nobody is told
 * by this server that a write was done which the other one does not have: all that are in sync hold
 * what was acknowledged. The promises of the others need not be over, since the one that they
 * were given to gives way itself; it goes on sending beats, so that nobody else takes over.
 *
 * UNTIL THE OUTCOME IS KNOWN nobody is answered: a transaction whose reply is lost may stand, or
 * may come to stand. Its outcome is known when the proposer says it; if it is certain that it does
 * not stand, this server goes on as primary, and clients come back to it.
 *
 * Whatever else becomes of the group meanwhile goes its way: a member that dies is taken out first;
 * if it is the one to be primary, the switch is off.
 */
#include <errno.h>
#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/member/lead_internal.h"

#define REST_MAX_NS (5 * NS_PER_S) /* for sessions to end */

static void step(struct lead *l, enum yield_step s)
{
	l->yield.step = s;
	l->yield.since_ns = time_now_ns();
}

static void stay(struct lead *l, const char *why)
{
	const bool rests = l->yield.step >= YIELD_RESTS;
	struct error err;

	step(l, YIELD_NOTHING);
	if (rests)
		l->config.rest(l->config.ctx, false);
	error_set(&err, -EAGAIN, "the switch is off: %s", why);
	l->config.stays(l->config.ctx, &err);
}

static struct line *most(struct lead *l)
{
	uint64_t held = 0;
	struct line *best = NULL;

	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++) {
		struct mirror_state s;

		if (l->line[i].stage != LEAD_IN_SYNC)
			continue;
		mirror_look(l->config.mirror, i, &s);
		if (!best || s.applied > held) {
			best = &l->line[i];
			held = s.applied;
		}
	}
	return best;
}

static struct line *named(struct lead *l, const char *node, struct error *err)
{
	const struct group_member *m = group_find_node(&l->known.config, node);
	struct line *n = m ? lead_line(l, m->life) : NULL;

	if (!m)
		error_set(err, -ENOENT,
			  "node %s is no member of the group (kv-cluster status lists them)", node);
	else if (m->life == l->config.self)
		error_set(err, -EALREADY, "node %s is the primary already", node);
	else if (!n || n->stage != LEAD_IN_SYNC)
		error_set(err, -EBUSY,
			  "node %s is not in sync, and only such a one may be primary (wait until "
			  "it is: kv-cluster watch)",
			  node);
	else
		return n;
	return NULL;
}

int lead_switch(struct lead *l, const char *node, uint64_t *life, struct error *err)
{
	struct line *n;

	if (l->yield.step != YIELD_NOTHING)
		return error_set(err, -EBUSY, "a switch is under way");
	if (!l->opened)
		return error_set(
			err, -EBUSY,
			"this server has only just become primary (ask again in a moment)");
	error_set(
		err, -EBUSY,
		"no other server is in sync, so none can be primary (start one, and wait until it "
		"is)");
	n = node[0] ? named(l, node, err) : most(l);
	if (!n)
		return err->code;
	l->yield.to = *life = n->who.life;
	log_info("group", "this server gives way to %s", n->who.node);
	step(l, YIELD_WAITS);
	return 0;
}

static void propose(struct lead *l)
{
	struct group_config next = l->known.config;
	struct error err;

	if (group_switch(&next, l->config.self, l->yield.to, &err)) {
		stay(l, err.text);
		return;
	}
	step(l, YIELD_PROPOSES);
	lead_propose(l, &next, 0);
}

void lead_yield_turn(struct lead *l)
{
	const struct yield *y = &l->yield;
	const struct line *n = lead_line(l, y->to);

	if (y->step == YIELD_NOTHING || l->deposed || l->proposes)
		return;
	if (!n || n->stage != LEAD_IN_SYNC) {
		stay(l, "the server that was to be primary is not in sync any more");
	} else if (y->step == YIELD_WAITS) {
		step(l, YIELD_ASKS);
		proposer_read(l->config.proposer);
		l->proposes = true;
		l->replaces = 0; /* nothing is proposed in place of it */
	} else if (y->step == YIELD_RESTS) {
		if (l->config.rested(l->config.ctx) || MUTANT(yield_at_once))
			propose(l);
		else if (time_now_ns() > y->since_ns + REST_MAX_NS)
			stay(l, "the sessions of clients do not end");
	}
}

void lead_yield_answer(struct lead *l, int rc, const struct error *err)
{
	if (l->yield.step == YIELD_ASKS && rc) {
		stay(l, err->text);
	} else if (l->yield.step == YIELD_ASKS) {
		step(l, YIELD_RESTS);
		l->config.rest(l->config.ctx, true);
	} else if (l->yield.step == YIELD_PROPOSES) {
		stay(l, rc == -EAGAIN ? "the configuration has changed meanwhile" : err->text);
	}
}
