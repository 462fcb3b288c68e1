/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The table in log and snapshot.
 *
 * A snapshot replays the log from S0 on, a position that was read before clients_walk(). What a
 * LOG_CLIENT below S0 has told is seen by the walk: the record was appended and `logged` set in one
 * hold of the entry's lock, and the walk takes that lock later. What was forgotten between S0 and
 * the walk is not seen, or seen as of after it; LOG_FORGET and LOG_CLIENT above S0 then begin the
 * client from nothing, and the replies that follow in the log are all of those that count.
 */
#include "server/clients/clients_internal.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"

#define SLOTS_ALL (SESSION_QPS_MAX * RPC_SLOTS_MAX) /* of one client, at most */

void clients_log(struct clients *c, struct log *log)
{
	pthread_mutex_lock(&c->lock);
	c->log = log;
	pthread_mutex_unlock(&c->lock);
}

int client_log(struct client_entry *e, struct log *log)
{
	const struct log_entry entry = { .kind = LOG_CLIENT,
					 .client = { e->id[0], e->id[1] },
					 .version = e->first_sequence };
	struct log_place place;
	int rc;

	if (e->logged)
		return 0;
	rc = log_append_begin(log, 0, 0, &place);
	if (rc)
		return rc;
	log_append_end(log, &place, &entry);
	e->logged = true;
	return 0;
}

int clients_restore(struct clients *c, const uint64_t id[2], uint64_t first_sequence, bool first)
{
	struct client_entry *e;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	e = clients_find(c, id);
	if (e && first)
		clients_drop(c, e);
	if (!e || first) {
		rc = clients_add(c, id, first_sequence, &e);
		if (rc == 0) {
			e->logged = true;
			e->left_ns = time_now_ns();
		}
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int clients_restore_reply(struct clients *c, const uint64_t id[2], unsigned handle, unsigned slot,
			  const struct client_reply *reply)
{
	struct client_entry *e;
	int rc = 0;

	if (handle >= SESSION_QPS_MAX || slot >= RPC_SLOTS_MAX)
		return -EINVAL;
	pthread_mutex_lock(&c->lock);
	e = clients_find(c, id);
	if (e)
		rc = client_queue_pair(e, handle, slot + 1);
	if (e && rc == 0 && reply->sequence >= e->replies[handle][slot].sequence)
		e->replies[handle][slot] = *reply;
	if (e)
		e->left_ns = time_now_ns();
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void clients_restore_forget(struct clients *c, const uint64_t id[2])
{
	struct client_entry *e;

	pthread_mutex_lock(&c->lock);
	e = clients_find(c, id);
	if (e)
		clients_drop(c, e);
	pthread_mutex_unlock(&c->lock);
}

/* The ids of all clients, to be looked up one by one. */
struct ids {
	unsigned count;
	uint64_t id[CLIENTS_MAX][2];
};

static void take_id(const void *node, VISIT which, void *closure)
{
	const struct client_entry *e = *(struct client_entry *const *)node;
	struct ids *ids = closure;

	if (which == postorder || which == leaf)
		memcpy(ids->id[ids->count++], e->id, sizeof(e->id));
}

static struct snapshot_client item_of(const struct client_entry *e, unsigned handle, unsigned slot,
				      const struct client_reply *r)
{
	return (struct snapshot_client){
		.client = { e->id[0], e->id[1] },
		.first_sequence = e->first_sequence,
		.sequence = r->sequence,
		.version = r->version,
		.expiry_ms = r->expiry_ms,
		.number = r->number,
		.value_len = r->value_len,
		.status = r->status,
		.handle = (uint16_t)handle,
		.slot = (uint16_t)slot,
	};
}

/* Must hold the entry's lock. Returns how many items there are, at most SLOTS_ALL. */
static unsigned take_replies(const struct client_entry *e, struct snapshot_client *items)
{
	const struct client_reply none = { 0 };
	unsigned count = 0;

	if (!e->logged)
		return 0;
	for (unsigned handle = 0; handle < SESSION_QPS_MAX; handle++) {
		for (unsigned slot = 0; slot < e->slots[handle]; slot++) {
			const struct client_reply *r = &e->replies[handle][slot];

			if (r->sequence && !r->pending)
				items[count++] = item_of(e, handle, slot, r);
		}
	}
	if (!count)
		items[count++] = item_of(e, 0, 0, &none);
	return count;
}

/* What the client @id, if it is there, has in a snapshot. */
static unsigned take_client(struct clients *c, const uint64_t id[2], struct snapshot_client *items)
{
	struct client_entry *e;
	unsigned count = 0;

	pthread_mutex_lock(&c->lock);
	e = clients_find(c, id);
	if (e) {
		pthread_mutex_lock(&e->lock);
		count = take_replies(e, items);
		pthread_mutex_unlock(&e->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return count;
}

int clients_walk(struct clients *c,
		 int (*each)(void *ctx, const struct snapshot_client *items, unsigned count),
		 void *ctx)
{
	struct snapshot_client *items = malloc(SLOTS_ALL * sizeof(*items));
	struct ids *ids = malloc(sizeof(*ids));
	int rc = items && ids ? 0 : -ENOMEM;

	if (rc == 0) {
		ids->count = 0;
		pthread_mutex_lock(&c->lock);
		twalk_r(c->tree, take_id, ids);
		pthread_mutex_unlock(&c->lock);
		for (unsigned i = 0; i < ids->count && rc == 0; i++) {
			unsigned count = take_client(c, ids->id[i], items);

			rc = count ? each(ctx, items, count) : 0;
		}
	}
	free(ids);
	free(items);
	return rc;
}
