/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Recovery under way, from recover.c, which loads, to begin.c, which begins the next life. */
#include "server/data/data_internal.h"
#include "server/data/progress.h"
#include "server/replay/replay.h"

struct recovery {
	struct data *d;
	struct log_survey survey;
	struct snapshot_info *snapshot; /* SNAPSHOTS_MAX of them */
	unsigned snapshots, chosen; /* chosen == snapshots: none */
	uint64_t start, durable; /* positions: where replay begins; D, with what a snapshot adds */
	struct replay *replay;
	struct progress progress;
	uint64_t loaded_ns; /* what it took, until the last record was applied */
	uint64_t version; /* the greatest that was replayed */
	uint64_t records, bytes;
	uint8_t *tail; /* mapped: records from `durable` on */
	uint64_t tail_bytes, tail_room;
};

/* snapshot_info.why of a snapshot whose head and foot are right, and which is corrupt. */
extern const char recovery_corrupt[];

static inline uint64_t recovery_later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* recovery_begin_life - all is loaded: meta, log and store, in the order that recover.c says.
 * recovery_tell - the next life has begun: what it began with. */
int recovery_begin_life(struct recovery *r, struct error *err);
void recovery_tell(struct recovery *r);
