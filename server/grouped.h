/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * kv-server as a member of a group (--cluster): what server/member's hooks do to store, clients,
 * log and workers. The main thread's; grouped.c says which thread calls what else.
 */
#include <stdbool.h>

#include "common/base/error.h"
#include "server/log/log.h"

struct server;

/*
 * grouped_open - before the store is made: what the cluster is, by etcd. Waits until that answers.
 * Returns 0 or a negative errno with @err; -ECANCELED: told to stop meanwhile. Without --cluster
 * this, and all that follows, does nothing.
 * grouped_start - store, root and the table of clients are there; no worker is: the group's thread
 * begins, and makes workers when the server is primary.
 */
int grouped_open(struct server *s, struct error *err);
int grouped_start(struct server *s, struct error *err);

/*
 * grouped_stop - no worker answers any more: neither does the group's thread do anything.
 * grouped_close - no worker is left: the log is closed.
 */
void grouped_stop(struct server *s);
void grouped_close(struct server *s);

/* grouped_stats_get - of a primary, for its clients. False: the server belongs to no group. Any
 * worker's thread. */
struct grouped_stats {
	uint64_t term;
	unsigned members, in_sync; /* this server included */
	unsigned lease_ms;
	uint64_t lease_left_us; /* for which it may answer yet; 0: it may not now */
	uint64_t lag_bytes; /* of its log, that the slowest of the others has not applied */
	struct log_stats log;
};

bool grouped_stats_get(struct server *s, struct grouped_stats *out);

/* grouped_stops - the server is told to stop, or its group has ended it. grouped_has_ended - the
 * latter. Any thread. */
bool grouped_stops(const struct server *s);
bool grouped_has_ended(const struct server *s);

/* grouped_give_way - once all sessions have ended and nobody is accepted: where this server was
 * primary, and starts again, the next primary goes first. Sleeps. */
void grouped_give_way(const struct server *s);

/*
 * grouped_explain - @rc, what the server ended with: where its group has ended it, 0 and
 * *@again: the process is to start again, and learn; or @err says why it cannot.
 */
int grouped_explain(const struct server *s, int rc, bool *again, struct error *err);
