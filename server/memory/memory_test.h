/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* For tests only: to reach the end of a 32-bit counter in finite time. */
#include <stdint.h>

#include "server/memory/memory.h"

/*
 * memory_test_incarnation - of the slabs that are free now, up to @max have used incarnations up to
 * @used. Returns how many had used fewer.
 */
unsigned memory_test_incarnation(struct memory *m, uint32_t used, unsigned max);

/* memory_test_extents - so many numbers of extents are used up. */
void memory_test_extents(struct memory *m, unsigned used);

/* memory_test_segment_incarnation - the same of the segments that are free now. */
unsigned memory_test_segment_incarnation(struct memory *m, uint32_t used, unsigned max);
