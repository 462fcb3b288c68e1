/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/stats.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/layout/root.h"
#include "server/grouped.h"
#include "server/server.h"

#define LEFT_OUT_ROOM 64u /* bytes, for one line at the end */
#define SESSION_LINES 7u
#define SESSIONS_TOLD 256u /* more than there is room for in a STATS text */

struct writer {
	char *text;
	size_t cap, len;
	unsigned dropped; /* lines that did not fit */
};

/* One line, whole or not at all. */
__attribute__((format(printf, 3, 4))) static void line(struct writer *w, uint64_t value,
						       const char *name, ...)
{
	size_t room = w->cap - w->len;
	va_list ap;
	int n, m;

	va_start(ap, name);
	n = vsnprintf(w->text + w->len, room, name, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= room)
		goto full;
	m = snprintf(w->text + w->len + n, room - (size_t)n, " %" PRIu64 "\n", value);
	if (m > 0 && (size_t)m < room - (size_t)n) {
		w->len += (size_t)n + (size_t)m;
		return;
	}
full:
	w->dropped++;
}

static uint64_t get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void sessions_lines(struct writer *w, struct server *s)
{
	const struct session_counters *c = &s->sessions.counters;

	line(w, get(&c->sessions), "sessions");
	line(w, get(&c->queue_pairs), "queue_pairs");
	line(w, get(&c->strangers), "handshakes_pending");
	line(w, get(&c->accepted), "connections_accepted");
	line(w, get(&c->refused), "connections_refused");
	line(w, get(&c->resumed), "sessions_resumed");
	line(w, get(&c->fenced_silent), "sessions_fenced_silent");
	line(w, get(&c->fenced_stuck), "sessions_fenced_stuck");
	line(w, get(&c->fenced_lied), "sessions_fenced_protocol");
}

#define SUM(field) sum_of(s, offsetof(struct worker_counters, field))

static uint64_t sum_of(const struct server *s, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < s->sessions.worker_count; i++) {
		const char *base = (const char *)worker_counters(s->sessions.workers[i]);

		sum += get((const _Atomic uint64_t *)(base + offset));
	}
	return sum;
}

uint64_t server_writes_refused(const struct server *s)
{
	return SUM(full);
}

static void receives_lines(struct writer *w, const struct server *s)
{
	uint64_t lost = 0, held = 0;

	for (unsigned i = 0; i < s->sessions.worker_count; i++) {
		lost += worker_receives_lost(s->sessions.workers[i]);
		held += worker_receives_held(s->sessions.workers[i]);
	}
	line(w, lost, "receives_lost");
	line(w, held, "receives_held");
}

static void rpc_lines(struct writer *w, struct server *s)
{
	line(w, SUM(gets), "rpc_gets");
	line(w, SUM(puts), "rpc_puts");
	line(w, SUM(dels), "rpc_dels");
	line(w, SUM(updates), "rpc_updates");
	line(w, SUM(pings), "rpc_pings");
	line(w, SUM(repeats), "rpc_repeats");
	line(w, SUM(refused), "rpc_refused");
	line(w, SUM(full), "rpc_refused_full");
	line(w, SUM(stats), "rpc_stats");
	line(w, SUM(protocol_errors), "protocol_errors");
	line(w, SUM(lost), "queue_pairs_lost");
	receives_lines(w, s);
	line(w, SUM(pulled_bytes), "pulled_bytes");
	line(w, SUM(pushed_bytes), "pushed_bytes");
	line(w, SUM(wakeups), "worker_wakeups");
}

static void index_lines(struct writer *w, struct server *s)
{
	struct index_stats ix;

	index_stats_get(s->store.index, &ix);
	line(w, ix.records, "records");
	line(w, ix.records_expiring, "records_expiring");
	line(w, atomic_load_explicit(&s->store.expired, memory_order_relaxed), "records_expired");
	line(w, ix.record_bytes, "memory_record_bytes");
	line(w, ix.segments, "index_segments");
	line(w, ix.buckets, "index_buckets");
	line(w, ix.overflow_used, "index_overflow_buckets");
	line(w, ix.slots, "index_slots");
	line(w, ix.depth, "index_depth");
	line(w, ix.splits, "index_splits");
	line(w, ix.merges, "index_merges");
	line(w, ix.doublings, "index_doublings");
	line(w, ix.halvings, "index_halvings");
}

/*
 * What the blocks that are taken cost, those of replaced and deleted records included that are not
 * reused yet: each with its share of the rest after the last block of its slab.
 */
static uint64_t block_bytes_taken(const struct memory_stats *m)
{
	uint64_t bytes = m->run_slabs * SLAB_BYTES;

	for (unsigned i = 0; i < m->classes; i++) {
		uint64_t in_slab = SLAB_BYTES / m->class[i].block_bytes;

		bytes += m->class[i].blocks_used * SLAB_BYTES / in_slab;
	}
	return bytes;
}

static void memory_lines(struct writer *w, struct server *s)
{
	struct memory_stats m;

	memory_stats_get(s->store.memory, &m);
	line(w, m.bytes_max, "memory_bytes_max");
	line(w, m.extent_bytes[EXTENT_INDEX], "memory_index_bytes");
	line(w, m.extent_bytes[EXTENT_DIR], "memory_directory_bytes");
	line(w, m.extent_bytes[EXTENT_DATA], "memory_data_bytes");
	line(w, block_bytes_taken(&m), "memory_block_bytes");
	line(w, m.slabs_used * SLAB_BYTES, "memory_slab_bytes_used");
	line(w, m.slabs_free * SLAB_BYTES, "memory_slab_bytes_free");
	line(w, m.slabs_waiting * SLAB_BYTES, "memory_slab_bytes_waiting");
	line(w, m.run_slabs * SLAB_BYTES, "memory_large_record_bytes");
	line(w, m.segments_used * SEGMENT_BYTES, "memory_segment_bytes_used");
	line(w, m.segments_free * SEGMENT_BYTES, "memory_segment_bytes_free");
	line(w, m.directory_bytes_used, "memory_directory_bytes_used");
	line(w, m.blocks_exhausted, "memory_blocks_exhausted");
	line(w, m.segments_exhausted, "memory_segments_exhausted");
	line(w, m.hugepage_bytes, "memory_hugepage_bytes");
	line(w, m.elsewhere_bytes, "memory_other_node_bytes");
	if (s->place.node != NUMA_UNKNOWN)
		line(w, (uint64_t)s->place.node, "memory_numa_node");
	line(w, m.extents, "memory_extents");
	line(w, m.extents_released, "memory_extents_released");
	line(w, m.stuck_bytes, "memory_stuck_bytes");
	for (unsigned i = 0; i < m.classes; i++) {
		if (!m.class[i].slabs)
			continue;
		line(w, m.class[i].slabs, "class_%u_slabs", m.class[i].block_bytes);
		line(w, m.class[i].blocks_used, "class_%u_used", m.class[i].block_bytes);
		line(w, m.class[i].blocks_free, "class_%u_free", m.class[i].block_bytes);
	}
}

static void reclaim_lines(struct writer *w, struct server *s)
{
	struct reclaim_stats r;

	reclaim_stats_get(s->store.reclaim, &r);
	line(w, r.retired, "blocks_retired");
	line(w, r.freed, "blocks_freed");
	line(w, r.deferred_blocks, "blocks_deferred");
	line(w, r.deferred_bytes, "deferred_bytes");
	line(w, r.deferred_max, "deferred_bytes_max");
	line(w, r.refused, "deferred_refused");
	line(w, r.grace_periods, "grace_periods");
}

/* 2^(quarters/4), in whole numbers. */
static uint64_t quarter_power(unsigned quarters)
{
	static const unsigned per_mille[] = { 1000, 1189, 1414, 1682 };

	return (1ull << quarters / 4) * per_mille[quarters % 4] / 1000;
}

/* The latency of syncs below which @part of 100 lie, in us: the upper end of its bin. */
static uint64_t sync_us(const struct log_stats *l, uint64_t part)
{
	uint64_t seen = 0;

	for (unsigned i = 0; i < LOG_BINS && l->syncs; i++) {
		seen += l->sync_bins[i];
		if (seen * 100 >= l->syncs * part)
			return quarter_power(i + 1);
	}
	return 0;
}

static void log_lines(struct writer *w, const struct log_stats *l)
{
	line(w, l->tail, "log_position");
	line(w, l->committed, "log_committed");
	line(w, l->durable, "log_durable");
	line(w, l->pending_bytes, "log_pending_bytes");
	line(w, l->group, "log_group");
	line(w, l->segments, "log_segments");
	line(w, l->segment_bytes, "log_bytes");
	line(w, l->batches, "log_batches");
	line(w, l->records, "log_records");
	line(w, l->syncs, "log_syncs");
	line(w, sync_us(l, 50), "log_sync_us_p50");
	line(w, sync_us(l, 99), "log_sync_us_p99");
	line(w, l->sync_ns_max / 1000, "log_sync_us_max");
	line(w, l->refused_busy, "log_refused_busy");
	line(w, l->refused_space, "log_refused_space");
}

/* With a data directory only. */
static void data_lines(struct writer *w, struct server *s)
{
	struct data_stats d;
	uint64_t now = time_wall_ms();

	if (!s->data)
		return;
	data_stats_get(s->data, &d);
	log_lines(w, &d.log);
	line(w, d.life, "data_life");
	line(w, d.recovery_ms, "recovery_ms");
	line(w, d.recovery_records, "recovery_records");
	line(w, d.recovery_bytes, "recovery_bytes");
	line(w, d.recovery_rewritten_bytes, "recovery_rewritten_bytes");
	line(w, d.snapshots, "snapshots");
	line(w, d.snapshot_wanted, "snapshot_wanted");
	line(w, d.snapshots_failed, "snapshots_failed");
	if (d.snapshot_time_ms)
		line(w, now > d.snapshot_time_ms ? now - d.snapshot_time_ms : 0, "snapshot_age_ms");
	line(w, d.snapshot_progress, "snapshot_progress");
	line(w, d.snapshot_total, "snapshot_total");
	line(w, d.snapshot_start, "snapshot_start");
	line(w, d.snapshot_bytes, "snapshot_bytes");
	line(w, d.snapshot_took_ms, "snapshot_took_ms");
}

/* Of a group's primary only. */
static void group_lines(struct writer *w, struct server *s)
{
	struct grouped_stats g;

	if (!grouped_stats_get(s, &g))
		return;
	if (!s->data) /* else they were written with those of the data directory */
		log_lines(w, &g.log);
	line(w, g.term, "group_term");
	line(w, g.members, "group_members");
	line(w, g.in_sync, "group_in_sync");
	line(w, g.lease_ms, "group_lease_ms");
	line(w, g.lease_left_us, "group_lease_left_us");
	line(w, g.lag_bytes, "group_lag_bytes");
}

static void client_lines(struct writer *w, struct server *s)
{
	struct grace_figures all = grace_figures(sessions_grace(&s->sessions));

	line(w, all.gets, "client_gets");
	line(w, all.reads, "client_reads");
	line(w, all.retries, "client_retries");
}

/* Whose it is, how far it lags, what it holds back; fences of its client, and what that did. */
struct session_figures {
	uint64_t number, pid, lag, deferred_bytes, fences;
	struct grace_figures did;
};

struct sessions_figures {
	unsigned count, left_out;
	struct session_figures session[SESSIONS_TOLD];
};

/* Under the lock of all sessions: copied here, printed after. */
static void session_copy(void *ctx, struct epoch_session *e)
{
	const struct session *s = caa_container_of(e, struct session, lease.epoch);
	struct sessions_figures *all = ctx;

	if (all->count == SESSIONS_TOLD) {
		all->left_out++;
		return;
	}
	all->session[all->count++] = (struct session_figures){
		.number = s->number,
		.pid = s->pid,
		.lag = e->waited ? grace_now(sessions_grace(s->all)) - grace_session_reach(e) : 0,
		.deferred_bytes = e->deferred_bytes,
		.fences = get(&s->client->fences),
		.did = grace_session_figures(e),
	};
}

static void session_lines(struct writer *w, struct server *server)
{
	struct sessions_figures all = { 0 };

	grace_each(sessions_grace(&server->sessions), session_copy, &all);
	for (unsigned i = 0; i < all.count; i++) {
		const struct session_figures *s = &all.session[i];

		line(w, s->pid, "session_%" PRIu64 "_pid", s->number);
		line(w, s->lag, "session_%" PRIu64 "_epoch_lag", s->number);
		line(w, s->deferred_bytes, "session_%" PRIu64 "_deferred_bytes", s->number);
		line(w, s->fences, "session_%" PRIu64 "_fences", s->number);
		line(w, s->did.gets, "session_%" PRIu64 "_gets", s->number);
		line(w, s->did.reads, "session_%" PRIu64 "_reads", s->number);
		line(w, s->did.retries, "session_%" PRIu64 "_retries", s->number);
	}
	w->dropped += all.left_out * SESSION_LINES;
}

size_t server_stats_text(void *ctx, char *text, size_t cap)
{
	struct server *s = ctx;
	struct writer w = { .text = text, .cap = cap - LEFT_OUT_ROOM };
	const struct root *root = s->root.addr;

	line(&w, (uint64_t)getpid(), "pid");
	line(&w, (time_now_ns() - s->started_ns) / NS_PER_MS, "uptime_ms");
	line(&w, s->sessions.worker_count, "workers");
	line(&w, get(&root->epoch), "epoch");
	line(&w, get(&s->store.version), "version");
	sessions_lines(&w, s);
	client_lines(&w, s);
	rpc_lines(&w, s);
	index_lines(&w, s);
	reclaim_lines(&w, s);
	memory_lines(&w, s);
	data_lines(&w, s);
	group_lines(&w, s);
	/* Last, since they may be many; it is said where some are left out. */
	session_lines(&w, s);
	w.cap = cap;
	if (w.dropped)
		line(&w, w.dropped, "lines_left_out");
	return w.len;
}
