/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/replica/succession.h"

#include <errno.h>

#include "common/base/mutant.h"

int succession_bring(struct mirror *m, unsigned peer, const struct follower *f,
		     uint64_t deadline_ns, struct error *err)
{
	struct follower_state s;
	struct follower_piece p;
	int rc = 0;

	follower_look(f, &s);
	for (uint64_t at = MUTANT(bring_nothing) ? s.held : s.committed; rc == 0 && at < s.held;
	     at += p.len) {
		struct ring_say say = { .position = at,
					.committed = s.committed,
					.clock_ms = s.clock_ms };

		/* It came whole: it was wrong where it was made. */
		if (!follower_piece(f, at, &p))
			return error_set(err, -EPROTO,
					 "at position %llu of the log this server holds what is no "
					 "record (it must not become primary)",
					 (unsigned long long)at);
		say.term = p.term;
		say.bytes = p.len;
		say.records = p.records;
		rc = mirror_resend(m, peer, &say, p.bytes, deadline_ns, err);
	}
	if (rc == 0 && s.held == s.committed) {
		const struct ring_say say = { .position = s.held,
					      .committed = s.held,
					      .clock_ms = s.clock_ms };

		rc = mirror_resend(m, peer, &say, "", deadline_ns, err);
	}
	return rc;
}
