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
 * at once each of these steps may take longer than a lease, for the server answers one after
 * another. So until the first beat a frame on the life line counts as one, and so does a frame that
 * stands there unread, for then it is not the client that is late. Frames alone keep no session:
 * they count for LEASE_FIRST_NS from the first queue pair on, and a lease after the last of them
 * the session is silent. While memory is wanted, one that has not beaten is stuck after a lease as
 * any other, whatever frames come.
 *
 * A PAUSE of the control thread, one much longer than the usual time between two looks, is the
 * server's doing and maybe all of the machine's: the session is forgiven. Once for a beat, and once
 * for an announcement, because what keeps the control thread busy may be the very session that is
 * silent or stuck.
 */
#include "server/session/lease.h"

#include "common/base/time.h"

#define GAP_NS (10 * NS_PER_MS) /* between two looks: a busy machine's */

uint64_t lease_join(struct grace *g, struct lease *l, struct epoch_slot *slot, uint64_t generation)
{
	*l = (struct lease){ .forgiven_h = UINT64_MAX };
	return grace_join(g, &l->epoch, slot, generation);
}

void lease_wait(struct grace *g, struct lease *l, bool wait, uint64_t now_ns)
{
	if (wait && !l->epoch.waited) {
		l->beat_ns = l->waited_ns = l->since_ns = now_ns;
		l->beaten = false;
	}
	grace_wait_for(g, &l->epoch, wait);
}

bool lease_heard(struct lease *l, uint64_t now_ns)
{
	if (l->beaten || now_ns - l->since_ns >= LEASE_FIRST_NS)
		return false;
	l->beat_ns = now_ns;
	l->forgiven = false;
	return true;
}

/* One look at all sessions. */
struct look {
	uint64_t now_ns, lease_ns;
	uint64_t pause_ns; /* of the server's; 0: none to speak of */
	struct grace_stuck stuck;
	struct lease *found, **end;
};

static enum lease_verdict judge(const struct look *look, struct lease *l)
{
	const struct epoch_session *s = &l->epoch;
	uint64_t generation, beat;

	if (!s->slot || l->over)
		return LEASE_KEPT; /* it goes already */
	/* acquire, both: as in grace.c's take(). A foreign generation is no beat of ours. */
	generation = atomic_load_explicit(&s->slot->generation, memory_order_acquire);
	beat = atomic_load_explicit(&s->slot->beat, memory_order_acquire);
	if (beat != l->beat && generation == s->generation) {
		l->beat = beat;
		l->beat_ns = look->now_ns;
		l->forgiven = false;
		l->beaten = true;
	}
	if (s->lied)
		return LEASE_LIED;
	if (!s->waited)
		return LEASE_KEPT;
	if (look->now_ns - l->beat_ns >= look->lease_ns)
		return LEASE_SILENT;
	if (look->now_ns - l->waited_ns < look->lease_ns)
		return LEASE_KEPT;
	if (grace_session_reach(s) <= look->stuck.epoch)
		return LEASE_STUCK;
	return s->h < look->stuck.hints ? LEASE_HOARDS : LEASE_KEPT;
}

static void forgive(const struct look *look, struct lease *l)
{
	const uint64_t reach = grace_session_reach(&l->epoch), h = l->epoch.h;
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

static void visit(void *ctx, struct epoch_session *s)
{
	struct lease *l = caa_container_of(s, struct lease, epoch);
	struct look *look = ctx;

	if (look->pause_ns)
		forgive(look, l);
	l->why = judge(look, l);
	if (l->why == LEASE_KEPT)
		return;
	l->next_found = NULL;
	*look->end = l;
	look->end = &l->next_found;
}

struct lease *lease_find(struct grace *g, uint64_t *look_ns, uint64_t now_ns, uint64_t lease_ns,
			 struct grace_stuck stuck)
{
	struct look look = { .now_ns = now_ns, .lease_ns = lease_ns, .stuck = stuck };

	look.end = &look.found;

	if (*look_ns && now_ns - *look_ns >= lease_ns / 4 + GAP_NS)
		look.pause_ns = now_ns - *look_ns;
	*look_ns = now_ns;
	grace_each(g, visit, &look);
	return look.found;
}
