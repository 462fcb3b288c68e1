/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Values that look like blocks: large ones, which repeat in their inside, at each address at
 * which a block of an older cut of the slab began, that block's header, key and incarnation, LIVE
 * and with a right checksum, with a value that was never written. Whoever follows an address of the
 * older cut then accepts it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/stress/model.h"
#include "tests/stress/torture/pipe.h"

/*
 * forge_fill - the value, of @len bytes, that stands at @value in the block at @place. @hash_seed:
 * of the store. Returns how many blocks it holds.
 */
unsigned forge_fill(struct pipe *p, uint64_t hash_seed, struct memory_place place,
		    const struct block *block, uint8_t *value, uint32_t len);

/* forged - whether a value is one that only such a block has. */
bool forged(const void *value, size_t len);
