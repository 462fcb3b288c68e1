/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A bell wakes the one thread that waits for it. A ring between two waits is not lost; several
 * count as one. Whoever has a reference may ring: its lock is innermost, and held for a moment.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct bell {
	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t wake; /* CLOCK_MONOTONIC */
	bool rung;
	bool stopped; /* for good */
};

void bell_init(struct bell *b);
void bell_destroy(struct bell *b);

/* bell_ring - end the wait under way, or the next one. */
void bell_ring(struct bell *b);

/* bell_stop - end all waits, for good. */
void bell_stop(struct bell *b);
bool bell_stopped(struct bell *b);

/*
 * bell_wait - until @until_ns; where it rings, until @soonest_ns; or until it is stopped
 * (CLOCK_MONOTONIC). Returns whether to go on: false once it is stopped.
 */
bool bell_wait(struct bell *b, uint64_t soonest_ns, uint64_t until_ns);
