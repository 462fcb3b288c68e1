/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A member that takes over brings the others to its log. */
#include "server/replica/follower.h"
#include "server/replica/mirror.h"

/*
 * succession_bring - to @peer, which was added to @m and has not begun, what @f holds and may not
 * be there: all that is not known to be committed, term by term. Where there is nothing of it, a
 * word that says so: the first batch of a primary tells where its log ended. Returns what
 * mirror_resend() does; -EPROTO: what is held is no log; 0: the peer has it. By @deadline_ns.
 * Sleeps.
 */
int succession_bring(struct mirror *m, unsigned peer, const struct follower *f,
		     uint64_t deadline_ns, struct error *err);
