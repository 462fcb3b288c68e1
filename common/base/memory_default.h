/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
#include <stdint.h>

/* memory_default - what kv-server takes without --memory, bytes: a quarter of RAM, at most 4 GiB,
 * a multiple of @grain_bytes. */
uint64_t memory_default(uint64_t grain_bytes);
