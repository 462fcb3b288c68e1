/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What a session's handles have done one-sided, for people that watch the server, which sees
 * nothing of it: the housekeeper reads it out of the handles' statistics, so that a get pays
 * nothing for it.
 */
#include <stdint.h>

struct handle_figures {
	uint64_t gets, reads, retries;
};

/*
 * figure_add - to a counter that the handle's thread alone writes, while others look at it. The
 * public struct has plain words, hence the builtin. Relaxed: figures need not fit each other.
 */
static inline void figure_add(uint64_t *figure, uint64_t n)
{
	__atomic_store_n(figure, *figure + n, __ATOMIC_RELAXED);
}
