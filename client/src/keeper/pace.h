/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* How often rounds are made. The essay is in pace.c. */
#include <stdbool.h>
#include <stdint.h>

#define HOUSEKEEPER_BUSY_MS 1u /* between rounds while a handle is at work */
#define HOUSEKEEPER_SHARE   4u /* of the time, in parts: what a round may take */

/*
 * housekeeper_pause - ms from a round's beginning to the next one's: short while a handle is at
 * work (@busy), otherwise twice the last pause; at least HOUSEKEEPER_SHARE times @took_ms, what the
 * round took; up to a quarter of the lease. At least 1.
 */
unsigned housekeeper_pause(unsigned last_ms, bool busy, uint64_t took_ms, unsigned lease_ms);
