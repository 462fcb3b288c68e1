/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* status and watch: they ask, and change nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/time.h"
#include "tools/kv-cluster/cluster.h"
#include "tools/lib/stop.h"

#define LOOK_MS 1000u /* for one server */
#define NAP_MS	50u /* between two looks at whether it is to stop */

int cluster_take(const struct cluster *c, const char *servers, struct overview *out)
{
	const uint64_t timeout_ms = c->timeout_ms ? c->timeout_ms : LOOK_MS;
	struct error err;

	return overview_take(out, servers, c->group, timeout_ms, &err)
		       ? program_usage(c->program, err.text)
		       : 0;
}

int cluster_look(const struct cluster *c, struct overview *out)
{
	int status = cluster_take(c, c->servers, out);

	if (status)
		return status;
	for (unsigned i = 0; i < out->count; i++)
		if (out->view[i].err.code == 0)
			return 0;
	return program_failed(c->program, "no server answers", out->view[0].err.text);
}

static int print(const struct cluster *c, const struct overview *o, size_t flags)
{
	json_t *doc;

	if (!c->json) {
		overview_print(o);
		return 0;
	}
	doc = program_json(c->program);
	if (!doc || overview_json(o, doc)) {
		json_decref(doc);
		return program_failed(c->program, "status", "out of memory");
	}
	program_print(doc, flags);
	return 0;
}

int cmd_status(const struct cluster *c)
{
	struct overview o;
	int status = cluster_look(c, &o);

	if (status == 0)
		status = print(c, &o, JSON_INDENT(2));
	return status ? status : o.primary ? CLUSTER_GOOD : CLUSTER_NO;
}

/* What watch compares: whatever people want to see at once when it changes. */
struct sight {
	uint64_t term;
	char servers[SERVERS_MAX * (64 + 16)];
};

static void see(const struct overview *o, struct sight *out)
{
	size_t len = 0;

	memset(out, 0, sizeof(*out));
	out->term = o->newest ? o->newest->status.term : 0;
	for (unsigned i = 0; i < o->count && len < sizeof(out->servers); i++) {
		const struct view *v = &o->view[i];
		const char *node = v->err.code ? v->server : v->status.node;

		len += (size_t)snprintf(out->servers + len, sizeof(out->servers) - len,
					"%s%.60s %s", i ? ", " : "", node,
					overview_role(o, NULL, v));
	}
}

static void stamp(void)
{
	const time_t now = (time_t)(time_read_ns(CLOCK_REALTIME) / NS_PER_S);
	struct tm tm;
	char text[16];

	strftime(text, sizeof(text), "%H:%M:%S", localtime_r(&now, &tm));
	printf("%s  ", text);
}

static void print_change(const struct overview *o, const struct sight *before,
			 const struct sight *now)
{
	stamp();
	if (now->term != before->term)
		printf("term %" PRIu64 ": %s; ", now->term, o->newest->status.why);
	printf("%s\n", now->servers);
}

static void nap(uint64_t ms)
{
	const uint64_t until_ns = time_now_ns() + ms * NS_PER_MS;

	while (!stop_wanted() && time_now_ns() < until_ns)
		time_sleep(NAP_MS * NS_PER_MS);
}

int cmd_watch(const struct cluster *c)
{
	struct sight before = { 0 }, now;
	struct overview o;
	bool first = true;
	int status = 0;

	stop_listen();
	while (status == 0 && !stop_wanted()) {
		status = cluster_look(c, &o);
		if (status && !first) {
			status = 0; /* it has been said; servers may come back */
			nap(c->interval_ms);
			continue;
		}
		see(&o, &now);
		if (status == 0 && (first || c->json))
			status = first || memcmp(&now, &before, sizeof(now)) != 0
					 ? print(c, &o, JSON_COMPACT)
					 : 0;
		else if (status == 0 && memcmp(&now, &before, sizeof(now)) != 0)
			print_change(&o, &before, &now);
		fflush(stdout);
		before = now;
		first = false;
		nap(c->interval_ms);
	}
	return status;
}
