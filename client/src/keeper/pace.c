/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Pace: each round either finds that handles were at work since the last one (they count, and pay
 * no message for it), then the next one is due in HOUSEKEEPER_BUSY_MS, or it waits twice as long as
 * before, up to a quarter of the lease: four beats a lease, eight messages. Where a round takes
 * milliseconds itself, it is at most one part in HOUSEKEEPER_SHARE of the time: it waits as handles
 * do, and on a small machine in their place. A thread that is woken keeps to that as well.
 */
#include "client/src/keeper/pace.h"

unsigned housekeeper_pause(unsigned last_ms, bool busy, uint64_t took_ms, unsigned lease_ms)
{
	unsigned most = lease_ms / 4 > 1 ? lease_ms / 4 : 1;
	uint64_t next = busy ? 0 : 2 * (uint64_t)last_ms;

	if (next < HOUSEKEEPER_SHARE * took_ms)
		next = HOUSEKEEPER_SHARE * took_ms;
	if (next < HOUSEKEEPER_BUSY_MS)
		next = HOUSEKEEPER_BUSY_MS;
	return next < most ? (unsigned)next : most;
}
