/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Leases. Two machines' clocks show any dates; that their rates differ by rho at most is all that
 * is assumed.
 *
 * The primary notes its clock, s, and sends beat n. The backup sees it, then reads its own clock,
 * g, and promises: no take-over before g + length(1 + rho). It answers n. Let the primary read
 * s + length on its clock at some moment. In true time, its clock has counted length since s, the
 * backup's at most length(1 + rho) since then, and s was before g: so the promise still stands.
 * Hence the primary may rely on "not before s + length" as soon as it has the answer, whenever
 * beat and answer were under way, and however long each thread was stopped in between: a stop
 * between the note and the sending, or between seeing and reading the clock, makes the primary's
 * time earlier, or the backup's later.
 *
 * An old answer is about an old beat, and says less, so nothing falls: the latest time that was
 * promised stands. But an answer is looked up by its number, so one that is older than the notes
 * which are kept is dropped.
 *
 * A term that a backup learns starts its time once more: it may have been taken out meanwhile,
 * and have come back; what it has promised in the old term says nothing about what the new one's
 * primary relies on. Until the first beat it waits as if one had come then.
 *
 * tests/model/failover.pml has the rest: what a backup does when its promise is over, and that what
 * a primary may rely on is the least of all grants, of those in sync and of those that are being
 * added or taken out.
 */
#include "server/group/lease.h"

#include "common/base/mutant.h"

static uint64_t with_drift(const struct lease_terms *terms)
{
	const uint64_t drift = terms->length_ns / 1000000 * terms->rho_ppm +
			       terms->length_ns % 1000000 * terms->rho_ppm / 1000000 + 1;

	return terms->length_ns + (MUTANT(lease_no_drift) ? 0 : drift);
}

void lease_learn(struct lease_promise *p, uint64_t term, uint64_t now_ns)
{
	if (term <= p->term)
		return;
	p->term = term;
	p->beat = 0;
	p->revoked = false;
	if (!MUTANT(lease_keeps_time))
		p->until_ns = now_ns + with_drift(&p->terms);
}

bool lease_beat(struct lease_promise *p, uint64_t term, uint64_t n, uint64_t now_ns)
{
	uint64_t until_ns;

	if (term != p->term || (p->revoked && !MUTANT(lease_answers_on)))
		return false;
	if (n <= p->beat &&
	    !MUTANT(lease_same_beat)) /* it was seen before: its time has not come again */
		return false;
	p->beat = n;
	until_ns = now_ns + with_drift(&p->terms);
	if (until_ns > p->until_ns)
		p->until_ns = until_ns;
	return true;
}

bool lease_is_over(const struct lease_promise *p, uint64_t now_ns)
{
	return p->term && now_ns >= p->until_ns;
}

void lease_revoke(struct lease_promise *p)
{
	p->revoked = true;
}

uint64_t lease_note(struct lease_grant *g, uint64_t now_ns)
{
	g->sent++;
	g->noted_ns[g->sent % LEASE_BEATS_MAX] = now_ns;
	return g->sent;
}

void lease_answer(struct lease_grant *g, const struct lease_terms *terms, uint64_t n)
{
	uint64_t until_ns;

	if (!n || n > g->sent)
		return;
	if (n + LEASE_BEATS_MAX <= g->sent && !MUTANT(lease_any_answer))
		return;
	until_ns = g->noted_ns[n % LEASE_BEATS_MAX] + terms->length_ns;
	if (until_ns > g->until_ns)
		g->until_ns = until_ns;
}

uint64_t lease_until(const struct lease_grant grant[LEASE_PEERS_MAX], unsigned counted,
		     const struct lease_terms *terms, uint64_t now_ns)
{
	uint64_t least = counted ? UINT64_MAX : now_ns + terms->length_ns;

	for (unsigned i = 0; i < LEASE_PEERS_MAX; i++) {
		if (!(counted >> i & 1))
			continue;
		if (grant[i].until_ns < least && !MUTANT(lease_most))
			least = grant[i].until_ns;
		if (MUTANT(lease_most) && (least == UINT64_MAX || grant[i].until_ns > least))
			least = grant[i].until_ns;
	}
	return least;
}
