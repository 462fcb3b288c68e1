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
 * With a log (log.h) all this survives a restart. The record of a client's write brings its reply
 * along; LOG_CLIENT stands before the first one of them, and begins the client from nothing. So
 * clients that only read cost the log nothing and need no room on the disk, and LOG_FORGET saves
 * memory after a restart but decides nothing: where the log has no place for it a client is
 * forgotten all the same. Refusals are in snapshots only: a refusal that is lost was never heard,
 * and what is judged in its place is the one verdict that the client gets.
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
#include "common/layout/snapshot_format.h"
#include "server/log/log.h"

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
	bool pending; /* decided, and waits for the log: nothing else but `sequence` is there yet */
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
	unsigned pending; /* its writes that wait for the log: it is not forgotten. Under lock */
	bool logged; /* the log, or the snapshot before it, knows the client. Under lock */
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

/*
 * clients_log - from now on the table tells @log whom it forgets; and client_log() whom it knows.
 * No session is there. NULL: none.
 * client_log - must hold the entry's lock, before the client's first write is appended: LOG_CLIENT.
 * Returns 0, also where the log knows the client; or what log_append_begin() does. Any thread.
 */
void clients_log(struct clients *c, struct log *log);
int client_log(struct client_entry *e, struct log *log);

/*
 * Recovery, by one thread, in the order of the log; clients_log() was not called yet. Snapshot
 * first: clients_restore() and clients_restore_reply() for each of its items. Then of each record:
 * LOG_CLIENT: clients_restore(), which begins with nothing remembered; LOG_FORGET:
 * clients_restore_forget(); LOG_PUT and LOG_DEL of a client: clients_restore_reply() with version,
 * number, expiry_ms and value_len, status and index_slot 0. A reply goes over an older sequence
 * only, and one of a client that is not known is left out. @first: false, of a snapshot's items:
 * one that is known stays as it is.
 * They return 0; -ENOMEM; -EINVAL: no such queue pair or request slot can be.
 */
int clients_restore(struct clients *c, const uint64_t id[2], uint64_t first_sequence, bool first);
int clients_restore_reply(struct clients *c, const uint64_t id[2], unsigned handle, unsigned slot,
			  const struct client_reply *reply);
void clients_restore_forget(struct clients *c, const uint64_t id[2]);

/*
 * clients_walk - for a snapshot: the replies of each client that the log knows, @count of them in
 * @items; one with sequence 0 stands for none. Pending ones are left out. Those whom the table
 * knows from the beginning to the end are seen, others may be. @each is called without a lock, and
 * may sleep; another value than 0 ends the walk. Returns 0, that value, or -ENOMEM. One thread at a
 * time; which need not be a worker.
 */
int clients_walk(struct clients *c,
		 int (*each)(void *ctx, const struct snapshot_client *items, unsigned count),
		 void *ctx);

/* clients_detach - its session has gone. The entry stays known until it gives way. */
void clients_detach(struct clients *c, struct client_entry *e);

/*
 * client_queue_pair - room for the replies of queue pair @handle with @slots request slots; what
 * is remembered stays. Returns 0 or -ENOMEM.
 */
int client_queue_pair(struct client_entry *e, unsigned handle, unsigned slots);

enum client_verdict {
	CLIENT_APPLY, /* new: apply it, then client_store() under the same hold */
	CLIENT_WAIT, /* its first try is pending: ask again when it is not */
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
		return last->pending ? CLIENT_WAIT : CLIENT_REPEAT;
	}
	if (sequence < last->sequence)
		return retry ? CLIENT_UNKNOWN : CLIENT_STALE;
	if (retry && sequence < e->first_sequence)
		return CLIENT_UNKNOWN;
	return CLIENT_APPLY;
}

/*
 * A write that waits for the log. Both must hold the entry's lock.
 * client_pend - in place of client_store(), after CLIENT_APPLY: the request is decided. What was
 * remembered of its slot goes: the client has that reply, or it would not have used the slot.
 * client_settle - it is published, and @reply stands. The client may have given the request up and
 * used the slot again, in which case nothing is remembered.
 */
static inline void client_pend(struct client_entry *e, unsigned handle, unsigned slot,
			       uint64_t sequence)
{
	e->pending++;
	if (!MUTANT(forget_reply))
		e->replies[handle][slot] =
			(struct client_reply){ .sequence = sequence, .pending = true };
}

static inline void client_settle(struct client_entry *e, unsigned handle, unsigned slot,
				 const struct client_reply *reply)
{
	struct client_reply *last = &e->replies[handle][slot];

	e->pending--;
	if (last->pending && last->sequence == reply->sequence)
		*last = *reply;
}

/* client_store - must hold the entry's lock, after CLIENT_APPLY. */
static inline void client_store(const struct client_entry *e, unsigned handle, unsigned slot,
				const struct client_reply *reply)
{
	if (!MUTANT(forget_reply))
		e->replies[handle][slot] = *reply;
}
