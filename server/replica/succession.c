/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/replica/succession.h"

#include "common/base/mutant.h"

int succession_bring(struct mirror *m, unsigned peer, const struct follower *f,
		     uint64_t deadline_ns, struct error *err)
{
	struct follower_state s;
	struct follower_piece p;
	uint64_t at;
	int rc = 0;

	follower_look(f, &s);
	for (at = s.committed; rc == 0 && !MUTANT(bring_nothing) && follower_piece(f, at, &p);
	     at += p.len) {
		const struct ring_say say = { .position = at,
					      .committed = s.committed,
					      .term = p.term,
					      .clock_ms = s.clock_ms,
					      .bytes = p.len,
					      .records = p.records };

		rc = mirror_resend(m, peer, &say, p.bytes, deadline_ns, err);
	}
	if (rc == 0 && at == s.committed) {
		const struct ring_say say = { .position = at,
					      .committed = at,
					      .clock_ms = s.clock_ms };

		rc = mirror_resend(m, peer, &say, "", deadline_ns, err);
	}
	return rc;
}
