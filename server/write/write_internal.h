/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What write.c and write_log.c share. The door's thread. */
#include "server/write/write.h"

/* What one that waits waits for. */
enum waiting_for {
	FOR_LOG, /* its record to be committed, and to be the next of its key */
	FOR_WRITE, /* another write, which its refusal was judged against, to be published */
	FOR_FIRST_TRY, /* the same request, which came before, to be answered */
};

/* A write that is not answered yet: its own memory may go meanwhile (write_forsake()). */
struct write_waiting {
	struct write_waiting *next; /* of the pool, or of those that wait */
	enum waiting_for what;
	uint64_t from; /* no record that the door decides from here on has a lower position */
	uint64_t until; /* all that it waits for is below, of the log */
	struct store_pending pending;
	struct store_decision decision; /* who asked, too */
	struct client_entry *client;
	uint64_t generation;
	struct client_reply result; /* what is remembered */
	struct write *write; /* whose answer it is; NULL: nobody's */
};

/*
 * waiting_take - for a write that is about to be decided: d->store->decision is its own until
 * waiting_end(). Returns NULL where as many wait as can; then waiting_end() is not called.
 * waiting_end - the decision was made; what did not join those that wait goes back to the pool.
 * waiting_join - must hold the client's lock. The write is in the log, or its answer has to wait:
 * @what. w->result stands, but for FOR_FIRST_TRY.
 */
struct write_waiting *waiting_take(struct write_door *d, const struct write *w);
void waiting_end(struct write_door *d, const struct write *w, struct write_waiting *x);
void waiting_join(struct write_door *d, struct write *w, struct write_waiting *x,
		  enum waiting_for what);
