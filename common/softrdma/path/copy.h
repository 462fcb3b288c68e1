/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Copies between our memory and memory that others read and write at the same time. As with
 * hardware, an aligned 8-byte word of the shared side is never torn and nothing more is promised;
 * where both sides are aligned alike, that holds for our side too.
 */
#include <stddef.h>

/* soft_copy_from - shared memory to ours. */
void soft_copy_from(void *to, const void *shared, size_t len);

/* soft_copy_to - our memory to shared memory. */
void soft_copy_to(void *shared, const void *from, size_t len);
