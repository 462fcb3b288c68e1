/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Exactly once. The server remembers, for each client id, the last reply of each request slot of
 * each queue pair, across sessions. A slot carries one request at a time and sequences grow, so a
 * request that repeats the remembered sequence gets the remembered reply, and one with a greater
 * sequence acknowledges the one before it.
 *
 * A retry whose sequence lies below `first_sequence` was issued before this server came to know
 * the client: whether it was applied, nobody knows, and it is answered "outcome unknown".
 *
 * Locks: an entry's mutex is held while a worker checks the generation, looks for a remembered
 * reply, applies the write and stores the reply: one step as seen by the thread that fences the
 * session. It is one client's own; the table's mutex is the control thread's side only. Order:
 * table, entry, then the bucket's lock (store.h).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/mutant.h"
#include "common/layout/limits.h"

#define CLIENTS_MAX 4096u /* ids remembered; the longest absent one gives way */

/* A remembered reply. sequence 0: none yet. */
struct client_reply {
	uint64_t sequence;
	uint64_t version;
	uint64_t index_slot;
	uint64_t expiry_ms;
	int64_t number;
	uint32_t incarnation;
	uint32_t value_len;
	int32_t status;
};

struct client_entry {
	pthread_mutex_t lock;
	uint64_t id[2];
	uint64_t generation; /* of the session that may write; 0: none. Under lock */
	uint64_t first_sequence; /* under lock */
	/* Of each queue pair: the last reply of each request slot. Under lock. */
	struct client_reply *replies[SESSION_QPS_MAX];
	uint8_t slots[SESSION_QPS_MAX];
	_Atomic uint64_t fences; /* of its sessions. Control thread; anyone reads */
	bool connected; /* under the table's mutex */
	uint64_t left_ns; /* when it disconnected. Under the table's mutex */
};

struct clients;

int clients_create(struct clients **out);
void clients_destroy(struct clients *c);

/*
 * clients_attach - a session of client @id begins. The caller has fenced its older session.
 * @resumed: whether the id was known. Returns 0, -ENOMEM, -EUSERS (all ids are connected).
 */
int clients_attach(struct clients *c, const uint64_t id[2], uint64_t generation,
		   uint64_t first_sequence, struct client_entry **out, bool *resumed);

/* clients_detach - its session has gone. The entry stays known until it gives way. */
void clients_detach(struct clients *c, struct client_entry *e);

/*
 * client_queue_pair - room for the replies of queue pair @handle with @slots request slots; what
 * is remembered stays. Returns 0 or -ENOMEM.
 */
int client_queue_pair(struct client_entry *e, unsigned handle, unsigned slots);

enum client_verdict {
	CLIENT_APPLY, /* new: apply it, then client_store() under the same hold */
	CLIENT_REPEAT, /* answered before: @reply is what was said */
	CLIENT_UNKNOWN, /* a retry that nobody remembers: -EREMOTEIO */
	CLIENT_STALE, /* the generation is not current, or the sequence went backwards */
};

/* client_check - must hold the entry's lock. @retry: it may have been sent before. */
static inline enum client_verdict client_check(const struct client_entry *e, uint64_t generation,
					       unsigned handle, unsigned slot, uint64_t sequence,
					       bool retry, const struct client_reply **reply)
{
	const struct client_reply *last = &e->replies[handle][slot];

	if (e->generation != generation)
		return CLIENT_STALE;
	if (last->sequence == sequence) {
		*reply = last;
		return CLIENT_REPEAT;
	}
	if (sequence < last->sequence)
		return retry ? CLIENT_UNKNOWN : CLIENT_STALE;
	if (retry && sequence < e->first_sequence)
		return CLIENT_UNKNOWN;
	return CLIENT_APPLY;
}

/* client_store - must hold the entry's lock, after CLIENT_APPLY. */
static inline void client_store(const struct client_entry *e, unsigned handle, unsigned slot,
				const struct client_reply *reply)
{
	if (!MUTANT(forget_reply))
		e->replies[handle][slot] = *reply;
}
