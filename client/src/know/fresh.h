/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Until when what a connection READs is what the group has: fresh.c. Times are nanoseconds of this
 * machine's CLOCK_BOOTTIME. All but fresh_at() belong to one thread, the housekeeper's.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FRESH_LOOKS 4u

struct fresh {
	uint32_t rho_ppm; /* rates of two clocks differ by so much at most */
	struct fresh_look {
		uint64_t posted_ns;
		uint16_t count;
	} look[FRESH_LOOKS]; /* the newest first */
	unsigned looks;
	_Atomic uint64_t deadline_ns; /* 0: nothing is known */
};

/* fresh_begin - a new connection: nothing is known of its server. */
void fresh_begin(struct fresh *f, uint32_t rho_ppm);

/*
 * fresh_look - a READ of the root page has completed: @clock and @until stood there
 * (common/layout/lease_word.h). @posted_ns: the clock, read before it was posted. In the order in
 * which they were posted.
 */
void fresh_look(struct fresh *f, uint64_t posted_ns, uint64_t clock, uint64_t until);

/*
 * fresh_at - whether what was READ is good. @now_ns: the clock, read after the READ had completed.
 * False: look again, or ask. Any thread.
 */
static inline bool fresh_at(const struct fresh *f, uint64_t now_ns)
{
	/* relaxed: a deadline stands for itself, whatever else was seen */
	return now_ns < atomic_load_explicit(&f->deadline_ns, memory_order_relaxed);
}
