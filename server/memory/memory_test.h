/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* For tests only: to reach the end of a 32-bit counter in finite time. */
#include <stdint.h>

#include "server/memory/memory.h"

/* memory_test_incarnation - every slab that is free now has used incarnations up to @used. */
void memory_test_incarnation(struct memory *m, uint32_t used);

/* memory_test_extents - so many numbers of extents are used up. */
void memory_test_extents(struct memory *m, unsigned used);

/* memory_test_segment_incarnation - every segment that is free now has used incarnations so far. */
void memory_test_segment_incarnation(struct memory *m, uint32_t used);
