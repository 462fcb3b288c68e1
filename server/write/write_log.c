/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Writes that wait for the log.
 *
 * A door keeps them in one row, in the order of its decisions, and looks at the first only:
 *	FOR_LOG        its record has a place in the log. Once that is committed the store publishes
 *	               it; the reply is remembered; `oldest` goes on; the client is answered.
 *	FOR_WRITE      a refusal that was judged against a pending write, of whichever door.
 *	               It is remembered and told when that write is published: one who was refused
 *	               for version 5 must not read version 4 afterwards.
 *	FOR_FIRST_TRY  a request that came again while it is pending. It is told what its first try
 *	               is told.
 *
 * NO DEADLOCK. Decisions have an order in time, over all doors: each is made in a hold of a
 * bucket's lock or of a client's. What the first of a row waits for, apart from the log, was
 * decided before it: another write of its key (store_publish() says -EAGAIN), the write that it was
 * judged against, its first try. And that one waits behind others of its own door which were
 * decided still earlier. So of all that wait, the one that was decided first waits for the log
 * alone, and the log waits for no door, as a decision and log_append_end() are one step of a
 * thread.
 *
 * EXACTLY ONCE, over reconnects. From the decision until the reply is remembered the client's
 * request slot says `pending`, under the client's lock, and so does not depend on session, queue
 * pair or door: a fence takes nothing back, and a retry waits, by whichever worker it comes. The
 * client's entry is not forgotten while something is pending (clients.c). One whose answer nobody
 * wants any more (write_forsake()) goes the same way to its end.
 *
 * FROM WHERE A SNAPSHOT NEEDS THE LOG: S0 is the log's tail, read first, or the least `oldest` of
 * all doors, read after it, if that is less. Claim: every record below S0 is published and its
 * reply remembered before the second read ends. Take a record at position p that a door d has not
 * got that far, and a snapshot that read a tail above p. Before d appended it, d's `oldest` was at
 * most p: either it was that of one that waits before it, whose position is less, or the row was
 * empty and `oldest` was set to the tail as it was before the append (waiting_take()). It is raised
 * past p only after the reply was remembered (finish()), so the snapshot reads p or less in d:
 * appending moves the tail by a read-modify-write of at least acq_rel order, so that who reads a
 * tail above p has d's store before it; and so S0 <= p. Conversely who reads the raised `oldest`
 * (release) sees what was published. LOG_CLIENT and LOG_FORGET wait for nothing: clients/durable.c.
 *
 * NO ROOM. The row is a pool's; where as many wait as it has, the next write is told "not now".
 * Nothing that was appended can fail: store.h reserves before.
 */
#include "server/write/write_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/time.h"

#define POLL_MAX  256u /* answers of one poll: then the worker looks at its completions */
#define OTHERS_NS (200 * 1000ull) /* another worker is about to publish what is waited for */

static struct log *log_of(const struct write_door *d)
{
	return d->store->store->log;
}

/* What a snapshot may not pass. release: pairs with its read: what is below is published. seq_cst
 * with log_tail(), see above. */
static void set_oldest(struct write_door *d, uint64_t position)
{
	atomic_store_explicit(&d->oldest, position, memory_order_seq_cst);
}

struct write_waiting *waiting_take(struct write_door *d, const struct write *w)
{
	const struct write_request *ask = &w->ask;
	struct write_waiting *x = d->free;

	if (!x)
		return NULL;
	d->free = x->next;
	*x = (struct write_waiting){
		.decision = {
			.client = { ask->client->id[0], ask->client->id[1] },
			.sequence = ask->sequence,
			.handle = (uint8_t)ask->handle,
			.request_slot = (uint16_t)ask->slot,
			.pending = &x->pending,
		},
		.client = ask->client,
		.generation = ask->generation,
	};
	if (!d->first)
		set_oldest(d, log_tail(log_of(d)));
	assert(!d->store->decision);
	d->store->decision = &x->decision;
	return x;
}

static void give_back(struct write_door *d, struct write_waiting *x)
{
	x->next = d->free;
	d->free = x;
}

void waiting_end(struct write_door *d, const struct write *w, struct write_waiting *x)
{
	d->store->decision = NULL;
	if (w->waiting == x)
		return;
	give_back(d, x);
	if (!d->first)
		set_oldest(d, UINT64_MAX);
}

void waiting_join(struct write_door *d, struct write *w, struct write_waiting *x,
		  enum waiting_for what)
{
	const struct write_request *ask = &w->ask;

	x->what = what;
	x->write = w;
	x->next = NULL;
	if (what == FOR_LOG) {
		x->from = x->pending.place.start;
		x->until = x->pending.place.end;
		d->appended = true;
	} else { /* what it waits for was appended before */
		x->from = x->until = log_tail(log_of(d));
	}
	if (what != FOR_FIRST_TRY) {
		w->result.sequence = ask->sequence;
		client_pend(ask->client, ask->handle, ask->slot, ask->sequence);
		x->result = w->result;
	}
	w->waiting = x;
	if (d->first)
		d->last->next = x;
	else
		d->first = x;
	d->last = x;
}

/* The reply stands, whoever hears of it. */
static void remember(struct write_waiting *x)
{
	pthread_mutex_lock(&x->client->lock);
	client_settle(x->client, x->decision.handle, x->decision.request_slot, &x->result);
	pthread_mutex_unlock(&x->client->lock);
}

/* Whether the request's first try is over, or need not be waited for any more: x->result. */
static bool first_try_over(struct write_waiting *x)
{
	const struct client_reply *last;
	bool over = true;

	if (!x->write)
		return true; /* the client may be forgotten */
	pthread_mutex_lock(&x->client->lock);
	switch (client_check(x->client, x->generation, x->decision.handle, x->decision.request_slot,
			     x->decision.sequence, true, &last)) {
	case CLIENT_WAIT:
		over = false;
		break;
	case CLIENT_REPEAT:
		x->result = *last;
		x->write->repeated = true;
		break;
	case CLIENT_UNKNOWN:
		x->result.status = -EREMOTEIO;
		break;
	case CLIENT_STALE:
		x->result.status = -ESTALE;
		break;
	case CLIENT_APPLY:
		x->result.status = -EBUSY;
		break;
	}
	pthread_mutex_unlock(&x->client->lock);
	return over;
}

/* Whether the first that waits is done with: published, and remembered. */
static bool finish(struct write_door *d, struct write_waiting *x, uint64_t committed)
{
	if (x->what == FOR_FIRST_TRY)
		return first_try_over(x);
	if (x->what == FOR_LOG) {
		if (x->until > committed && !MUTANT(publish_before_commit))
			return false;
		if (store_publish(d->store, &x->pending))
			return false;
	} else if (store_is_pending(d->store->store, x->decision.awaits_hash, x->decision.awaits)) {
		return false;
	}
	remember(x);
	return true;
}

bool write_poll(struct write_door *d)
{
	struct write_waiting *x = d->first;
	unsigned done = 0;
	uint64_t committed;

	if (!x)
		return false;
	log_step(log_of(d));
	committed = log_committed(log_of(d));
	for (; x && done < POLL_MAX && finish(d, x, committed); x = d->first, done++) {
		struct write *w = x->write;

		d->first = x->next;
		set_oldest(d, d->first ? d->first->from : UINT64_MAX);
		if (w) {
			w->result = x->result;
			w->waiting = NULL;
		}
		give_back(d, x);
		if (w)
			d->answer(d, w);
	}
	return done;
}

void write_flush(struct write_door *d)
{
	if (!d->appended)
		return;
	d->appended = false;
	if (d->first)
		log_push(log_of(d));
	else /* what it has appended nobody waits for */
		log_kick(log_of(d));
}

uint64_t write_sleep(struct write_door *d)
{
	struct write_waiting *x = d->first;
	const uint64_t until_ns = log_of(d) ? log_leave(log_of(d), x) : UINT64_MAX;

	if (!x)
		return until_ns;
	if (log_committed(log_of(d)) >= x->until || log_has_failed(log_of(d)))
		return OTHERS_NS;
	return log_wait_arm(log_of(d), &d->waiter, x->until) ? UINT64_MAX : 0;
}

void write_rest(struct write_door *d)
{
	if (log_of(d) && !d->first)
		log_leave(log_of(d), false);
}

void write_woke(struct write_door *d)
{
	eventfd_t count;

	if (!log_of(d))
		return;
	log_wait_disarm(&d->waiter);
	eventfd_read(d->waiter.fd, &count); /* nothing may have come: it does not block */
}

void write_forsake(struct write *w)
{
	if (w->waiting)
		w->waiting->write = NULL;
	w->waiting = NULL;
}

int write_door_open(struct write_door *d, unsigned writes, struct error *err)
{
	set_oldest(d, UINT64_MAX);
	d->waiter.fd = -1;
	if (!log_of(d))
		return 0;
	d->pool = calloc(writes, sizeof(*d->pool));
	if (!d->pool)
		return error_set(err, -ENOMEM, "out of memory for %u writes that wait for the log",
				 writes);
	for (unsigned i = 0; i < writes; i++)
		give_back(d, &d->pool[i]);
	d->waiter.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->waiter.fd < 0) {
		int rc = -errno;

		free(d->pool);
		d->pool = NULL;
		return error_set(err, rc,
				 "no eventfd for a worker to wait for the log: %s (raise the limit "
				 "of open files: ulimit -n)",
				 error_name(rc));
	}
	atomic_store_explicit(&d->waiter.wants, UINT64_MAX, memory_order_relaxed); /* no reader */
	log_wait_join(log_of(d), &d->waiter);
	return 0;
}

void write_door_close(struct write_door *d)
{
	if (!d->pool)
		return;
	log_wait_leave(log_of(d), &d->waiter);
	close(d->waiter.fd);
	free(d->pool);
	d->pool = d->free = d->first = NULL;
}

uint64_t write_first_unpublished(const struct log *log, const struct write_door *const *doors,
				 unsigned count)
{
	uint64_t first = log_tail(log);

	for (unsigned i = 0; i < count; i++) {
		/* seq_cst: after the tail, in one order with what doors store and append */
		uint64_t oldest = atomic_load_explicit(&doors[i]->oldest, memory_order_seq_cst);

		if (oldest < first)
			first = oldest;
	}
	return first;
}
