/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A member with a data directory. It has a log of its own, in which each record stands where it
 * stands in the primary's: gkv-apply appends what is committed to it before it gives it to the
 * store. So when the member becomes primary the same log goes on, and what it holds of it is the
 * last part that comes there; it is durable before anybody is answered, and meta vouches for it
 * (data/member.c).
 *
 * A MEMBER IN SYNC HAS ALL ON ITS DISK but what its log is about to write: the walk over the
 * primary is in no log, so a learner has caught up only when a snapshot has what it brought. That
 * snapshot, and each one later, begins at `in_store`: gkv-apply raises it when what was given to
 * the store has come there. It stays behind by KEPT_BYTES at most, which costs a replay no more.
 *
 * ORDER of a take-over: all that is held is in log and store; the log is durable; meta vouches for
 * this life; only then is the log the group's, and anybody may be answered.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "server/durable.h"
#include "server/grouped_internal.h"
#include "server/write/write.h"

#define KEPT_BYTES (8u << 20) /* between two looks at what has come to the store */
#define HANGS_NS   (10 * NS_PER_S) /* a disk that does not end one call */
#define STEP_NS	   (100 * NS_PER_MS) /* more than that between two looks is this machine's fault */
#define PAUSE_NS   (NS_PER_MS / 5) /* the log's memory is full, or a snapshot is being written */

void grouped_data_proposes(const struct grouped *g, struct cluster_facts *own)
{
	struct data_member like = { .cluster = { own->id[0], own->id[1] },
				    .hash_seed = own->hash_seed };

	if (!g->s->data)
		return;
	data_proposes(g->s->data, &like);
	memcpy(own->id, like.cluster, sizeof(own->id));
	own->hash_seed = like.hash_seed;
}

int grouped_data_join(struct grouped *g, struct error *err)
{
	const char *name = g->s->config.group.name;
	const struct data_member of = { .cluster = { g->facts.id[0], g->facts.id[1] },
					.hash_seed = g->facts.hash_seed,
					.group = hash_bytes(name, strlen(name)) };

	return g->s->data ? data_join(g->s->data, &of, err) : 0;
}

/* Of a log that nobody appends to but this thread, and all of it is in the store. */
static void is_in_store(struct grouped *g)
{
	/* release: pairs with first_not_in_store(): what is below was put there before */
	atomic_store_explicit(&g->in_store, log_tail(g->log), memory_order_release);
	g->kept = 0;
}

static uint64_t first_not_in_store(void *ctx)
{
	const struct grouped *g = ctx;

	if (atomic_load_explicit(&g->leads, memory_order_acquire))
		return write_first_unpublished(g->log, g->s->doors, g->s->sessions.worker_count);
	return atomic_load_explicit(&g->in_store, memory_order_acquire);
}

static int serve(struct grouped *g, struct error *err)
{
	const struct data_published published = { first_not_in_store, g };

	is_in_store(g);
	return data_serve(g->s->data, &published, err);
}

int grouped_data_begin(void *ctx, uint64_t term, uint64_t position, struct error *err)
{
	struct grouped *g = ctx;
	struct server *s = g->s;
	int rc;

	if (!s->data)
		return 0;
	if (data_log(s->data))
		return error_set(err, -EAGAIN,
				 "this server has read its data directory, and is to learn instead "
				 "(it starts again)");
	rc = data_learn(s->data, &s->store, s->sessions.clients, term, position, err);
	g->log = data_log(s->data);
	return rc;
}

static struct log_entry entry_of(const struct log_record *r)
{
	return (struct log_entry){
		.kind = (enum log_kind)r->kind,
		.version = r->version,
		.client = { r->client[0], r->client[1] },
		.sequence = r->sequence,
		.number = r->number,
		.expiry_ms = r->expiry_ms,
		.handle = r->handle,
		.slot = r->slot,
		.key = r->data,
		.value = r->data + r->key_len,
		.key_len = r->key_len,
		.value_len = r->value_len,
		.body = r->body,
	};
}

/* The log's memory is full where the disk is slow, or has no room; then the ring fills, and the
 * primary waits, or takes this member out. */
static int append(struct grouped *g, const struct log_record *r)
{
	const struct log_entry e = entry_of(r);
	struct log_place at;
	int rc;

	if (r->position < log_tail(g->log)) /* it came before, and the store could not take it */
		return 0;
	while ((rc = log_append_begin(g->log, e.key_len, e.value_len, &at)) == -EBUSY ||
	       rc == -ENOSPC) {
		if (grouped_stopping(g))
			return -ECANCELED;
		log_kick(g->log);
		time_sleep(PAUSE_NS);
	}
	if (rc)
		return rc;
	log_append_end(g->log, &at, &e);
	log_kick(g->log);
	assert(at.start == r->position && at.end == r->position + r->length);
	return 0;
}

/* Or a snapshot would begin so far behind that the next one is due at once. */
static uint64_t kept_most(const struct grouped *g)
{
	const uint64_t half = g->s->config.snapshot_bytes / 2;

	return half && half < KEPT_BYTES ? half : KEPT_BYTES;
}

int grouped_data_keep(struct grouped *g, const struct log_record *r)
{
	int rc;

	if (!g->s->data)
		return 0;
	if (g->kept >= kept_most(g)) {
		rc = replay_flush(g->replay);
		if (rc)
			return rc;
		is_in_store(g);
	}
	g->kept += r->length;
	return append(g, r);
}

int grouped_data_save(struct grouped *g, struct error *err)
{
	struct data *d = g->s->data;
	struct data_stats now;
	int rc;

	if (!d)
		return 0;
	if (!g->saving) {
		rc = serve(g, err);
		g->saving = data_save(d);
		return rc ? rc : 1;
	}
	data_stats_get(d, &now);
	if (now.snapshots >= g->saving)
		return 0;
	if (now.snapshots_failed)
		return error_set(err, -EIO,
				 "what this server has learned cannot be written to %s (the log "
				 "says why)",
				 g->s->config.data_dir);
	time_sleep(PAUSE_NS);
	return 1;
}

static int recover(struct grouped *g, struct error *err)
{
	struct server *s = g->s;
	int rc = durable_recover(s, err);

	g->log = data_log(s->data);
	return rc;
}

int grouped_data_own(void *ctx, uint64_t life, uint64_t named, uint64_t *position,
		     struct error *err)
{
	struct grouped *g = ctx;
	int rc;

	*position = 0;
	if (!g->s->data)
		return 0;
	rc = data_is_whole(g->s->data, err);
	if (rc == 0 && !g->log)
		rc = recover(g, err);
	if (rc == 0)
		rc = data_vouch(g->s->data, life, named, err);
	if (rc == 0)
		*position = log_tail(g->log);
	return rc;
}

/* A disk that fails says so; one that hangs leaves a primary that commits nothing, and yet keeps
 * its lease. Time counts as the turns come, so a machine that stood still takes nobody's disk for
 * one that hangs. */
void grouped_data_watch(struct grouped *g, bool others)
{
	const uint64_t call = g->s->data ? log_at_disk(g->log) : 0, now_ns = time_now_ns();
	const uint64_t step_ns = now_ns - g->disk.looked_ns;

	g->disk.hangs_ns += step_ns < STEP_NS ? step_ns : STEP_NS;
	g->disk.looked_ns = now_ns;
	if (!call || call != g->disk.call)
		g->disk.hangs_ns = 0;
	g->disk.call = call;
	if (g->disk.hangs_ns < HANGS_NS || !others)
		return;
	g->disk.hangs_ns = 0;
	log_give_up(g->log);
}

int grouped_data_lead(struct grouped *g, const struct member_lead *how, uint64_t *version,
		      struct error *err)
{
	struct data *d = g->s->data;
	const uint64_t least = life_first(data_life(d));
	int rc = data_lead(d, how->life, how->known.config.term, mirror_table(how->mirror), err);

	*version = *version > least ? *version : least;
	return rc || g->saving ? rc : serve(g, err);
}
