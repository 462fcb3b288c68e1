/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Threads that stand still where it hurts: a timer of the thread's own interrupts it every few
 * milliseconds, wherever it is, for up to a few milliseconds more. Between a header and its slots,
 * say, in the middle of a READ, or of a split; what takes nanoseconds then takes as long as others
 * need to change the world. A scheduler does the same, but seldom.
 */
#include <stdint.h>

/* disturb_start - the calling thread, from now on. Returns 0 or a negative errno. */
int disturb_start(uint64_t seed);

/* disturb_stop - before the thread ends. */
void disturb_stop(void);
