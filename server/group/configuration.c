/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/group/configuration.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mutant.h"
#include "server/group/configuration_internal.h"

const struct group_member *group_find(const struct group_config *c, uint64_t life)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (c->member[i].life == life)
			return &c->member[i];
	return NULL;
}

const struct group_member *group_find_node(const struct group_config *c, const char *node)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (strcmp(c->member[i].node, node) == 0)
			return &c->member[i];
	return NULL;
}

unsigned group_in_sync(const struct group_config *c)
{
	unsigned count = 0;

	for (uint32_t i = 0; i < c->count; i++)
		count += c->member[i].in_sync;
	return count;
}

/* Node and address are written into logs and shown to people. */
static bool is_text(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

static const char *member_fault(const struct group_member *m)
{
	if (!m->life)
		return "a life is missing";
	if (!is_text(m->node))
		return "a node has no name";
	return is_text(m->address) && strchr(m->address, ':') ? NULL : "an address is none";
}

const char *group_config_fault(const struct group_config *c)
{
	const struct group_member *primary = group_find(c, c->primary);

	if (!c->term || c->term == UINT64_MAX)
		return "its term is no term";
	if (!primary || !primary->in_sync)
		return "its primary is not in sync";
	if (c->lease_ms < GROUP_LEASE_MIN || c->lease_ms > GROUP_LEASE_MAX)
		return "its lease is out of range";
	if (c->rho_ppm > GROUP_RHO_MAX)
		return "its drift is out of range";
	if (!c->min_in_sync || c->min_in_sync > GROUP_MEMBERS_MAX)
		return "the least number in sync is out of range";
	if (!c->writer)
		return "nobody has written it";
	for (uint32_t i = 0; i < c->count; i++) {
		const struct group_member *m = &c->member[i];

		if (group_find(c, m->life) != m || group_find_node(c, m->node) != m)
			return "a life, or a node, is there twice";
		if (member_fault(m))
			return member_fault(m);
	}
	for (uint32_t i = 0; i < c->before_count; i++)
		if (member_fault(&c->before[i]))
			return member_fault(&c->before[i]);
	return NULL;
}

/* The next term. @why: for people. */
static void next_term(struct group_config *c, uint64_t writer, const char *why)
{
	c->term += !MUTANT(same_term);
	c->writer = writer;
	snprintf(c->why, sizeof(c->why), "%s", why);
}

static void drop(struct group_config *c, uint64_t life)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < c->count; i++)
		if (c->member[i].life != life)
			c->member[kept++] = c->member[i];
	c->count = kept;
}

static struct group_member *member(struct group_config *c, uint64_t life)
{
	return (struct group_member *)group_find(c, life);
}

/* "node: what has become of it" */
static const char *say(char words[GROUP_WHY_MAX], const struct group_member *m, const char *what)
{
	snprintf(words, GROUP_WHY_MAX, "%s %s", m->node, what);
	return words;
}

/* The primary goes, and whoever comes may have to give back to it. */
static void depose(struct group_config *c)
{
	const uint32_t kept =
		c->before_count < GROUP_MEMBERS_MAX ? c->before_count : GROUP_MEMBERS_MAX - 1;

	memmove(c->before + 1, c->before, kept * sizeof(*c->before));
	c->before[0] = *group_find(c, c->primary);
	c->before_count = kept + 1;
	drop(c, c->primary);
}

void group_answers(struct group_config *c)
{
	c->before_count = 0;
}

static void alone(struct group_config *c, const struct group_member *m)
{
	group_answers(c);
	c->primary = m->life;
	c->count = 1;
	c->member[0] = *m;
	c->member[0].in_sync = true;
}

void group_found(struct group_config *c, const struct group_member *first)
{
	c->term = 1;
	alone(c, first);
	c->writer = first->life;
	snprintf(c->why, sizeof(c->why), "%s has founded the group", first->node);
}

int group_add(struct group_config *c, uint64_t writer, const struct group_member *m,
	      struct error *err)
{
	const struct group_member *before = group_find_node(c, m->node);
	char why[GROUP_WHY_MAX];

	if (before && before->life == c->primary)
		return error_set(err, -EBUSY,
				 "node %s is the group's primary already, in another life (give "
				 "each server a --node of its own; if it is the same server, wait "
				 "until the others have taken over)",
				 m->node);
	if (!before && c->count == GROUP_MEMBERS_MAX)
		return error_set(err, -ENOSPC,
				 "the group has %u members, which is the most there may be (remove "
				 "one with kv-cluster remove)",
				 GROUP_MEMBERS_MAX);
	if (before)
		drop(c, before->life);
	c->member[c->count] = *m;
	c->member[c->count++].in_sync = MUTANT(join_in_sync);
	next_term(c, writer, say(why, m, before ? "was started again, and learns" : "learns"));
	return 0;
}

int group_promote(struct group_config *c, uint64_t writer, uint64_t life, struct error *err)
{
	struct group_member *m = member(c, life);
	char why[GROUP_WHY_MAX];

	if (!m || m->in_sync)
		return error_set(err, -EINVAL, "that member does not learn");
	m->in_sync = true;
	next_term(c, writer, say(why, m, "is in sync"));
	return 0;
}

int group_remove(struct group_config *c, uint64_t writer, uint64_t life, const char *why,
		 struct error *err)
{
	if (life == c->primary)
		return error_set(err, -EINVAL,
				 "the primary is not removed (switch to another server first, with "
				 "kv-cluster switch)");
	if (!group_find(c, life))
		return error_set(err, -EINVAL, "there is no such member");
	drop(c, life);
	next_term(c, writer, why);
	return 0;
}

int group_take_over(struct group_config *c, uint64_t writer, const char *why, struct error *err)
{
	const struct group_member *m = group_find(c, writer);

	if (!m || (!m->in_sync && !MUTANT(take_over_unsynced)) || writer == c->primary)
		return error_set(err, -EPERM,
				 "only a backup that is in sync takes over, and this server is "
				 "none");
	depose(c);
	c->primary = writer;
	next_term(c, writer, why);
	return 0;
}

int group_switch(struct group_config *c, uint64_t writer, uint64_t to, struct error *err)
{
	const struct group_member *m = group_find(c, to);
	char why[GROUP_WHY_MAX];

	if (writer != c->primary || !m || !m->in_sync || to == c->primary)
		return error_set(err, -EPERM,
				 "a switch goes from the primary to a backup that is in sync");
	say(why, m, "is primary, by a switch");
	depose(c); /* moves members: @m is another one now */
	c->primary = to;
	next_term(c, writer, why);
	return 0;
}

int group_return(struct group_config *c, uint64_t before, const struct group_member *now,
		 struct error *err)
{
	const struct group_member *m = group_find(c, before);
	char why[GROUP_WHY_MAX];

	if (!m || before != c->primary || strcmp(m->node, now->node) != 0)
		return error_set(err, -EPERM, "only the last primary comes back with its log");
	alone(c, now);
	next_term(c, now->life, say(why, now, "is back, with its log"));
	return 0;
}

int group_give_back(struct group_config *c, const struct group_member *now, struct error *err)
{
	const struct group_member *m = group_find(c, c->primary), *another;
	const struct group_member last = c->before[0];
	char why[GROUP_WHY_MAX];

	if (!m || !c->before_count || strcmp(m->node, now->node) != 0)
		return error_set(err, -EPERM,
				 "only the primary's server gives back, to the one before it");
	drop(c, c->primary);
	another = group_find_node(c, last.node);
	if (another)
		drop(c, another->life);
	c->primary = last.life;
	c->member[c->count] = last;
	c->member[c->count++].in_sync = true;
	memmove(c->before, c->before + 1, --c->before_count * sizeof(*c->before));
	next_term(c, now->life, say(why, &last, "is primary again: the next one never answered"));
	return 0;
}

int group_again(struct group_config *c, const struct group_member *now, struct error *err)
{
	const struct group_member *m = group_find(c, c->primary);
	char why[GROUP_WHY_MAX];

	if (!m || strcmp(m->node, now->node) != 0)
		return error_set(err, -EPERM, "only the last primary begins again with its log");
	next_term(c, now->life, say(why, now, "was started again, and comes back with its log"));
	return 0;
}

void group_force(struct group_config *c, const struct group_member *now)
{
	char why[GROUP_WHY_MAX];

	alone(c, now);
	next_term(c, now->life, say(why, now, "is all there is: a person wants it"));
}
