/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Sessions and handles, which come and go, and the server, which is killed and restarted. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "client/src/link/handle.h" /* the hash that the server has: to choose keys, nothing else */
#include "tests/stress/differ/differ.h"
#include "tests/unit/client/with_server.h"

#define MEMORY	   "256M"
#define TIMEOUT_MS 100000u

static void line_open(struct differ *d, struct line *l)
{
	static const uint64_t hint_bytes[] = { 64 << 20, 4096, 256, 0 };
	char server[32], text[700];
	struct gkv_options o;
	int rc;

	snprintf(server, sizeof(server), "127.0.0.1:%u", d->port);
	gkv_options_init(&o);
	o.server = server;
	o.device = "soft0";
	o.timeout_ms = TIMEOUT_MS;
	o.hint_bytes = hint_bytes[below(d, 4)];
	o.housekeeper = below(d, 3) ? GKV_HOUSEKEEPER_THREAD : GKV_HOUSEKEEPER_TICK;
	rc = gkv_session_open(&o, &l->session, text, sizeof(text));
	if (rc)
		wrong(d, 0, "error", "gkv_session_open() returned %d: %s", rc, text);
	d->sessions++;
	l->life = d->lives;
	places_open(d, l);
}

static void end_open(struct differ *d, struct line *l, struct end *end)
{
	static const unsigned depth[] = { 1, 4, 64, 256 };
	struct gkv_handle_options o = { .flags = below(d, 4) ? 0 : GKV_NO_HINTS };
	char why[640];
	int rc;

	o.depth = end->depth = depth[below(d, 4)];
	rc = gkv_open(l->session, &o, &end->kv, why, sizeof(why));
	if (rc)
		wrong(d, 0, "error", "gkv_open() returned %d: %s", rc, why);
	end->view = NULL;
}

struct line *line_of(struct differ *d, const struct end *end)
{
	struct line *l = d->link;

	while (end < l->end || end >= l->end + DIFFER_ENDS)
		l++;
	return l;
}

struct end *end_choose(struct differ *d)
{
	struct line *l = &d->link[below(d, DIFFER_LINKS)];
	struct end *end = &l->end[below(d, DIFFER_ENDS)];

	if (!l->session)
		line_open(d, l);
	if (!end->kv)
		end_open(d, l, end);
	return end;
}

void end_use(struct differ *d, struct end *end)
{
	if (end->view) {
		shape_fill(d, &end->shape, d->want);
		if (memcmp(end->view, d->want, end->shape.len))
			wrong(d, end->shape.key, "view",
			      "what gkv_get_view() gave has changed before the next call");
		d->views++;
	}
	end->view = NULL;
}

static void end_close(struct differ *d, struct end *end)
{
	struct gkv_stats stats;

	if (!end->kv)
		return;
	end_use(d, end);
	gkv_stats_get(end->kv, &stats);
	d->reads += stats.reads;
	d->hint_hits += stats.hint_hits;
	d->hint_stale += stats.hint_stale;
	if (below(d, 2))
		walk_end(end);
	gkv_close(end->kv);
	end->kv = NULL;
	walk_end(end);
	flights_leave(d, end);
}

static void line_close(struct differ *d, struct line *l, bool session_first)
{
	for (unsigned i = 0; i < DIFFER_ENDS; i++)
		if (l->end[i].kv)
			flights_settle(d, &l->end[i]);
	places_release(d, l);
	if (session_first)
		gkv_session_close(l->session);
	for (unsigned i = 0; i < DIFFER_ENDS; i++)
		end_close(d, &l->end[i]);
	if (l->memory && below(d, 2))
		places_release(d, l);
	if (!session_first)
		gkv_session_close(l->session);
	places_close(d, l);
	l->session = NULL;
}

/* The next user of a closed one opens it again. */
void line_churn(struct differ *d, struct end *end)
{
	struct line *l = &d->link[below(d, DIFFER_LINKS)];

	if (below(d, 3)) {
		flights_settle(d, end);
		end_close(d, end);
	} else if (l->session) {
		line_close(d, l, below(d, 2));
	}
}

void line_tick(struct differ *d, struct end *end)
{
	struct line *l = &d->link[below(d, DIFFER_LINKS)];
	char why[640];
	int rc = l->session ? gkv_tick(l->session, why, sizeof(why)) : 1;

	if (rc < 1)
		wrong(d, 0, "error", "gkv_tick() returned %d: %s", rc, why);
}

void links_close(struct differ *d)
{
	for (unsigned i = 0; i < DIFFER_LINKS; i++)
		if (d->link[i].session)
			line_close(d, &d->link[i], false);
}

/* It is killed and restarted on the same port, with nothing in it. */
void server_renew(struct differ *d)
{
	if (d->server) {
		server_stop(d->server, SIGKILL);
		printf("differ: after %llu operations the server is killed, and restarted\n",
		       (unsigned long long)d->deeds);
	}
	d->server = server_start(&d->port, MEMORY);
	d->lives++;
	d->life_nonce = d->nonce;
	d->version = 0;
	d->twins = false;
	d->dark = 0;
	memset(d->past, 0, d->o.keys * sizeof(*d->past));
	flights_orphan(d); /* looks at what was */
	for (uint32_t k = 0; k < d->o.keys; k++) {
		struct record *r = &d->record[k];
		struct shape old = r->shape;

		if (!r->there || k < DIFFER_TWINS || old.is_number || old.len < 32)
			old.len = UINT32_MAX;
		*r = (struct record){ .old = old, .flying = r->flying };
	}
}

/* Operations that the server's end has left over may have written the first keys as they were. */
static void clear_twins(struct differ *d, struct end *end)
{
	for (unsigned i = 0; i < DIFFER_LINKS * DIFFER_ENDS; i++) {
		struct end *one = &d->link[i / DIFFER_ENDS].end[i % DIFFER_ENDS];

		while (one->flights)
			flights_settle(d, one);
		walk_end(one);
	}
	for (uint32_t k = 0; k < DIFFER_TWINS; k++) {
		struct record *r = &d->record[k];
		int rc = gkv_del(end->kv, d->keys[k].bytes, d->keys[k].len);

		if (rc && rc != -ENOENT)
			wrong(d, k, "error", "gkv_del() returned %d: %s", rc, gkv_error(end->kv));
		d->dark -= r->doubt != SURE;
		*r = (struct record){ .old = r->old };
	}
}

void server_twins(struct differ *d, struct end *end)
{
	int rc;

	end_use(d, end);
	rc = gkv_ping(end->kv, NULL);
	if (rc)
		wrong(d, 0, "error", "gkv_ping() returned %d: %s", rc, gkv_error(end->kv));
	rc = gkv_exists(end->kv, "none", 4, NULL); /* its root page is read by now */
	if (rc != -ENOENT)
		wrong(d, 0, "error", "gkv_exists() returned %d: %s", rc, gkv_error(end->kv));
	clear_twins(d, end);
	keys_twin(d, end->kv->reader.world->hash_seed);
}
