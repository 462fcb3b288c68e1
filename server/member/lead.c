/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A primary and its members. tests/model has the protocol (failover.pml, learner.pml); this is the
 * order in which one thread does its steps.
 *
 *	HELLO --> WAITS --t+1 has it--> COMES --> LEARNS --caught up--> CATCHES_UP --t+1--> IN_SYNC
 *	          AWAITED --HELLO-------^  `--- it was in sync, and has all of our log ------^
 *
 * IN: a member that learns counts (its completions for commits, its promise for the lease) before
 * the transaction is sent that puts it in sync, and has all that was sent before it counted. From
 * then on that may take effect at any time: nothing takes the counting back but a configuration
 * without it.
 *
 * OUT: a member is cut first: its queue pair is destroyed, so nothing that was on its way lands
 * later. Then a transaction takes it out. Until that is known to stand it counts, and as nothing
 * completes there any more, nothing is committed.
 *
 * ONE PROPOSAL AT A TIME, whose outcome may be unknown for as long as etcd likes. If the member
 * that is to be in sync is cut meanwhile, the proposal to take it out goes in place of that: one
 * of both stands (proposer.c). Configurations come from proposals and from who follows the key, in
 * any order: a later one counts, one that is known already says nothing.
 *
 * WHO TAKES OVER awaits those who are in sync: they count from the beginning. They come, are
 * brought what they may lack, and when the last of them has it, or is out of the configuration, the
 * server opens its log: a log takes for committed what it begins with. Nobody learns before that.
 */
#include "server/member/lead.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/layout/root.h"
#include "server/member/lead_internal.h"

#define REST_NS (200 * NS_PER_MS) /* between two proposals where etcd fails */

struct line *lead_line(struct lead *l, uint64_t life)
{
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++)
		if (l->line[i].stage != LEAD_FREE && l->line[i].who.life == life)
			return &l->line[i];
	return NULL;
}

static struct line *find_free(struct lead *l)
{
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++)
		if (l->line[i].stage == LEAD_FREE)
			return &l->line[i];
	return NULL;
}

int lead_start(struct lead **out, const struct lead_config *config, struct error *err)
{
	const struct group_config *c = &config->known.config;
	struct lead *l = calloc(1, sizeof(*l));

	if (!l)
		return error_set(err, -ENOMEM, "there is no memory for the group's members");
	l->config = *config;
	l->known = config->known;
	l->term = c->term;
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++)
		l->line[i] = (struct line){ .lead = l, .peer = i, .admitted.fd = -1 };
	for (uint32_t i = 0; i < c->count; i++)
		if (c->member[i].in_sync && c->member[i].life != config->self)
			line_await(find_free(l), &c->member[i]);
	beat_lead(config->beat);
	*out = l;
	return 0;
}

void lead_stop(struct lead *l)
{
	if (!l)
		return;
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++)
		if (l->line[i].stage != LEAD_FREE && l->line[i].stage != LEAD_CUT)
			line_let_go(&l->line[i], "this server is no primary any more");
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++) {
		while (l->line[i].runs) {
			line_turn(&l->line[i]);
			time_sleep(NS_PER_MS);
		}
		line_turn(&l->line[i]);
	}
	free(l);
}

/* Members that come. */

static int check_hello(const struct lead *l, const struct wire_peer_hello *h, struct error *err)
{
	const struct lead_config *c = &l->config;

	if (h->layout_version != LAYOUT_VERSION || h->layout_hash != layout_hash())
		return error_set(err, -EPROTONOSUPPORT,
				 "server %s has layout %u with hash %016" PRIx64
				 ", the group's primary %u with %016" PRIx64
				 " (install the same GraceKV release on all servers of a group)",
				 h->node, h->layout_version, h->layout_hash, LAYOUT_VERSION,
				 layout_hash());
	if (memcmp(h->cluster, c->cluster, sizeof(h->cluster)) != 0)
		return error_set(err, -EXDEV,
				 "server %s belongs to another cluster than the server that it "
				 "dialled (do two clusters share an address?)",
				 h->node);
	if (strcmp(h->group, c->group) != 0)
		return error_set(err, -EXDEV,
				 "server %s is of group %s, the server that it dialled of group %s "
				 "(give it the right --group)",
				 h->node, h->group, c->group);
	if (h->memory < c->memory)
		return error_set(err, -ENOSPC,
				 "server %s may use %" PRIu64
				 " MiB of memory, the group's primary %" PRIu64
				 " (start it with --memory %" PRIu64 "M at least)",
				 h->node, h->memory >> 20, c->memory >> 20, c->memory >> 20);
	return 0;
}

/* Where it goes. NULL with @err: nowhere. */
static struct line *place_for(struct lead *l, const struct wire_peer_hello *h, struct error *err)
{
	struct line *n = lead_line(l, h->life);

	if (n && n->stage == LEAD_AWAITED)
		return n;
	if (n || group_find(&l->known.config, h->life)) {
		error_set(err, -ESTALE,
			  "server %s was a member in this life before (it must start again, and "
			  "learn)",
			  h->node);
		return NULL;
	}
	n = find_free(l);
	if (!n)
		error_set(err, -ENOSPC,
			  "the group has %u members, which is the most there may be (stop one: "
			  "it is taken out)",
			  GROUP_MEMBERS_MAX);
	return n;
}

/* An earlier life of its node is over. */
static void end_earlier_life(struct lead *l, const struct wire_peer_hello *h)
{
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++) {
		struct line *n = &l->line[i];

		if (n->stage != LEAD_FREE && n->stage != LEAD_CUT && n->who.life != h->life &&
		    strcmp(n->who.node, h->node) == 0)
			line_cut(n, "it was started again");
	}
}

static void refuse(int fd, const struct wire_peer_hello *h, const struct error *err)
{
	log_warn("group", "refused %s at %s: %s", h->node, h->address, err->text);
	exchange_refuse(fd, 0, err->code, err->text);
	close(fd);
}

void lead_hello(struct lead *l, int fd, const struct wire_peer_hello *hello)
{
	struct line *n = NULL;
	struct error err;

	if (check_hello(l, hello, &err) == 0)
		n = place_for(l, hello, &err);
	if (!n || l->deposed) {
		if (l->deposed)
			error_set(&err, -EAGAIN, "this server is no primary any more (dial again)");
		refuse(fd, hello, &err);
		return;
	}
	end_earlier_life(l, hello);
	line_take(n, fd, hello);
	if (n->was_in_sync)
		line_begin(n);
}

/* Configurations. */

static void depose(struct lead *l)
{
	l->deposed = true;
	beat_rest(l->config.beat);
	l->config.deposed(l->config.ctx, &l->known);
}

/* What the new configuration makes of a place. */
static void settle(struct line *n)
{
	const struct group_member *m = group_find(&n->lead->known.config, n->who.life);

	if (n->stage == LEAD_WAITS && m)
		line_begin(n);
	else if (n->stage == LEAD_CATCHES_UP && m && m->in_sync)
		line_stage(n, LEAD_IN_SYNC);
	else if (n->stage == LEAD_CUT && !m && line_is_cut(n))
		line_free(n);
}

static void adopt(struct lead *l, const struct group_known *now)
{
	if (l->deposed || now->modified <= l->known.modified)
		return;
	l->known = *now;
	log_info("group", "term %" PRIu64 ": %s", now->config.term, now->config.why);
	if (now->config.primary != l->config.self || now->config.writer != l->config.self) {
		depose(l); /* another one may have been primary meanwhile, and given back */
		return;
	}
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++)
		settle(&l->line[i]);
	l->config.changed(l->config.ctx, &l->known);
}

void lead_told(struct lead *l, const struct group_known *now)
{
	adopt(l, now);
}

struct group_config lead_next(const struct lead *l)
{
	struct group_config next = l->known.config;

	if (l->opened)
		group_answers(&next);
	return next;
}

void lead_propose(struct lead *l, const struct group_config *next, uint64_t promotes)
{
	proposer_propose(l->config.proposer, &l->known, next);
	l->proposes = true;
	l->replaces = l->known.modified;
	l->promotes = promotes;
}

/*
 * A member of the configuration that has to go: one that is cut, or that nobody here knows of, as
 * those who learned from a primary before. NULL: there is none. *@why it has to.
 */
static const struct group_member *find_gone(struct lead *l, const char **why)
{
	const struct group_config *c = &l->known.config;

	for (uint32_t i = 0; i < c->count; i++) {
		const struct line *n = lead_line(l, c->member[i].life);

		*why = n ? n->why : "it is not there";
		if (c->member[i].life != l->config.self && (!n || line_is_cut(n)))
			return &c->member[i];
	}
	return NULL;
}

static void propose_without(struct lead *l, const struct group_member *m, const char *why)
{
	struct group_config next = lead_next(l);
	char words[GROUP_WHY_MAX];
	struct error err;

	snprintf(words, sizeof(words), "%.60s is out: %s", m->node, why);
	if (group_remove(&next, l->config.self, m->life, words, &err) == 0)
		lead_propose(l, &next, 0);
}

/* Whether all that was sent before it counted is there. */
static bool has_caught_up(const struct lead *l, const struct line *n)
{
	struct mirror_state s;

	if (n->stage != LEAD_CATCHES_UP)
		return false;
	mirror_look(l->config.mirror, n->peer, &s);
	return s.held >= n->sent;
}

static bool propose_in_sync(struct lead *l, const struct line *n)
{
	struct group_config next = lead_next(l);
	struct error err;

	if (!has_caught_up(l, n) || group_promote(&next, l->config.self, n->who.life, &err) != 0)
		return false;
	lead_propose(l, &next, n->who.life);
	return true;
}

static bool propose_with(struct lead *l, struct line *n)
{
	struct group_config next = lead_next(l);
	struct group_member m = { .life = n->who.life };
	struct error err;

	if (n->stage != LEAD_WAITS)
		return false;
	memcpy(m.node, n->who.node, sizeof(m.node));
	memcpy(m.address, n->who.address, sizeof(m.address));
	if (group_add(&next, l->config.self, &m, &err) == 0) {
		lead_propose(l, &next, 0);
		return true;
	}
	refuse(n->admitted.fd, &n->who, &err);
	n->admitted.fd = -1;
	line_free(n);
	return false;
}

/* The most urgent first: nothing is committed while one who is cut is in the configuration. */
static void propose_next(struct lead *l)
{
	const char *why;
	const struct group_member *gone = find_gone(l, &why);

	if (l->proposes && !(gone && gone->life == l->promotes && l->replaces == l->known.modified))
		return;
	if (time_now_ns() < l->rest_until_ns)
		return;
	if (gone) {
		propose_without(l, gone, why);
		return;
	}
	if (!l->opened || l->yield.step > YIELD_WAITS)
		return;
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++)
		if (propose_in_sync(l, &l->line[i]))
			return;
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++)
		if (propose_with(l, &l->line[i]))
			return;
}

static void take_answer(struct lead *l)
{
	struct proposer_answer a;

	if (!l->proposes || !proposer_take(l->config.proposer, &a))
		return;
	l->proposes = false;
	l->promotes = 0;
	if (a.rc == 0 || a.rc == -EAGAIN)
		adopt(l, &a.now);
	if (l->deposed)
		return;
	lead_yield_answer(l, a.rc, &a.err);
	if (a.rc == 0 || a.rc == -EAGAIN)
		return;
	log_warn("group", "the group's configuration cannot be changed: %s", a.err.text);
	l->rest_until_ns = time_now_ns() + REST_NS;
}

/* All that are in sync have our log. */
static void try_to_open(struct lead *l)
{
	const struct group_config *c = &l->known.config;

	for (uint32_t i = 0; i < c->count; i++) {
		const struct group_member *m = &c->member[i];
		const struct line *n = m->life == l->config.self ? NULL : lead_line(l, m->life);

		if (m->in_sync && m->life != l->config.self && (!n || n->stage != LEAD_IN_SYNC))
			return;
	}
	l->opened = true;
	l->config.opened(l->config.ctx);
}

unsigned lead_watch(const struct lead *l, struct pollfd out[LEAD_FDS_MAX])
{
	unsigned count = 0;

	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++)
		if (l->line[i].stage >= LEAD_LEARNS && l->line[i].stage <= LEAD_IN_SYNC)
			out[count++] =
				(struct pollfd){ .fd = l->line[i].admitted.fd, .events = POLLIN };
	return count;
}

void lead_turn(struct lead *l)
{
	if (l->deposed)
		return;
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++) {
		struct line *n = &l->line[i];

		line_turn(n);
		if (line_is_cut(n) && !group_find(&l->known.config, n->who.life))
			line_free(n);
	}
	take_answer(l);
	if (l->deposed)
		return;
	propose_next(l);
	lead_yield_turn(l);
	if (!l->opened)
		try_to_open(l);
}

void lead_look(const struct lead *l, unsigned peer, struct lead_state *out)
{
	const struct line *n = &l->line[peer];

	*out = (struct lead_state){ .stage = n->stage,
				    .life = n->who.life,
				    .granted_ns = beat_granted(l->config.beat, peer) };
	memcpy(out->node, n->who.node, sizeof(out->node));
	memcpy(out->why, n->why, sizeof(out->why));
	mirror_look(l->config.mirror, peer, &out->mirror);
}
