/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Epochs on the client's side (DESIGN 5.2, 5.3, 5.6, 5.7; the proof is the model pin.pml).
 *
 * The server unlinks a batch of blocks, then raises E from r to r + 1, and reuses the blocks when
 * each session's slot shows an epoch greater than r, or the session is fenced. So to announce e is
 * to say: no section of ours may still READ what was unlinked before E became e.
 *
 *	a section				a round of the housekeeper
 *	p = newest (acquire)			READ E, poll its completion: v
 *	pin = p					full fence
 *	full fence				check the number; newest = max(newest, v)
 *	READ bucket, poll, READ block, poll	scan all pins
 *	pin = 0 (release)			e = max(last, min(v, lowest pin)); last = e
 *						WRITE the slot with e
 *
 * Guarantees, of one connection:
 * 1. What is announced while a section is open is at most an epoch that E had reached before the
 *    section posted its first READ. So all that the server may reuse on the strength of it was
 *    unlinked before that READ, which cannot have found it. (I1)
 * 2. Announcements never go backwards and never pass E. (I3)
 * 3. What was announced over a lost connection means nothing to the next one, and the other way
 *    round.
 *
 * Why 1 holds. Take the first round that announces an e greater than the pin p of an open section.
 * Had its scan seen p, then e would be max(last, something at most p), and last, of an earlier
 * round, is at most p: a contradiction. So its scan missed the pin. The section's fence stands
 * between the store of the pin and its first READ, and the round's READ of E was complete before
 * the scan (READs complete in no order with what follows unless they are polled); so the section's
 * READ was posted after E had reached v, and e is at most v. Rounds after it see the pin, and
 * announce max(e, at most p), which is e: 1 holds on. While what is announced is at most p, it is
 * an epoch of which some READ completed before the section stored it as its pin. Three things would
 * break this, and are mutants: no fence; a scan before the completion; newest loaded again after
 * the scan, by which a second ticker could slip a later epoch in (hence one lock around a round).
 *
 * Why 2 holds. v is a value that E had, and so is every pin, and last. Without max(last, ...) an
 * honest client would go backwards: a section may load newest, be put to sleep, and store it as its
 * pin when more was announced; by the above that pin needs no less than what was announced.
 *
 * Why 3 holds. A connection's number, last and newest are replaced in epochs_reset(), under lock,
 * while the one that connects holds the session's lock and no queue pair of the new connection
 * exists. A round whose READ went over an older queue pair finds another number, under the same
 * lock, and is abandoned: a server that restarted counts from the start, and an E of its
 * earlier life would be one that it never had. A pin that an old section left is no danger either:
 * that section's queue pair is gone at the server, which fences the old session before it answers
 * with a WELCOME, so its READs fail, and it starts again (5.7). Until it notices, its pin can only
 * lower what is announced, never below the WELCOME's epoch. If it is greater than all of the new
 * life's epochs, min(v, pin) is v.
 *
 * LANES. Sections of one handle that are open at once share its word, which shows the pin of the
 * oldest. Each loads newest (acquire) before it posts, and records that as its pin. Newest only
 * grows within a connection, so the word is never above the pin of an open section. The first one's
 * store and full fence stand before all posts of those that opened beside it: a round whose scan
 * missed the word READ its E before any of their READs was posted, and every later scan sees that
 * store or one after it. When the oldest closes the word becomes the pin that the next one
 * recorded, by one store: an epoch of which a READ had completed before that one posted anything.
 * So 1 holds on. One that opens beside others stores nothing, hence needs no fence; newest of now
 * would be above the pins of some, and 0 would hide them. All end before a handle gets another
 * queue pair: a word of an earlier life of the server may be above all pins of this one. (pin.pml
 * and recut.pml, V_LANES)
 *
 * HINTS have an age, which a round raises where hint_floor has grown; what h says then, and why, is
 * in hints.c.
 *
 * The slot is WRITTEN outside the lock. A connection may be lost in between: the WRITE goes to the
 * slot of its own connection then, whose queue pair is dead.
 */
#include "client/src/link/epochs.h"

#include <errno.h>

/* The READ of E was polled before; what follows looks at pins. Pairs with epochs_pin(). */
static void barrier_epoch_before_pins(void)
{
#ifndef EPOCHS_TSAN
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

void epochs_init(struct epochs *ep, struct hints *hints)
{
	pthread_mutex_init(&ep->lock, NULL);
	ep->hints = hints && hints->set ? hints : NULL;
}

void epochs_destroy(struct epochs *ep)
{
	pthread_mutex_destroy(&ep->lock);
}

void epochs_reset(struct epochs *ep, uint64_t number, uint64_t epoch, bool same_life)
{
	pthread_mutex_lock(&ep->lock);
	ep->number = number;
	if (!same_life) {
		ep->floor = ep->since = ep->oldest = 0;
		if (ep->hints)
			hints_drop_all(ep->hints);
	}
	/* release pairs with epochs_pin(); handles of this connection are attached later anyhow */
	atomic_store_explicit(&ep->newest, epoch, memory_order_release);
	/* relaxed: under the lock; readers without it only show it */
	atomic_store_explicit(&ep->announced, epoch, memory_order_relaxed);
	pthread_mutex_unlock(&ep->lock);
}

uint64_t epochs_calls(const struct epochs *ep)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < SESSION_HANDLES_MAX; i++)
		sum += atomic_load_explicit(&ep->pin[i].calls, memory_order_relaxed); /* a hint */
	return sum;
}

uint64_t epochs_lowest(const struct epochs *ep)
{
	uint64_t lowest = UINT64_MAX;

	for (unsigned i = 0; i < SESSION_HANDLES_MAX; i++) {
		/* acquire pairs with epochs_unpin(): the section's READs before our announcement */
		uint64_t pin = atomic_load_explicit(&ep->pin[i].epoch, memory_order_acquire);

		if (pin && pin < lowest)
			lowest = pin;
	}
	return lowest;
}

/* Must hold the lock. Newest is of this round, its pins are not looked at yet. */
static void follow_floor(struct epochs *ep, uint64_t floor)
{
	if (!ep->hints || floor <= ep->floor)
		return;
	ep->floor = floor;
	ep->since = atomic_load_explicit(&ep->newest, memory_order_relaxed); /* under the lock */
	if (!MUTANT(ignore_floor))
		hints_drop_all(ep->hints);
}

/* Must hold the lock. @e: what is announced; @lowest: of the pins. */
static uint64_t oldest_hint(struct epochs *ep, uint64_t e, uint64_t lowest)
{
	if (!ep->hints)
		ep->oldest = e;
	else if ((ep->since < lowest || MUTANT(tell_early)) && ep->floor > ep->oldest)
		ep->oldest = ep->floor;
	return ep->oldest;
}

int epochs_announce(struct epochs *ep, uint64_t number, uint64_t v, uint64_t floor, uint64_t lowest,
		    struct announcement *out)
{
	uint64_t e, last;

	pthread_mutex_lock(&ep->lock);
	if (ep->number != number) {
		pthread_mutex_unlock(&ep->lock);
		return -ESTALE;
	}
	/* relaxed loads: written under the lock. release pairs with epochs_pin() */
	if (v > atomic_load_explicit(&ep->newest, memory_order_relaxed))
		atomic_store_explicit(&ep->newest, v, memory_order_release);
	last = atomic_load_explicit(&ep->announced, memory_order_relaxed);
	follow_floor(ep, floor);
	barrier_epoch_before_pins(); /* and the age before pins: hints.c */
	if (!lowest)
		lowest = epochs_lowest(ep);
	e = v < lowest || MUTANT(announce_newest) ? v : lowest;
	if (e < last)
		e = last;
	atomic_store_explicit(&ep->announced, e, memory_order_relaxed); /* as above */
	*out = (struct announcement){ e, oldest_hint(ep, e, lowest) };
	pthread_mutex_unlock(&ep->lock);
	return 0;
}
