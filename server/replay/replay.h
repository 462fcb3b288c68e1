/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What was written before, put into store and clients: records of the log in their order, those of
 * a snapshot before them, and, for a member that learns, those that a walk over the primary brings
 * at the same time. One thread; several of its own apply records.
 */
#include "server/clients/clients.h"
#include "server/replay/apply.h"

struct replay;

/* @clients: nobody else uses them, and there is no log. Others as apply_start(). */
int replay_open(struct replay **out, const struct apply_config *config, struct clients *clients,
		struct error *err);

/*
 * replay_log - the next record of the log, which was checked (log_record_shape()).
 * replay_record - one of a snapshot or of a walk. replay_client - a client and a reply, of a
 * snapshot or of the primary's table: before the first record of the log.
 * Each returns 0; -EINVAL: it names what cannot be; -ENOMEM: the store is full; -ECANCELED. They
 * copy. What they were given may not be in the store yet:
 * replay_flush - it is. Returns as they do.
 * replay_learned - after replay_flush(): nothing of a walk comes any more.
 */
int replay_log(struct replay *r, const struct log_record *l);
int replay_record(struct replay *r, const struct apply_record *record);
int replay_client(struct replay *r, const struct snapshot_client *s);
int replay_flush(struct replay *r);
void replay_learned(struct replay *r);

/* replay_version - the greatest that was given; 0: none was. */
uint64_t replay_version(const struct replay *r);

/* replay_close - what was given is in the store. Returns as replay_flush() does. */
int replay_close(struct replay *r);
