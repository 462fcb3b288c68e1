/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Leases.
 *
 * A lease that is over frees nothing by itself: a READ that was posted before may execute at any
 * time. It says that the session is to be fenced (fence.c), and only a fence ends the wait for it.
 *
 * A SESSION is to be fenced when it has announced what cannot be; when its beat has stood still for
 * a lease; and, once it has been waited for as long as a lease, when it holds back memory that
 * somebody wants (struct grace_stuck).
 *
 * THE FIRST BEAT needs a queue pair of the housekeeper's, hence several frames and the answers to
 * them, and the lease runs from the session's first queue pair on. Where hundreds of sessions come
 * at once each of these steps may take longer than a lease, for queue pairs are made one after
 * another. So a session has LEASE_FIRST_NS for its first beat, if that is longer. Later a queue
 * pair of the housekeeper's may have to be made again: while the server makes one for a session,
 * that one is not silent, but for as long as LEASE_FIRST_NS at most. A request of the CM counts
 * from when the queue-pair thread takes it: before that nobody knows of it. Neither holds memory
 * up: while some is wanted, a session that has not announced is stuck after a lease as any other.
 *
 * WHO KEEPS THEM. The clock thread, which takes no lock, calls no verb, and waits for nobody, so
 * that neither a device nor a client's queue pair keeps it from a look. What it is told of:
 *  - Leases that come and go, by notes. A lease is in the list from NOTE_LEASE_COMES to
 *    NOTE_LEASE_GOES, and its slot and its memory stay until the latter has come back, since the
 *    queue-pair thread deregisters the slot and frees the session after that. A note comes before
 *    those that its sender posts later, so GOES finds the lease in the list.
 *  - Whether a session is waited for, by `watch`, which the queue-pair thread alone moves on, after
 *    `since_ns` and `came`: who sees it sees these, or later ones, which only make a session look
 *    younger. One that was waited for, was not, and is again shows another number.
 *  - Slots and E: it reads them as the reclaimer does (grace_take()), into a struct epoch_session
 *    of its own, since the reclaimer's is under a lock. A lie that only the reclaimer has met shows
 *    in `epoch.lied`.
 *  - What holds back memory that is wanted: reclaim_stuck(), without a lock.
 *
 * WHOM IT TELLS. The control thread, by one note with all that it found in a look; it is not told
 * of more before it has seen to those (leases_carry_on()), and of none twice. The note is posted
 * before NOTE_LEASE_GOES of any of them comes back, hence before their ends are: all of this goes
 * to the control thread by one mailbox, so that it never follows the note to a session that it has
 * freed.
 *
 * A PAUSE of the clock thread, one much longer than the usual time between two looks, is the
 * machine's doing, as a rule all of the machine's: the session is forgiven. Once for a beat, and
 * once for an announcement, because what keeps the machine busy may be the very session that is
 * silent or stuck.
 */
#include "server/session/lease.h"

#include "common/base/mutant.h"
#include "common/base/time.h"

#define GAP_NS	      (10 * NS_PER_MS) /* between two looks: a busy machine's */
#define LOOKS_A_LEASE 40u
#define PERIOD_MIN_MS 5u
#define PERIOD_MAX_MS 100u

int leases_init(struct leases *all, struct reclaim *reclaim, unsigned lease_ms,
		struct mailbox *left, struct mailbox *told)
{
	*all = (struct leases){
		.reclaim = reclaim,
		.lease_ns = lease_ms * NS_PER_MS,
		.left = left,
		.told = told,
		.note.kind = NOTE_FOUND,
	};
	CDS_INIT_LIST_HEAD(&all->list);
	return mailbox_create(&all->box);
}

void leases_destroy(struct leases *all)
{
	mailbox_destroy(&all->box);
}

uint64_t lease_join(struct leases *all, struct lease *l, struct epoch_slot *slot,
		    uint64_t generation)
{
	struct grace *g = reclaim_grace(all->reclaim);
	uint64_t epoch;

	*l = (struct lease){
		.comes = { .kind = NOTE_LEASE_COMES, .of = l },
		.goes = { .kind = NOTE_LEASE_GOES, .of = l },
		.forgiven_h = UINT64_MAX,
	};
	epoch = grace_join(g, &l->epoch, slot, generation);
	l->seen.slot = slot;
	l->seen.generation = generation;
	l->seen.e = epoch;
	/* relaxed: this thread filled it, and the client does not know of it yet */
	l->seen.h = atomic_load_explicit(&slot->h, memory_order_relaxed);
	mailbox_post(&all->box, &l->comes.mail);
	return epoch;
}

void lease_leave(struct leases *all, struct lease *l)
{
	mailbox_post(&all->box, &l->goes.mail);
}

void lease_wait(struct leases *all, struct lease *l, bool wait, uint64_t now_ns)
{
	struct grace *g = reclaim_grace(all->reclaim);
	/* relaxed: this thread wrote it */
	const uint64_t watch = atomic_load_explicit(&l->watch, memory_order_relaxed);

	grace_wait_for(g, &l->epoch, wait);
	if (wait == (watch & 1))
		return;
	if (wait) {
		atomic_store_explicit(&l->since_ns, now_ns, memory_order_relaxed);
		atomic_store_explicit(&l->came, grace_now(g), memory_order_relaxed);
	}
	atomic_store_explicit(&l->watch, watch + 1, memory_order_release); /* pairs with follow() */
}

void leases_take(struct leases *all)
{
	struct mail *next;

	for (struct mail *m = mailbox_take(&all->box); m; m = next) {
		struct note *note = note_of_mail(m);
		struct lease *l = note->of;

		next = m->next;
		if (note->kind == NOTE_LEASE_COMES) {
			cds_list_add_tail(&l->node, &all->list);
		} else {
			cds_list_del(&l->node);
			mailbox_post(all->left, &note->mail); /* it may be gone from now on */
		}
	}
}

unsigned leases_period_ms(const struct leases *all)
{
	unsigned period = (unsigned)(all->lease_ns / NS_PER_MS / LOOKS_A_LEASE);

	if (period < PERIOD_MIN_MS)
		return PERIOD_MIN_MS;
	return period < PERIOD_MAX_MS ? period : PERIOD_MAX_MS;
}

/* One look at all sessions. */
struct look {
	const struct grace *grace;
	uint64_t now_ns, lease_ns;
	uint64_t pause_ns; /* of the server's; 0: none to speak of */
	struct grace_stuck stuck;
};

/* Whether it is waited for; where that began, its lease does. */
static void follow(const struct look *look, struct lease *l)
{
	/* acquire: pairs with lease_wait() */
	const uint64_t watch = atomic_load_explicit(&l->watch, memory_order_acquire);
	uint64_t since_ns;

	if (watch == l->watched)
		return;
	l->watched = watch;
	l->seen.waited = watch & 1;
	if (!l->seen.waited)
		return;
	since_ns = atomic_load_explicit(&l->since_ns, memory_order_relaxed);
	l->seen.came = atomic_load_explicit(&l->came, memory_order_relaxed);
	/* it may have come after the look began */
	l->beat_ns = l->waited_ns = since_ns < look->now_ns ? since_ns : look->now_ns;
	l->beaten = false;
}

static void listen(const struct look *look, struct lease *l)
{
	uint64_t generation, beat;

	/* acquire, both: as in grace_take(). A foreign generation is no beat of ours. */
	generation = atomic_load_explicit(&l->seen.slot->generation, memory_order_acquire);
	beat = atomic_load_explicit(&l->seen.slot->beat, memory_order_acquire);
	if (beat != l->beat && (generation == l->seen.generation || MUTANT(foreign_beat))) {
		l->beat = beat;
		l->beat_ns = look->now_ns;
		l->forgiven = false;
		l->beaten = true;
	}
	/* relaxed, both: a client that waits orders nothing */
	if (atomic_load_explicit(&l->asks, memory_order_relaxed) ||
	    atomic_load_explicit(&l->asks_cm, memory_order_relaxed))
		l->asked_ns = look->now_ns;
}

static bool is_silent(const struct look *look, const struct lease *l)
{
	const uint64_t first_ns = look->lease_ns > LEASE_FIRST_NS ? look->lease_ns : LEASE_FIRST_NS;
	const uint64_t since_ns = l->asked_ns > l->beat_ns ? l->asked_ns : l->beat_ns;

	if (look->now_ns - l->beat_ns >= first_ns)
		return true;
	return l->beaten && look->now_ns - since_ns >= look->lease_ns;
}

static enum lease_verdict judge(const struct look *look, const struct lease *l)
{
	const struct epoch_session *s = &l->seen;

	/* relaxed, both: nothing of it counts */
	if (atomic_load_explicit(&s->lied, memory_order_relaxed) ||
	    atomic_load_explicit(&l->epoch.lied, memory_order_relaxed))
		return LEASE_LIED;
	if (!s->waited)
		return LEASE_KEPT;
	if (is_silent(look, l))
		return LEASE_SILENT;
	if (look->now_ns - l->waited_ns < look->lease_ns)
		return LEASE_KEPT;
	if (grace_session_reach(s) <= look->stuck.epoch)
		return LEASE_STUCK;
	return s->h < look->stuck.hints ? LEASE_HOARDS : LEASE_KEPT;
}

static void forgive(const struct look *look, struct lease *l)
{
	const uint64_t reach = grace_session_reach(&l->seen), h = l->seen.h;
	const uint64_t silent_ns = look->now_ns - l->beat_ns;
	const bool is_stuck = reach <= look->stuck.epoch, hoards = h < look->stuck.hints;

	if (!l->forgiven)
		l->beat_ns += look->pause_ns < silent_ns ? look->pause_ns : silent_ns;
	l->forgiven = true;
	if (!(is_stuck && reach == l->forgiven_reach) && !(hoards && h == l->forgiven_h))
		l->waited_ns = look->now_ns;
	if (is_stuck)
		l->forgiven_reach = reach;
	if (hoards)
		l->forgiven_h = h;
}

struct lease *leases_find(struct leases *all, uint64_t now_ns, struct grace_stuck stuck)
{
	struct look look = { .grace = reclaim_grace(all->reclaim),
			     .now_ns = now_ns,
			     .lease_ns = all->lease_ns,
			     .stuck = stuck };
	struct lease *l, *found = NULL, **end = &found;

	if (all->look_ns && now_ns - all->look_ns >= all->lease_ns / 4 + GAP_NS)
		look.pause_ns = now_ns - all->look_ns;
	all->look_ns = now_ns;
	cds_list_for_each_entry (l, &all->list, node) {
		if (l->told)
			continue;
		follow(&look, l);
		grace_take(look.grace, &l->seen);
		if (look.pause_ns)
			forgive(&look, l);
		listen(&look, l);
		l->why = judge(&look, l);
		if (l->why == LEASE_KEPT)
			continue;
		l->told = true;
		l->next_found = NULL;
		*end = l;
		end = &l->next_found;
	}
	return found;
}

void leases_look(struct leases *all, uint64_t now_ns)
{
	/* acquire: pairs with leases_carry_on(): what was found is ours again */
	if (atomic_load_explicit(&all->note_is_out, memory_order_acquire)) {
		all->look_ns = now_ns; /* the control thread is late, which is no pause of ours */
		return;
	}
	all->found = leases_find(all, now_ns, reclaim_stuck(all->reclaim, now_ns));
	if (!all->found)
		return;
	atomic_store_explicit(&all->note_is_out, true, memory_order_relaxed);
	mailbox_post(all->told, &all->note.mail);
}

void leases_carry_on(struct leases *all)
{
	/* release: pairs with leases_look() */
	atomic_store_explicit(&all->note_is_out, false, memory_order_release);
}
