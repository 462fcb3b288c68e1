/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Random numbers that a seed repeats: splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
#include <stdbool.h>
#include <stdint.h>

struct soft_dice {
	uint64_t state;
};

static inline uint64_t dice_roll(struct soft_dice *dice)
{
	uint64_t z = dice->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* dice_below - 0 to @end - 1; @end at least 1. */
static inline uint64_t dice_below(struct soft_dice *dice, uint64_t end)
{
	return dice_roll(dice) % end;
}

/* dice_one_in - true once in @n on average; never for 0. */
static inline bool dice_one_in(struct soft_dice *dice, uint64_t n)
{
	return n && dice_below(dice, n) == 0;
}
