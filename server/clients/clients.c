/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/clients/clients_internal.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"

int clients_compare(const void *a, const void *b)
{
	return memcmp(((const struct client_entry *)a)->id, ((const struct client_entry *)b)->id,
		      sizeof(((const struct client_entry *)a)->id));
}

static void entry_free(void *p)
{
	struct client_entry *e = p;

	for (unsigned i = 0; i < SESSION_QPS_MAX; i++)
		free(e->replies[i]);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

int clients_create(struct clients **out)
{
	struct clients *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	pthread_mutex_init(&c->lock, NULL);
	*out = c;
	return 0;
}

void clients_destroy(struct clients *c)
{
	if (!c)
		return;
	tdestroy(c->tree, entry_free);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* Whether a write of its last session waits for the log. */
static bool waits(struct client_entry *e)
{
	bool pending;

	pthread_mutex_lock(&e->lock);
	pending = e->pending;
	pthread_mutex_unlock(&e->lock);
	return pending;
}

static void find_oldest(const void *node, VISIT which, void *closure)
{
	struct clients *c = closure;
	struct client_entry *e = *(struct client_entry *const *)node;

	if ((which == postorder || which == leaf) && !e->connected &&
	    (!c->oldest || e->left_ns < c->oldest->left_ns) && !waits(e))
		c->oldest = e;
}

/* Must hold the table's lock. The log has a place for it, or it need not know: clients.h. */
static void log_forget(struct clients *c, const struct client_entry *e)
{
	const struct log_entry entry = { .kind = LOG_FORGET, .client = { e->id[0], e->id[1] } };
	struct log_place place;

	if (!c->log || !e->logged || log_append_begin(c->log, 0, 0, &place))
		return;
	log_append_end(c->log, &place, &entry);
	log_kick(c->log);
}

/* Must hold the table's lock. Nobody else has it. */
void clients_drop(struct clients *c, struct client_entry *e)
{
	tdelete(e, &c->tree, clients_compare);
	entry_free(e);
	c->count--;
}

/* Must hold the table's lock. Forget the client that has been away the longest. */
static int give_way(struct clients *c)
{
	c->oldest = NULL;
	twalk_r(c->tree, find_oldest, c);
	if (!c->oldest)
		return -EUSERS;
	log_forget(c, c->oldest);
	clients_drop(c, c->oldest);
	return 0;
}

int clients_add(struct clients *c, const uint64_t id[2], uint64_t first_sequence,
		struct client_entry **out)
{
	struct client_entry *e;
	int rc = 0;

	if (c->count >= CLIENTS_MAX)
		rc = give_way(c);
	if (rc)
		return rc;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	memcpy(e->id, id, sizeof(e->id));
	e->first_sequence = first_sequence;
	pthread_mutex_init(&e->lock, NULL);
	if (!tsearch(e, &c->tree, clients_compare)) {
		entry_free(e);
		return -ENOMEM;
	}
	c->count++;
	*out = e;
	return 0;
}

struct client_entry *clients_find(struct clients *c, const uint64_t id[2])
{
	struct client_entry key = { .id = { id[0], id[1] } }, **found;

	found = tfind(&key, &c->tree, clients_compare);
	return found ? *found : NULL;
}

int clients_attach(struct clients *c, const uint64_t id[2], uint64_t generation,
		   uint64_t first_sequence, struct client_entry **out, bool *resumed)
{
	struct client_entry *e;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	e = clients_find(c, id);
	*resumed = e;
	if (!e)
		rc = clients_add(c, id, first_sequence, &e);
	if (rc == 0) {
		e->connected = true;
		pthread_mutex_lock(&e->lock);
		e->generation = generation;
		pthread_mutex_unlock(&e->lock);
		*out = e;
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void clients_detach(struct clients *c, struct client_entry *e)
{
	pthread_mutex_lock(&c->lock);
	pthread_mutex_lock(&e->lock);
	e->generation = 0;
	pthread_mutex_unlock(&e->lock);
	e->connected = false;
	e->left_ns = time_now_ns();
	pthread_mutex_unlock(&c->lock);
}

int client_queue_pair(struct client_entry *e, unsigned handle, unsigned slots)
{
	struct client_reply *grown;
	int rc = 0;

	pthread_mutex_lock(&e->lock);
	if (slots > e->slots[handle]) {
		grown = realloc(e->replies[handle], slots * sizeof(*grown));
		if (grown) {
			memset(grown + e->slots[handle], 0,
			       (slots - e->slots[handle]) * sizeof(*grown));
			e->replies[handle] = grown;
			e->slots[handle] = (uint8_t)slots;
		} else {
			rc = -ENOMEM;
		}
	}
	pthread_mutex_unlock(&e->lock);
	return rc;
}
