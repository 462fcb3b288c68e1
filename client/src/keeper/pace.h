/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* How often rounds are made. The essay is in pace.c. */
#include <stdint.h>

#define HOUSEKEEPER_BUSY_MS  1u /* between rounds at the least, */
#define HOUSEKEEPER_STILL_MS 8u /* and at the most, while a handle is at work */
#define HOUSEKEEPER_SHARE    4u /* of the time, in parts: what a round may take */

/* What a round has found. */
enum housekeeper_work {
	HOUSEKEEPER_IDLE, /* no handle was at work */
	HOUSEKEEPER_STILL, /* one was, and the epoch is the last round's */
	HOUSEKEEPER_FOLLOW, /* one was, and the epoch has grown */
	HOUSEKEEPER_HURRY, /* one was, and there will be more to announce in a moment */
};

/*
 * housekeeper_pause - ms from a round's beginning to the next one's, after @last_ms; at least
 * HOUSEKEEPER_SHARE times @took_ms, what the round took; up to a quarter of the lease. At least 1.
 * @group_lease_ms: of a server of a group, else 0: while a handle is at work, an eighth of it at
 * most.
 */
unsigned housekeeper_pause(unsigned last_ms, enum housekeeper_work work, uint64_t took_ms,
			   unsigned lease_ms, unsigned group_lease_ms);
