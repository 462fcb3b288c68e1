/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What decoders ask of fields that are kept for later, and of padding. */
#include <stdbool.h>
#include <stdint.h>

/* all_zeroes - whether each of @len bytes is 0. Any alignment, any thread. */
static inline bool all_zeroes(const void *bytes, uint64_t len)
{
	const uint8_t *b = bytes;
	uint8_t seen = 0;

	for (uint64_t i = 0; i < len; i++)
		seen |= b[i];
	return !seen;
}
