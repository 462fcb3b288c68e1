/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Pace: a round finds that handles were at work since the last one (they count, and pay no message
 * for it), or it waits twice as long as before, up to a quarter of the lease: four beats a lease,
 * eight messages.
 *
 * While handles are at work what counts is the server's epoch: it grows when memory was replaced,
 * which is used again once all sessions have announced a later one. Where it stood still since the
 * last round nobody waits for this session, and the pause doubles, up to HOUSEKEEPER_STILL_MS;
 * where it has grown the pause is halved, down to HOUSEKEEPER_BUSY_MS. So rounds follow the epochs
 * at about the pace at which they end. Sections that were open when the epoch grew are still to be
 * waited for, and so may be hints: a round that could not announce all that it has read is followed
 * by another one after HOUSEKEEPER_BUSY_MS, whatever the pace is. What was replaced is therefore
 * announced within HOUSEKEEPER_STILL_MS and two rounds, while no section lasts longer.
 *
 * Where a round takes
 * milliseconds itself, it is at most one part in HOUSEKEEPER_SHARE of the time: it waits as handles
 * do, and on a small machine in their place. A thread that is woken keeps to that as well.
 */
#include "client/src/keeper/pace.h"

unsigned housekeeper_pause(unsigned last_ms, enum housekeeper_work work, uint64_t took_ms,
			   unsigned lease_ms, unsigned group_lease_ms)
{
	unsigned most = lease_ms / 4 > 1 ? lease_ms / 4 : 1;
	uint64_t next = work == HOUSEKEEPER_HURRY    ? 0
			: work == HOUSEKEEPER_FOLLOW ? last_ms / 2
						     : 2 * (uint64_t)last_ms;

	if (work != HOUSEKEEPER_IDLE && next > HOUSEKEEPER_STILL_MS)
		next = HOUSEKEEPER_STILL_MS;
	if (work != HOUSEKEEPER_IDLE && group_lease_ms && next > group_lease_ms / 8)
		next = group_lease_ms / 8;
	if (next < HOUSEKEEPER_SHARE * took_ms)
		next = HOUSEKEEPER_SHARE * took_ms;
	if (next < HOUSEKEEPER_BUSY_MS)
		next = HOUSEKEEPER_BUSY_MS;
	return next < most ? (unsigned)next : most;
}
