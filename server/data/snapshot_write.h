/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Writing one snapshot. */
#include "server/data/data_internal.h"
#include "server/reclaim/reclaim.h"

/*
 * snapshot_take - the whole of it, durable under its name on return. The calling thread is a reader
 * of liburcu that is offline, and has @hazards, STORE_WALK_MAX of them, to itself. @out: what it
 * has become. Returns 0; -EIO: it, or the log, cannot be made durable; -ENOSPC and others as they
 * come from the disk: nothing of it is left, and the log has lost nothing. @err says what happened.
 */
int snapshot_take(struct data *d, struct reclaim_worker *hazards, struct data_newest *out,
		  struct error *err);

/*
 * snapshot_prune - two complete snapshots are kept, older files go, and so does the log below the
 * older one of the two: it may be needed where the newer one turns out to be corrupt.
 */
int snapshot_prune(struct data *d, struct error *err);
