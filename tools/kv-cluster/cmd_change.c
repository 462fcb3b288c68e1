/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* switch, remove and force: they ask a server to change the group, and wait until it has. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/time.h"
#include "tools/kv-cluster/cluster.h"

#define CHANGE_MS     15000u
#define LOOK_AGAIN_NS (5 * NS_PER_MS)

static int no(const struct cluster *c, const char *what, const char *why)
{
	return program_told(c->program, CLUSTER_NO, what, why);
}

static int done(const struct cluster *c, const struct wire_group_done *d, uint64_t took_ns)
{
	const double ms = (double)took_ns / NS_PER_MS;
	json_t *doc;

	if (!c->json) {
		printf("term %" PRIu64 ": %s (%.0f ms)\n", d->term, d->why, ms);
		return CLUSTER_GOOD;
	}
	doc = program_json(c->program);
	if (!doc)
		return program_failed(c->program, "the answer", "out of memory");
	json_object_set_new(doc, "term", json_integer((json_int_t)d->term));
	json_object_set_new(doc, "why", json_string(d->why));
	json_object_set_new(doc, "took_ms", json_real(ms));
	program_print(doc, JSON_INDENT(2));
	return CLUSTER_GOOD;
}

static int change(const struct cluster *c, const struct view *at, enum wire_group_what what,
		  struct wire_group_done *out)
{
	static const char *const words[] = { [WIRE_GROUP_ASK_SWITCH] = "switch",
					     [WIRE_GROUP_ASK_REMOVE] = "remove",
					     [WIRE_GROUP_ASK_FORCE] = "force" };
	struct error err;
	int rc = ask_change(at->server, what, at->status.group, c->node,
			    c->timeout_ms ? c->timeout_ms : CHANGE_MS, out, &err);

	if (rc == -ETIMEDOUT)
		return program_failed(
			c->program, words[what],
			"it is not done yet, and may be done later (kv-cluster status "
			"shows it; does etcd answer?)");
	if (rc == -ECONNRESET || rc == -ECONNREFUSED)
		return program_failed(c->program, words[what], err.text);
	return rc ? no(c, words[what], err.text) : CLUSTER_GOOD;
}

/* The primary that answers; NULL, and *@status: there is none, which was said. */
static const struct view *primary(const struct cluster *c, struct overview *o, int *status)
{
	*status = cluster_look(c, o);
	if (*status == 0 && !o->primary)
		*status = no(c, "no primary answers clients",
			     "ask again in a moment, as a backup may be about to take over "
			     "(kv-cluster watch shows it)");
	return *status ? NULL : o->primary;
}

/* The servers that were named, and those that they have named. */
static void name_all(const struct overview *o, char out[SERVERS_MAX * ADDRESS_MAX])
{
	char *at = out;

	for (unsigned i = 0; i < o->count; i++)
		at += sprintf(at, "%s%s", i ? "," : "", o->view[i].server);
}

/* The configuration stands; the next primary answers clients a moment later. The one before it may
 * answer nobody meanwhile, as it starts again. */
static int await_primary(const struct cluster *c, const char *servers, uint64_t term)
{
	const uint64_t end_ns = time_now_ns() + CHANGE_MS * NS_PER_MS;
	struct overview o;

	while (time_now_ns() < end_ns) {
		int status = cluster_take(c, servers, &o);

		if (status)
			return status;
		if (o.primary && o.primary->status.term >= term)
			return CLUSTER_GOOD;
		time_sleep(LOOK_AGAIN_NS);
	}
	return no(c, "switch",
		  "the next primary does not answer clients yet (kv-cluster status says what it "
		  "waits for)");
}

int cmd_switch(const struct cluster *c)
{
	char servers[SERVERS_MAX * ADDRESS_MAX];
	struct wire_group_done d = { 0 };
	struct overview o;
	int status;
	const struct view *p = primary(c, &o, &status);
	const uint64_t begun_ns = time_now_ns();

	if (!p)
		return status;
	name_all(&o, servers);
	status = change(c, p, WIRE_GROUP_ASK_SWITCH, &d);
	if (status == CLUSTER_GOOD)
		status = await_primary(c, servers, d.term);
	return status ? status : done(c, &d, time_now_ns() - begun_ns);
}

static unsigned in_sync_without(const struct view *v, const char *node)
{
	unsigned count = 0;

	for (uint32_t i = 0; i < v->status.members; i++)
		count += v->member[i].in_sync && strcmp(v->member[i].node, node) != 0;
	return count;
}

int cmd_remove(const struct cluster *c)
{
	const uint64_t begun_ns = time_now_ns();
	struct wire_group_done d;
	struct overview o;
	char why[256];
	int status;
	const struct view *p = primary(c, &o, &status);

	if (!p)
		return status;
	if (in_sync_without(p, c->node) < 2 && strcmp(p->status.node, c->node) != 0 && !c->yes) {
		snprintf(
			why, sizeof(why),
			"%.64s would be the only server that has all records, and they are gone if "
			"it dies (say --yes if that is what you want)",
			p->status.node);
		return no(c, "remove", why);
	}
	status = change(c, p, WIRE_GROUP_ASK_REMOVE, &d);
	return status ? status : done(c, &d, time_now_ns() - begun_ns);
}

static bool is_in_sync(const struct overview *o, const struct view *v)
{
	for (uint32_t i = 0; o->newest && i < o->newest->status.members; i++)
		if (o->newest->member[i].life == v->status.life)
			return o->newest->member[i].in_sync;
	return false;
}

/* Whoever has what was acknowledged: nothing is forced beside it. NULL: nobody. */
static const char *obstacle(const struct overview *o, char why[256])
{
	if (o->primary) {
		snprintf(why, 256, "%.64s is primary, and answers clients: nothing is to be forced",
			 o->primary->status.node);
		return why;
	}
	for (unsigned i = 0; i < o->count; i++) {
		const struct view *v = &o->view[i];

		if (v->err.code || !is_in_sync(o, v))
			continue;
		snprintf(
			why, 256,
			"%.64s has what was acknowledged, and takes over by itself when etcd answers "
			"(or stop it, if its records are to be given up)",
			v->status.node);
		return why;
	}
	return NULL;
}

/* Without the two words that confirm it: what it would do, and how it is said. */
static int explain(const struct cluster *c, const char *group)
{
	char why[768];

	snprintf(
		why, sizeof(why),
		"%.64s would go on as all there is of group %.64s, with what it has; what the other "
		"members had and it has not is lost, and without data directories that is every "
		"record. A member that is merely cut off would go on answering clients: stop them "
		"all (then say: kv-cluster force %.64s --confirm %.64s --stopped)",
		c->node, group, c->node, group);
	return no(c, "force", why);
}

int cmd_force(const struct cluster *c)
{
	const uint64_t begun_ns = time_now_ns();
	struct wire_group_done d;
	struct overview o;
	const struct view *v;
	char why[256];
	int status = cluster_look(c, &o);

	if (status)
		return status;
	v = overview_find(&o, c->node);
	if (!v) {
		snprintf(why, sizeof(why),
			 "no server that is called %.64s answers (start it, and name it with "
			 "--server; kv-cluster status shows who answers)",
			 c->node);
		return no(c, "force", why);
	}
	if (obstacle(&o, why))
		return no(c, "force", why);
	if (!o.newest &&
	    v->status.role != WIRE_GROUP_WAITS) /* else etcd has lost it, and it waits */
		return no(
			c, "force",
			"no server has a configuration of the group (etcd does not answer them, or "
			"the group was never founded)");
	if (!c->stopped || !c->confirm || strcmp(c->confirm, v->status.group) != 0)
		return explain(c, v->status.group);
	status = change(c, v, WIRE_GROUP_ASK_FORCE, &d);
	return status ? status : done(c, &d, time_now_ns() - begun_ns);
}
