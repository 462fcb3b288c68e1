/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Fencing: a session's queue pairs are destroyed, its epoch slot is deregistered, and only then is
 * it left out of the wait (pairs_parted(), I4). All that were found at once are ended by one post,
 * so that all have their queue pairs in ERR before the first of them is taken apart (pairs.c). The
 * client finds its queue pairs broken and the reason in a REFUSE, and connects again; its calls
 * take longer and do not fail.
 */
#include "server/session/fence.h"

#include <errno.h>
#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/mutant.h"
#include "common/base/time.h"

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

static struct mail *fence(struct session *s, enum lease_verdict why)
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
	exchange_refuse(s->line.fd, 0, err.code, err.text);
	return session_end_note(s, 0);
}

void fence_found(struct sessions *all)
{
	struct mail *first = NULL, *last = NULL;

	for (struct lease *l = all->leases.found; l; l = l->next_found) {
		struct session *s = caa_container_of(l, struct session, lease);
		struct mail *end;

		if (s->over)
			continue;
		if (MUTANT(expire_unfenced) && l->why == LEASE_SILENT) {
			lease_wait(&all->leases, l, false, time_now_ns());
			l->told = false;
			continue;
		}
		end = fence(s, l->why);
		if (last)
			end->next = last;
		else
			first = end;
		last = end;
	}
	leases_carry_on(&all->leases);
	if (last)
		mailbox_post_all(&all->pairs.asks, last, first);
}
