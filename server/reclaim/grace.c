/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Epochs (DESIGN 5; tests/model/rqsbr.pml, pin.pml).
 *
 * A client opens a section by pinning the newest E that it has READ, and its housekeeper announces
 * in the session's slot an epoch at or below every pin. So e says: no section of mine that began
 * before epoch e is open. The reclaimer
 *	1. takes what was unlinked;
 *	2. full barrier; r = E; E = r + 1;
 *	3. waits until each session's slot shows e > r, or the session was fenced;
 *	4. reuses the memory.
 *
 * WHY NO SECTION IS LEFT THAT COULD REACH IT. A section with a pin above r began after its client
 * had READ an E above r, hence after the unlinking (2), and what it READs first is a bucket: it
 * finds the memory unlinked. (Nothing found in an earlier section is followed but hints, which
 * carry an incarnation, and directory entries, which carry one too: a segment is marked MOVED in
 * every header before it is unlinked, and its next life has another incarnation.) A section with
 * a pin at or below r is waited for, since e does not pass its pin while it is open. The client's
 * half of the argument, why e does not, stands in client/src/link/epochs.c.
 *
 * THE SLOT is written by an RDMA WRITE of 64 bytes whose aligned words are whole but may come in
 * any order. e counts where ~e stands beside it and the generation is the session's; anything
 * else is a slot that is just being written, and the last sound announcement stays true, for
 * announcements only grow. The acquire loads pair with the client's order: its sections' READs
 * completed before it posted the WRITE. What follows the look, the reuse, cannot be seen by those
 * READs. h is a word of its own: no hint that was learnt in a section with a pin below it is
 * held.
 *
 * ORDER OF THE LOOKS. A slot is loaded before E: then an honest e is never above it.
 *
 * A SESSION THAT COMES joins the list before its WELCOME is sent, with e = E. The reclaimer looks
 * at the list under the lock: if it does not find the session there, then the session's READs
 * come after this look, hence after the unlinking. If it does, e may be r or r + 1; in the second
 * case E was loaded after (2), and so the READs come after the unlinking.
 *
 * WITHOUT A QUEUE PAIR a session can READ nothing: it is not waited for, and need not beat. It is
 * waited for again before its next queue pair is made, from the E of then on (`came`), whatever
 * its slot says: memory of earlier epochs was unlinked before the queue pair was there, so the
 * argument above holds with "the queue pair came" for "E was READ".
 *
 * A SESSION THAT GOES is left out after its queue pairs were destroyed and its slot was
 * deregistered (I4), never because time has passed: a READ that is posted may execute long after
 * any lease. A lease only tells when to begin with that.
 *
 * HINTS (tests/model/recut.pml). A client that remembers where a block was READs it in a later
 * section. Blocks of one slab are guarded by their incarnations as long as the slab keeps its
 * format. Before it is cut for another class, every session that has queue pairs must have
 * announced an h at or above the epoch in which it fell empty, and hint_floor must stand there.
 * Looking at all h and raising hint_floor is one hold of the lock under which a session begins to
 * be waited for. What a client with hints has to keep to:
 *  - a hint that a section has taken counts as held until that section closes, however new its
 *    pin is; so h follows when a scan has found every pin above the newest epoch of the drop;
 *  - hints may be kept while the session has no queue pair, and over a reconnect; then none is
 *    used before the housekeeper has made a round that began after the queue pair was there, and
 *    dropped what is older than the hint_floor that it READ;
 *  - a hint is remembered with the pin of the section in which it was learnt, before that pin goes
 *    and only if the section's connection is still the session's; it is taken after the pin.
 * A client that holds none announces h = e.
 *
 * ASKED TO DROP THEM a client that is at work all the time needs two things to get there, as one of
 * its sections is open whenever it looks:
 *  - an epoch that is newer than that of its drop, or no pin ever is. Where nothing is written none
 *    ends, so the reclaimer ends one without a batch, once all who are behind have announced the
 *    present one, and again: at first they may not have dropped anything yet. To end an epoch too
 *    many does no harm: what is stamped with it, if anything, is what was unlinked before.
 *  - that it is not asked for more meanwhile: its wait starts over with each drop. So hint_floor
 *    is raised again when all have followed it; a slab that fell empty later waits for two drops.
 * A client that was asked for longer than the section limit, and has not followed, is fenced while
 * memory is short.
 *
 * FENCES are the CPU's. Slots are written, and E is read, by the device; on x86-64 it sees stores
 * in their order. Where devices are outside of the CPUs' coherence order these fences must be the
 * device's (as in rdma-core's udma barriers); nothing else here changes.
 */
#include "server/reclaim/grace.h"

#include <stddef.h>

#include "common/base/mutant.h"
#include "server/reclaim/qsbr.h"

#define EPOCH_FIRST 1u

/* Unlinking before E, for remote readers; see worker.c for why TSan does without. */
static void barrier_unlink_before_epoch(void)
{
#ifndef QSBR_TSAN
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

void grace_init(struct grace *g)
{
	atomic_init(&g->own, EPOCH_FIRST);
	atomic_init(&g->word, &g->own);
	g->hint_floor = NULL;
	pthread_mutex_init(&g->lock, NULL);
	CDS_INIT_LIST_HEAD(&g->sessions);
}

void grace_destroy(struct grace *g)
{
	pthread_mutex_destroy(&g->lock);
}

static _Atomic uint64_t *word(const struct grace *g)
{
	/* acquire pairs with grace_set_root() */
	return atomic_load_explicit(&g->word, memory_order_acquire);
}

void grace_set_root(struct grace *g, struct root *root)
{
	_Atomic uint64_t *to = root ? &root->epoch : &g->own;

	pthread_mutex_lock(&g->lock);
	/* relaxed: the reclaimer advances under the lock, and release below publishes it */
	atomic_store_explicit(to, atomic_load_explicit(word(g), memory_order_relaxed),
			      memory_order_relaxed);
	atomic_store_explicit(&g->word, to, memory_order_release); /* pairs with word() */
	g->hint_floor = root ? &root->hint_floor : NULL;
	pthread_mutex_unlock(&g->lock);
}

uint64_t grace_now(const struct grace *g)
{
	/* acquire: whoever shows an epoch above r comes after what was unlinked in r */
	return atomic_load_explicit(word(g), memory_order_acquire);
}

/* must hold the lock: the root may come or go. Returns the epoch that ends. */
static uint64_t advance(struct grace *g)
{
	uint64_t r = grace_now(g);

	barrier_unlink_before_epoch();
	/* release: the unlinking comes before; for remote readers by the barrier above */
	atomic_store_explicit(word(g), r + 1, memory_order_release);
	return r;
}

uint64_t grace_advance(struct grace *g)
{
	uint64_t r;

	pthread_mutex_lock(&g->lock);
	r = advance(g);
	pthread_mutex_unlock(&g->lock);
	return r;
}

void grace_take(const struct grace *g, struct epoch_session *s)
{
	const struct epoch_slot *slot = s->slot;
	uint64_t generation, epoch, not_e, h, now;

	if (!slot)
		return;
	/* acquire, all: pairs with the RDMA WRITE, see THE SLOT */
	generation = atomic_load_explicit(&slot->generation, memory_order_acquire);
	epoch = atomic_load_explicit(&slot->e, memory_order_acquire);
	not_e = atomic_load_explicit(&slot->not_e, memory_order_acquire);
	h = atomic_load_explicit(&slot->h, memory_order_acquire);
	now = grace_now(g); /* after the slot */
	if (generation != s->generation || epoch != ~not_e)
		return;
	if (epoch > now || epoch < s->e || h > now) {
		/* relaxed: nothing of it counts, and the session is fenced */
		atomic_store_explicit(&s->lied, true, memory_order_relaxed);
		return;
	}
	s->e = epoch;
	if (h > s->h)
		s->h = h;
}

uint64_t grace_reach(struct grace *g)
{
	struct epoch_session *s;
	uint64_t reach = UINT64_MAX;

	if (MUTANT(no_grace))
		return reach;
	pthread_mutex_lock(&g->lock);
	cds_list_for_each_entry (s, &g->sessions, node) {
		grace_take(g, s);
		if (s->waited && grace_session_reach(s) < reach)
			reach = grace_session_reach(s);
	}
	pthread_mutex_unlock(&g->lock);
	return reach;
}

/* must hold the lock */
static void raise_floor(struct grace *g, uint64_t epoch)
{
	/* relaxed load: the lock. Release: clients drop hints, then announce; and see HINTS */
	if (g->hint_floor && atomic_load_explicit(g->hint_floor, memory_order_relaxed) < epoch)
		atomic_store_explicit(g->hint_floor, epoch, memory_order_release);
}

uint64_t grace_pass_hints(struct grace *g, uint64_t wanted)
{
	struct epoch_session *s;

	if (MUTANT(recut_early))
		return wanted;
	pthread_mutex_lock(&g->lock);
	cds_list_for_each_entry (s, &g->sessions, node) {
		grace_take(g, s);
		if (s->waited && s->h < wanted)
			wanted = s->h;
	}
	raise_floor(g, wanted);
	pthread_mutex_unlock(&g->lock);
	return wanted;
}

void grace_ask_hints(struct grace *g, uint64_t epoch)
{
	pthread_mutex_lock(&g->lock);
	raise_floor(g, epoch);
	pthread_mutex_unlock(&g->lock);
}

void grace_urge_hints(struct grace *g, uint64_t asked)
{
	const uint64_t now = grace_now(g); /* nobody else advances it */
	struct epoch_session *s;
	bool any = false, told = true;

	pthread_mutex_lock(&g->lock);
	cds_list_for_each_entry (s, &g->sessions, node) {
		if (!s->waited || s->h >= asked)
			continue;
		any = true;
		told &= s->e == now;
	}
	if (any && told)
		advance(g);
	pthread_mutex_unlock(&g->lock);
}

uint64_t grace_join(struct grace *g, struct epoch_session *s, struct epoch_slot *slot,
		    uint64_t generation)
{
	uint64_t now, floor;

	pthread_mutex_lock(&g->lock);
	now = grace_now(g);
	floor = g->hint_floor ? atomic_load_explicit(g->hint_floor, memory_order_relaxed) : 0;
	*s = (struct epoch_session){ .slot = slot, .generation = generation, .e = now, .h = floor };
	/* Plain values: the client learns of the slot from the WELCOME that follows. */
	atomic_init(&slot->generation, generation);
	atomic_init(&slot->e, now);
	atomic_init(&slot->not_e, ~now);
	atomic_init(&slot->beat, 0);
	atomic_init(&slot->h, floor);
	cds_list_add_tail(&s->node, &g->sessions);
	pthread_mutex_unlock(&g->lock);
	return now;
}

void grace_wait_for(struct grace *g, struct epoch_session *s, bool wait)
{
	pthread_mutex_lock(&g->lock);
	if (wait && !s->waited)
		s->came = grace_now(g);
	s->waited = wait;
	pthread_mutex_unlock(&g->lock);
}

void grace_close_slot(struct grace *g, struct epoch_session *s)
{
	pthread_mutex_lock(&g->lock);
	grace_figures_add(&g->gone, grace_session_figures(s));
	s->slot = NULL;
	pthread_mutex_unlock(&g->lock);
}

void grace_leave(struct grace *g, struct epoch_session *s)
{
	pthread_mutex_lock(&g->lock);
	cds_list_del(&s->node);
	pthread_mutex_unlock(&g->lock);
}

void grace_each(struct grace *g, void (*visit)(void *ctx, struct epoch_session *s), void *ctx)
{
	struct epoch_session *s;

	pthread_mutex_lock(&g->lock);
	cds_list_for_each_entry (s, &g->sessions, node) {
		grace_take(g, s);
		visit(ctx, s);
	}
	pthread_mutex_unlock(&g->lock);
}
