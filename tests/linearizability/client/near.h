/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * An index begins with 64 segments, and some thousands of keys would never split one. So keys are
 * chosen by their hashes, to fall into two of them: there the index grows and shrinks.
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/layout/bucket.h"

#define NEAR_DEPTH 5u
#define NEAR_TRIES (8u << NEAR_DEPTH)

static inline bool near_is(uint64_t hash)
{
	return hash_prefix(hash, NEAR_DEPTH) == 0;
}
