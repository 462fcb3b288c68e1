/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What a person wants of a group, through kv-cluster: that a member goes, or that the primary gives
 * way to one that is in sync. One thing at a time.
 *
 * ETCD IS ASKED FIRST whether it answers. What is cut, or rests, keeps everybody waiting until etcd
 * has another configuration; so an etcd that is silent must show before, and nothing happens.
 *
 * A PLANNED SWITCH goes on in this order. All sessions end, and none begins: what clients had sent
 * is answered, their queue pairs are destroyed. Only when none is left, the transaction is proposed
 * that makes the other one primary. So nobody READs here what that one replaces, whatever clocks
 * and leases say, and nobody is told by this server that a write was done which the other one does
 * not have: all that are in sync hold what was acknowledged. The promises of the others need not be
 * over, since the one that they were given to gives way itself; it goes on sending beats, so that
 * nobody else takes over.
 *
 * UNTIL THE OUTCOME IS KNOWN nobody is answered: a transaction whose reply is lost may stand, or
 * may come to stand. Its outcome is known when the proposer says it; if it is certain that it does
 * not stand, this server goes on as primary, and clients come back to it.
 *
 * Whatever else becomes of the group meanwhile goes its way: a member that dies is taken out first;
 * if it is the one to be primary, the switch is off.
 */
#include <errno.h>

#include "common/base/log.h"
#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/member/lead_internal.h"

#define REST_MAX_NS (5 * NS_PER_S) /* for sessions to end */
#define WAIT_MAX_NS (5 * NS_PER_S) /* for what etcd was asked before */

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
	error_set(&err, -EAGAIN, "%s: %s",
		  l->yield.removes ? "nobody was removed" : "the switch is off", why);
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

static int no_member(const char *node, struct error *err)
{
	return error_set(err, -ENOENT,
			 "node %s is no member of the group (kv-cluster status lists them)", node);
}

static struct line *named(struct lead *l, const char *node, struct error *err)
{
	const struct group_member *m = group_find_node(&l->known.config, node);
	struct line *n = m ? lead_line(l, m->life) : NULL;

	if (!m)
		no_member(node, err);
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

/* Whether a person may want something now. */
static int is_free(const struct lead *l, struct error *err)
{
	if (l->yield.step != YIELD_NOTHING)
		return error_set(err, -EBUSY,
				 "another change is under way (ask again when it is done)");
	if (!l->opened)
		return error_set(err, -EBUSY,
				 "this server has just become primary (ask again in a moment)");
	return 0;
}

/* So many are left in sync without the member @life. */
static int has_enough_without(const struct lead *l, uint64_t life, struct error *err)
{
	const struct group_config *c = &l->known.config;
	const struct group_member *m = group_find(c, life);
	const unsigned left = group_in_sync(c) - 1;

	if (!m || !m->in_sync || left >= c->min_in_sync)
		return 0;
	return error_set(err, -EBUSY,
			 "writes want %u servers in sync, and without node %s there are %u (add "
			 "another server first)",
			 c->min_in_sync, m->node, left);
}

static void begin(struct lead *l, bool removes, uint64_t life)
{
	l->yield.removes = removes;
	l->yield.to = life;
	step(l, YIELD_WAITS);
}

int lead_remove(struct lead *l, const char *node, uint64_t *life, struct error *err)
{
	const struct group_member *m = group_find_node(&l->known.config, node);
	const struct line *n = m ? lead_line(l, m->life) : NULL;

	if (is_free(l, err))
		return err->code;
	if (!m)
		return no_member(node, err);
	if (m->life == l->config.self)
		return error_set(err, -EINVAL,
				 "node %s is the primary (give way to another one first, with "
				 "kv-cluster switch)",
				 node);
	if (!n || n->runs || n->stage < LEAD_LEARNS || n->stage > LEAD_IN_SYNC)
		return error_set(err, -EBUSY, "node %s is just coming, or going (ask again)", node);
	if (has_enough_without(l, m->life, err))
		return err->code;
	*life = m->life;
	begin(l, true, m->life);
	return 0;
}

static void take_out(struct lead *l)
{
	struct line *n = lead_line(l, l->yield.to);

	step(l, YIELD_NOTHING);
	if (!n || n->stage == LEAD_CUT)
		return; /* it goes, or has gone, by itself */
	if (n->admitted.fd >= 0 && !n->runs)
		exchange_refuse(n->admitted.fd, 0, WIRE_PEER_DISMISSED,
				"a person has removed it (start it again to have it back)");
	line_cut(n, "a person has removed it");
}

int lead_switch(struct lead *l, const char *node, uint64_t *life, struct error *err)
{
	struct line *n;

	if (is_free(l, err))
		return err->code;
	error_set(err, -EBUSY, "no other server is in sync (start one, and wait until it is)");
	n = node[0] ? named(l, node, err) : most(l);
	if (!n)
		return err->code;
	if (has_enough_without(l, l->config.self, err))
		return err->code;
	*life = n->who.life;
	log_info("group", "this server gives way to %s", n->who.node);
	begin(l, false, n->who.life);
	return 0;
}

static void propose(struct lead *l)
{
	struct group_config next = lead_next(l);
	struct error err;

	if (group_switch(&next, l->config.self, l->yield.to, &err)) {
		stay(l, err.text);
		return;
	}
	step(l, YIELD_PROPOSES);
	lead_propose(l, &next, 0);
}

/* Its member is there yet, and it has not waited for too long. */
static bool goes_on(struct lead *l)
{
	const struct yield *y = &l->yield;
	const struct line *n = lead_line(l, y->to);
	const uint64_t since_ns = time_now_ns() - y->since_ns;

	if (y->step == YIELD_WAITS && since_ns > WAIT_MAX_NS)
		stay(l, "etcd has not answered what it was asked before (look whether it runs)");
	else if (!y->removes && !l->proposes && (!n || n->stage != LEAD_IN_SYNC))
		stay(l, "the server that was to be primary is not in sync any more (kv-cluster "
			"status says why)");
	else if (y->step == YIELD_RESTS && since_ns > REST_MAX_NS)
		stay(l, "the sessions of clients do not end (look at this server's log, and try "
			"again)");
	return y->step != YIELD_NOTHING;
}

void lead_yield_turn(struct lead *l)
{
	if (l->yield.step == YIELD_NOTHING || l->deposed || !goes_on(l) || l->proposes)
		return;
	if (l->yield.step == YIELD_WAITS) {
		step(l, YIELD_ASKS);
		proposer_read(l->config.proposer);
		l->proposes = true;
		l->replaces = 0; /* nothing is proposed in place of it */
	} else if (l->yield.step == YIELD_RESTS &&
		   (l->config.rested(l->config.ctx) || MUTANT(yield_at_once))) {
		propose(l);
	}
}

void lead_yield_answer(struct lead *l, int rc, const struct error *err)
{
	if (l->yield.step == YIELD_ASKS && rc) {
		stay(l, err->text);
	} else if (l->yield.step == YIELD_ASKS && l->yield.removes) {
		take_out(l);
	} else if (l->yield.step == YIELD_ASKS) {
		step(l, YIELD_RESTS);
		l->config.rest(l->config.ctx, true);
	} else if (l->yield.step == YIELD_PROPOSES) {
		stay(l, rc == -EAGAIN ? "the configuration has changed meanwhile" : err->text);
	}
}
