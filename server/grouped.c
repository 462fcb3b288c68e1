/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A server of a group has no workers and no sessions until it is primary, and no log, unless it has
 * a data directory (grouped_data.c). Until then gkv-apply (server/member/follow.c) gives store and
 * clients what the primary has; when the server has won, gkv-group makes log and workers, and then
 * `open` lets clients in.
 *
 * WHO TOUCHES WHAT. The main thread makes everything that is there before the group's thread
 * begins, and takes everything apart after that has ended. In between gkv-apply has `replay` and
 * `walk`, and the log of a data directory, while it runs, else gkv-group has. A log without one,
 * doors and workers are made by gkv-group, before the release of `open`; the control thread, which
 * acquires it, and all that it starts, come after.
 *
 * THE END of a member is the process's: the control thread ends all sessions, everything is taken
 * apart, and main() starts the program again in its place, where that is what helps.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cores.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "common/rdma/tcp.h"
#include "server/group/names.h"
#include "server/grouped_internal.h"

#define ETCD_MS	     2000u /* a call */
#define ASK_NS	     (500 * NS_PER_MS) /* between two, before the server can begin */
#define TELL_NS	     (10 * NS_PER_S)
#define RING_BYTES   (128ull << 20)
#define GIVE_WAY_NS  (100 * NS_PER_MS)
#define WALK_RECORDS 256u /* of a piece */
#define WALK_HINTS   0u /* every record is read once */
#define WALK_MS	     2000u /* a call of it: the primary may be gone */
#define REPLAY_MAX   8u /* threads */
#define HOLD_LEASES  2u /* until there is another primary, if the last one is gone */

static_assert(RING_BYTES >= RING_BYTES_MIN, "four of the longest batches at least");

/* Before it begins. */

static void fill_etcd(struct etcd_config *out, const struct config_group *c)
{
	*out = (struct etcd_config){
		.endpoints = c->etcd,
		.user = c->user[0] ? c->user : NULL,
		.password = c->password[0] ? c->password : NULL,
		.ca = c->ca[0] ? c->ca : NULL,
		.cert = c->cert[0] ? c->cert : NULL,
		.key = c->key[0] ? c->key : NULL,
		.timeout_ms = ETCD_MS,
	};
}

/* Etcd may come later: after a power cut all start at once. */
static bool is_for_now(int rc)
{
	return rc == -ETIMEDOUT || rc == -EHOSTUNREACH || rc == -EREMOTEIO || rc == -EINPROGRESS;
}

static int ask_for_cluster(struct grouped *g, struct error *err)
{
	struct cluster_facts own;
	uint64_t told_ns = 0;
	int rc = random_fill(&own, sizeof(own), err);

	grouped_data_proposes(g, &own);
	while (rc == 0) {
		rc = cluster_join(g->asks, g->s->config.group.cluster, &own, &g->facts, err);
		if (!is_for_now(rc))
			return rc;
		if (server_told_to_stop())
			return -ECANCELED;
		if (!told_ns || time_now_ns() - told_ns > TELL_NS) {
			told_ns = time_now_ns();
			log_warn("group", "waiting for etcd: %s", err->text);
		}
		time_sleep(ASK_NS);
		rc = 0;
	}
	return rc;
}

int grouped_open(struct server *s, struct error *err)
{
	struct config_group *c = &s->config.group;
	struct grouped *g;
	int rc;

	if (!c->cluster[0])
		return 0;
	g = calloc(1, sizeof(*g));
	if (!g)
		return error_set(err, -ENOMEM, "there is no memory for a member of a group");
	s->grouped = g;
	g->s = s;
	if (!c->advertise[0] &&
	    (strncmp(s->bound, "0.0.0.0:", 8) == 0 || strncmp(s->bound, "[::]:", 5) == 0))
		return error_set(err, -EINVAL,
				 "--cluster %s: a server that listens on all addresses must say at "
				 "which one others reach it (give --advertise HOST:PORT)",
				 c->cluster);
	if (!c->advertise[0])
		snprintf(c->advertise, sizeof(c->advertise), "%s", s->bound);
	if (!c->node[0])
		snprintf(c->node, sizeof(c->node), "%.63s", c->advertise);
	fill_etcd(&g->etcd, c);
	rc = group_name_check("--group", c->name, err);
	if (rc == 0)
		rc = etcd_open(&g->asks, &g->etcd, err);
	if (rc == 0)
		rc = ask_for_cluster(g, err);
	if (rc == 0)
		rc = grouped_data_join(g, err);
	if (rc == 0)
		s->hash_seed = g->facts.hash_seed;
	return rc && rc != -ECANCELED ? error_prefix(err, "--cluster %s", c->cluster) : rc;
}

/* What the primary has: gkv-apply. */

bool grouped_stopping(void *ctx)
{
	const struct grouped *g = ctx;

	return atomic_load_explicit(&g->ends, memory_order_relaxed) ||
	       atomic_load_explicit(&g->stops, memory_order_relaxed) || server_told_to_stop();
}

static int open_replay(struct grouped *g, struct error *err)
{
	const unsigned cores = cores_usable();
	const struct apply_config c = {
		.store = &g->s->store,
		.threads = cores < REPLAY_MAX ? cores : REPLAY_MAX,
		.learning = true,
		.stopping = grouped_stopping,
		.ctx = g,
	};

	return g->replay ? 0 : replay_open(&g->replay, &c, g->s->sessions.clients, err);
}

static int take_client(void *ctx, const struct snapshot_client *item)
{
	struct grouped *g = ctx;
	struct error err;
	int rc = open_replay(g, &err);

	return rc ? rc : replay_client(g->replay, item);
}

static int take_record(void *ctx, const struct log_record *r)
{
	struct grouped *g = ctx;
	struct error err;
	int rc = open_replay(g, &err);

	if (rc == 0)
		rc = grouped_data_keep(g, r);
	return rc ? rc : replay_log(g->replay, r);
}

static void end_walk(struct grouped *g)
{
	gkv_scan_close(g->cursor);
	gkv_disconnect(g->walk);
	g->cursor = NULL;
	g->walk = NULL;
}

static int begin_walk(struct grouped *g, const char *address, struct error *err)
{
	struct gkv_options o;
	char why[256];
	int rc;

	gkv_options_init(&o);
	o.name = "kv-server that learns";
	o.device = g->dev->name;
	o.hint_bytes = WALK_HINTS;
	o.timeout_ms = WALK_MS;
	o.flags = GKV_SERVERS_GIVEN; /* what another one has belongs to another place of the log */
	rc = gkv_connect(address, &o, &g->walk, why, sizeof(why));
	if (rc)
		return error_set(err, rc, "the primary's table cannot be read: %s", why);
	rc = gkv_scan_open(g->walk, NULL, &g->cursor);
	return rc ? error_set(err, rc, "the primary's table cannot be read: %s", gkv_error(g->walk))
		  : 0;
}

static int take_walked(struct grouped *g, const struct gkv_record *r)
{
	const struct apply_record record = {
		.key = r->key,
		.value = r->value,
		.key_len = (uint32_t)r->key_len,
		.value_len = r->meta.value_len,
		.version = r->meta.version,
		.expiry_ms = r->meta.expiry_ms,
		.walked = true,
	};

	return replay_record(g->replay, &record);
}

static int cannot_store(int rc, struct error *err)
{
	return error_set(err, rc, "what the primary has cannot be stored: %s", error_name(rc));
}

/* Nothing of it comes any more. */
static int walked(struct grouped *g, struct error *err)
{
	int rc = replay_flush(g->replay);

	end_walk(g);
	if (rc)
		return cannot_store(rc, err);
	replay_learned(g->replay);
	return grouped_data_save(g, err);
}

static int walk(void *ctx, const char *address, struct error *err)
{
	struct grouped *g = ctx;
	struct gkv_record records[WALK_RECORDS];
	int n, rc = open_replay(g, err);

	if (g->saving)
		return grouped_data_save(g, err);
	if (rc == 0 && !g->cursor)
		rc = begin_walk(g, address, err);
	if (rc)
		return rc;
	n = gkv_scan_next(g->cursor, records, WALK_RECORDS);
	for (int i = 0; i < n && rc == 0; i++)
		rc = take_walked(g, &records[i]);
	if (n < 0)
		return error_set(err, n, "reading the primary's table failed: %s",
				 gkv_error(g->walk));
	if (rc)
		return cannot_store(rc, err);
	return n ? 1 : walked(g, err);
}

static int learned(void *ctx, struct error *err)
{
	struct grouped *g = ctx;
	log_info("group", "this server has what its primary has");
	return g->log || g->log_memory.ring ? 0 : log_memory_take(&g->log_memory, 0, err);
}

/* What a primary gives: gkv-line. */

static uint64_t published(void *ctx)
{
	const struct grouped *g = ctx;

	return write_first_unpublished(g->log, g->s->doors, g->s->sessions.worker_count);
}

static int walk_clients(void *ctx,
			int (*each)(void *each_ctx, const struct snapshot_client *items,
				    unsigned count),
			void *each_ctx)
{
	const struct grouped *g = ctx;

	return clients_walk(g->s->sessions.clients, each, each_ctx);
}

/* It is primary: gkv-group. */

static void log_failed(void *ctx, const char *why)
{
	(void)ctx;
	log_error("group", "%s", why); /* there is no disk that could fail */
}

static uint64_t clock_ms(void *ctx)
{
	struct grouped *g = ctx;

	return store_now_ns(&g->s->store) / NS_PER_MS;
}

/* All that it holds is committed, and in its store. Returns the greatest version there. */
static int apply_held(struct grouped *g, const struct member_lead *how, uint64_t *version,
		      struct error *err)
{
	struct follower_state held;
	int rc;

	*version = 0;
	if (!how->held)
		return 0;
	follower_look(how->held, &held);
	store_clock_raise(&g->s->store, held.clock_ms);
	follower_lead(how->held);
	while ((rc = follower_apply(how->held, UINT64_MAX, err)) == 1)
		;
	if (rc)
		return rc;
	*version = g->replay ? replay_version(g->replay) : 0;
	rc = replay_close(g->replay);
	g->replay = NULL;
	return rc ? error_set(err, rc,
			      "the last records of the primary before cannot be stored: %s",
			      error_name(rc))
		  : 0;
}

static int open_log(struct grouped *g, const struct member_lead *how, struct error *err)
{
	struct log_config c = { .memory = &g->log_memory,
				.mirror = mirror_table(how->mirror),
				.clock_ms = clock_ms,
				.failed = log_failed,
				.ctx = g };
	struct follower_state held;

	if (how->held) {
		follower_look(how->held, &held);
		c.first = held.committed;
		c.tail = follower_rest(how->held);
		c.tail_bytes = held.held - held.committed;
	}
	return log_open(&g->log, &c, err);
}

static int draw_life(struct grouped *g, uint64_t version, uint64_t *life, struct error *err)
{
	int rc;

	do
		rc = cluster_draw_life(g->asks, g->s->config.group.cluster, version >> COUNT_BITS,
				       life, err);
	while (is_for_now(rc) && !grouped_stopping(g));
	return rc;
}

/* With fewer in sync than the group wants, no write is begun. */
static void judge_in_sync(struct grouped *g, const struct group_config *c)
{
	const bool refuse = group_in_sync(c) < c->min_in_sync;

	if (refuse != g->refuses)
		log_warn("group", "%u in sync, and writes want %u: they are %s", group_in_sync(c),
			 c->min_in_sync, refuse ? "refused" : "taken again");
	g->refuses = refuse;
	log_refuse(g->log, refuse);
}

static int lead(void *ctx, const struct member_lead *how, struct error *err)
{
	struct grouped *g = ctx;
	struct server *s = g->s;
	uint64_t version, life;
	int rc = s->data ? 0 : open_log(g, how, err);

	if (rc == 0)
		rc = apply_held(g, how, &version, err);
	if (rc == 0 && s->data)
		rc = grouped_data_lead(g, how, &version, err);
	if (rc == 0)
		log_debug("group", "the log is open, and what was held is applied");
	if (rc == 0)
		rc = draw_life(g, version, &life, err);
	if (rc == 0 && s->data)
		rc = data_raise_life(s->data, life, err);
	if (rc == 0 && store_log_open(&s->store, g->log, life_first(life)))
		rc = error_set(err, -ENOMEM, "out of memory for the writes that wait for the log");
	if (rc)
		return rc;
	judge_in_sync(g, &how->known.config);
	clients_log(s->sessions.clients, g->log);
	s->sessions.group_lease_ms = how->known.config.lease_ms;
	s->sessions.rho_ppm = how->known.config.rho_ppm;
	rc = server_make_workers(s, err);
	for (unsigned i = 0; i < s->sessions.worker_count; i++)
		s->doors[i] = worker_door(s->sessions.workers[i]);
	/* release: pairs with who asks what is in the store */
	atomic_store_explicit(&g->leads, true, memory_order_release);
	if (rc == 0)
		rc = pairs_start(&s->sessions, err);
	if (rc)
		return rc;
	/* release: pairs with serves() */
	atomic_store_explicit(&g->open, true, memory_order_release);
	sessions_wake_control(&s->sessions);
	return 0;
}

static void changed(void *ctx, const struct group_known *now)
{
	struct grouped *g = ctx;

	if (g->log)
		judge_in_sync(g, &now->config);
}

static void rest(void *ctx, bool rests)
{
	struct grouped *g = ctx;

	if (!rests)
		sessions_go_on(&g->s->sessions);
	/* release: pairs with serves() */
	atomic_store_explicit(&g->open, !rests, memory_order_release);
	if (rests)
		sessions_rest(&g->s->sessions);
	else
		sessions_wake_control(&g->s->sessions);
}

static void turn(void *ctx, bool others)
{
	grouped_data_watch(ctx, others);
}

static bool has_rested(void *ctx)
{
	const struct grouped *g = ctx;

	return sessions_rested(&g->s->sessions);
}

/* It must end, or begin once more. */
static void ends(void *ctx, const struct error *why)
{
	struct grouped *g = ctx;

	g->why = *why;
	g->again = why->code == -ESTALE || why->code == -EPROTO || is_for_now(why->code) ||
		   why->code == -ECONNRESET || why->code == -ECONNREFUSED || why->code == -EPIPE ||
		   why->code == -EAGAIN || why->code == -EUSERS;
	/* release: pairs with grouped_explain() */
	atomic_store_explicit(&g->ends, true, memory_order_release);
	atomic_store_explicit(&g->open, false, memory_order_relaxed);
	pairs_fatal(&g->s->sessions, "its group has ended it");
}

static void news(void *ctx, bool in_sync)
{
	const struct grouped *g = ctx;

	if (in_sync && g->saving) /* it has learned all again */
		data_forget_aside(g->s->data);
	sessions_wake_control(&g->s->sessions);
}

/* The control thread. */

/*
 * A client that comes from the primary that this server follows has lost it, and soon there is
 * another one: this server or, as it learns then, which one. It waits here, rather than come again
 * and again. Not for ever: that the primary is gone for the client does not say that it is gone.
 */
static bool soon_another(const struct member_state *now, uint64_t met, uint64_t waited_ns)
{
	const struct group_config *c = &now->known.config;

	return now->role == MEMBER_FOLLOWS && met && met == c->primary &&
	       waited_ns < HOLD_LEASES * c->lease_ms * NS_PER_MS;
}

static enum sessions_serve serves(void *ctx, uint64_t met, uint64_t waited_ns, struct error *why)
{
	struct grouped *g = ctx;
	const struct group_member *primary;
	struct member_state now;

	/* acquire: pairs with lead() */
	if (atomic_load_explicit(&g->open, memory_order_acquire))
		return SESSIONS_SERVED;
	member_look(g->member, &now);
	if ((now.role >= MEMBER_TAKES_OVER && now.role <= MEMBER_GIVES_WAY) ||
	    soon_another(&now, met, waited_ns))
		return SESSIONS_LATER;
	primary =
		now.known.modified ? group_find(&now.known.config, now.known.config.primary) : NULL;
	if (primary && strcmp(primary->node, g->s->config.group.node) != 0)
		error_set(why, -ECONNREFUSED, "this server is a backup: the primary is %s",
			  primary->address);
	else
		error_set(why, -ECONNREFUSED,
			  "this server is not ready to be its group's primary yet");
	return SESSIONS_REFUSED;
}

static unsigned servers(void *ctx, struct wire_server out[WIRE_GROUP_MEMBERS_MAX])
{
	struct grouped *g = ctx;
	struct member_state now;
	unsigned count = 1; /* the primary's place */

	member_look(g->member, &now);
	for (uint32_t i = 0; i < now.known.config.count; i++) {
		const struct group_member *m = &now.known.config.member[i];
		struct wire_server *to =
			m->life == now.known.config.primary ? &out[0] : &out[count++];

		*to = (struct wire_server){ 0 };
		memcpy(to->address, m->address, sizeof(m->address));
	}
	return now.known.config.count;
}

static void call_member(void *ctx, int fd, const struct wire_frame *first)
{
	struct grouped *g = ctx;

	member_call(g->member, fd, first);
}

static void rested(void *ctx)
{
	struct grouped *g = ctx;

	member_wake(g->member);
}

int grouped_start(struct server *s, struct error *err)
{
	struct grouped *g = s->grouped;
	struct root *root = s->root.addr;
	struct rdma_options o = s->config.rdma;
	struct member_config c = {
		.cluster = s->config.group.cluster,
		.group = s->config.group.name,
		.cluster_id = { g->facts.id[0], g->facts.id[1] },
		.lease_ms = s->config.group.lease_ms,
		.min_in_sync = s->config.group.min_in_sync,
		.rho_ppm = s->config.group.rho_ppm,
		.memory = s->config.memory_bytes,
		.ring_bytes = RING_BYTES,
		.until = &root->lease_until,
		.clock = &root->lease_clock,
		.sessions = &s->sessions.counters.sessions,
		.etcd = g->etcd,
		.follow = { g, grouped_data_begin, take_client, take_record, walk, learned },
		.table = { g, published, walk_clients },
		.own = grouped_data_own,
		.lead = lead,
		.news = news,
		.changed = changed,
		.turn = turn,
		.rest = rest,
		.rested = has_rested,
		.ends = ends,
		.ctx = g,
	};
	char address[64];
	int rc;

	c.self.life = root->server_incarnation; /* by which clients know it, too */
	memcpy(c.self.node, s->config.group.node, sizeof(c.self.node));
	memcpy(c.self.address, s->config.group.advertise, sizeof(c.self.address));
	o.device = s->dev->name;
	tcp_local_address(s->listen_fd, address);
	rc = rdma_device_open(&g->dev, &o, address, err);
	if (rc)
		return rc;
	c.dev = g->dev;
	if (s->data) {
		data_vouches(s->data, c.before);
		data_answered(s->data, c.answered);
		c.copied = data_is_copy(s->data);
		c.was_member = data_was_member(s->data);
	}
	s->sessions.serves = serves;
	s->sessions.member = call_member;
	s->sessions.rested = rested;
	s->sessions.servers = servers;
	s->sessions.group_ctx = g;
	return member_start(&g->member, &c, err);
}

void grouped_stop(struct server *s)
{
	struct grouped *g = s->grouped;

	if (!g || !g->member)
		return;
	/* Nothing waits for etcd, or for memory, any more. */
	atomic_store_explicit(&g->stops, true, memory_order_relaxed);
	etcd_wake(g->asks);
	member_stop(g->member);
}

void grouped_close(struct server *s)
{
	struct grouped *g = s->grouped;

	if (!g)
		return;
	end_walk(g);
	replay_close(g->replay);
	if (g->log && !s->config.data_dir[0]) /* else it was the directory's */
		log_close(g->log);
	log_memory_free(&g->log_memory);
	member_destroy(g->member);
	rdma_device_close(g->dev);
	etcd_close(g->asks);
	free(g);
	s->grouped = NULL;
}

/* What the slowest of those who have a ring has not applied. */
static uint64_t lag_of(const struct member_state *now, uint64_t tail)
{
	uint64_t lag = 0;

	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++) {
		const struct lead_state *p = &now->peer[i];

		if (p->stage >= LEAD_LEARNS && p->stage <= LEAD_IN_SYNC &&
		    p->mirror.applied < tail && tail - p->mirror.applied > lag)
			lag = tail - p->mirror.applied;
	}
	return lag;
}

bool grouped_stats_get(struct server *s, struct grouped_stats *out)
{
	struct grouped *g = s->grouped;
	const uint64_t now_us = time_read_ns(CLOCK_BOOTTIME) / 1000;
	const struct root *root = s->root.addr;
	struct member_state now;
	uint64_t until_us;

	if (!g)
		return false;
	member_look(g->member, &now);
	log_stats_get(g->log, &out->log);
	until_us = atomic_load_explicit(&root->lease_until, memory_order_relaxed); /* a figure */
	out->term = now.known.config.term;
	out->members = now.known.config.count;
	out->in_sync = group_in_sync(&now.known.config);
	out->lease_ms = now.known.config.lease_ms;
	out->lease_left_us = until_us > now_us ? until_us - now_us : 0;
	out->lag_bytes = lag_of(&now, out->log.tail);
	return true;
}

bool grouped_stops(const struct server *s)
{
	return s->grouped && grouped_stopping(s->grouped);
}

bool grouped_has_ended(const struct server *s)
{
	return s->grouped && atomic_load_explicit(&s->grouped->ends, memory_order_acquire);
}

/*
 * Whoever was primary, and has no session any more, is in no hurry. To take its memory apart keeps
 * a core busy for some ten milliseconds, and the next primary may need that core.
 */
void grouped_give_way(const struct server *s)
{
	/* acquire: pairs with lead() */
	if (grouped_has_ended(s) && s->grouped->again &&
	    atomic_load_explicit(&s->grouped->leads, memory_order_acquire))
		time_sleep(GIVE_WAY_NS);
}

int grouped_explain(const struct server *s, int rc, bool *again, struct error *err)
{
	const struct grouped *g = s->grouped;

	/* acquire: pairs with ends() */
	if (!g || !atomic_load_explicit(&g->ends, memory_order_acquire))
		return rc;
	*again = g->again;
	if (*again || g->why.code == WIRE_PEER_DISMISSED)
		return 0;
	*err = g->why;
	return err->code;
}
