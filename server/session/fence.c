/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Fencing: a session's queue pairs are destroyed, its epoch slot is deregistered, and only then is
 * it left out of the wait (session_parted(), I4). All that are to be fenced have their queue pairs
 * in ERR before the first of them is taken apart. The client finds its queue pairs broken and the
 * reason in a REFUSE, and connects again; its calls take longer and do not fail.
 */
#include "server/session/fence.h"

#include <errno.h>
#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/mutant.h"
#include "common/base/time.h"

#define LOOKS_A_LEASE 40u
#define PERIOD_MIN_MS 5u
#define PERIOD_MAX_MS 100u

unsigned fence_period_ms(unsigned lease_ms)
{
	unsigned period = lease_ms / LOOKS_A_LEASE;

	if (period < PERIOD_MIN_MS)
		return PERIOD_MIN_MS;
	return period < PERIOD_MAX_MS ? period : PERIOD_MAX_MS;
}

static void explain(const struct session *s, enum lease_verdict why, struct error *err)
{
	unsigned lease_ms = s->all->lease_ms;

	switch (why) {
	case LEASE_SILENT:
		error_set(err, -ECONNRESET,
			  "fenced: it announced nothing for its lease of %u ms (was the process "
			  "stopped? connect again, or give kv-server a longer --lease)",
			  lease_ms);
		break;
	case LEASE_STUCK:
		error_set(err, -ECONNRESET,
			  "fenced: a section of it was open for longer than %u ms while others "
			  "waited for memory (connect again, and read fewer or smaller records at "
			  "a time)",
			  lease_ms);
		break;
	case LEASE_HOARDS:
		error_set(
			err, -ECONNRESET,
			"fenced: it was asked to drop what it remembers of where records are, and "
			"did not for longer than %u ms while others waited for memory (connect "
			"again; is the client's library of this release?)",
			lease_ms);
		break;
	case LEASE_LIED:
	case LEASE_KEPT:
		error_set(err, -ECONNRESET,
			  "fenced: its epoch slot says what cannot be (is the client's library of "
			  "this release?)");
		break;
	}
}

static void fence(struct session *s, enum lease_verdict why)
{
	struct session_counters *c = &s->all->counters;
	_Atomic uint64_t *counter = why == LEASE_SILENT ? &c->fenced_silent
				    : why == LEASE_LIED ? &c->fenced_lied
							: &c->fenced_stuck;
	struct error err;

	explain(s, why, &err);
	log_warn("session", "session %" PRIu64 ", %s, process %u: %s", s->number, s->name, s->pid,
		 err.text);
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->client->fences, 1, memory_order_relaxed);
	exchange_refuse(s->fd, 0, err.code, err.text);
	session_end(s, 0);
}

void fence_look(struct sessions *all)
{
	struct grace *grace = sessions_grace(all);
	const uint64_t now = time_now_ns();
	struct lease *found, *next;

	found = lease_find(grace, &all->look_ns, now, all->lease_ms * NS_PER_MS,
			   reclaim_stuck(all->store->reclaim, now));
	for (; found && !all->fatal; found = next) {
		struct session *s = caa_container_of(found, struct session, lease);

		next = found->next_found;
		if (found->why == LEASE_SILENT && (s->opening.wanted || exchange_waiting(s->fd)) &&
		    lease_heard(found, now))
			continue; /* it is the server that is late */
		if (MUTANT(expire_unfenced) && found->why == LEASE_SILENT)
			lease_wait(grace, found, false, now);
		else
			fence(s, found->why);
	}
}
