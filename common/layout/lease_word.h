/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Two words of a primary's root page, by which those who READ it know whether it still is the
 * primary. Both are times of its CLOCK_BOOTTIME, in microseconds.
 *	until  no other server takes over before it; never lowered
 *	clock  bits 0 to 47: the time at a renewal, rounded up; bits 48 to 63: the count of
 *	       renewals, modulo 2^16. It is stored before the clock is read for the next one. Before
 *	       the first one the word is 0, and the first one is 1.
 */
#include <stdint.h>

#define LEASE_CLOCK_BITS 48
#define LEASE_CLOCK_MAX	 ((1ull << LEASE_CLOCK_BITS) - 1) /* us: 8.9 years */

/* lease_clock - the word of renewal @count at @now_ns. Rounded up: it is never too early. */
static inline uint64_t lease_clock(uint16_t count, uint64_t now_ns)
{
	return (uint64_t)count << LEASE_CLOCK_BITS | ((now_ns / 1000 + 1) & LEASE_CLOCK_MAX);
}

static inline uint16_t lease_clock_count(uint64_t word)
{
	return (uint16_t)(word >> LEASE_CLOCK_BITS);
}

static inline uint64_t lease_clock_us(uint64_t word)
{
	return word & LEASE_CLOCK_MAX;
}
