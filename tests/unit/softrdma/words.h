/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* For the tests of atomics: words, one at a time. */
#include "ends.h"

/* One atomic that goes well; returns the value before. */
uint64_t atomic_do(struct end *a, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey,
		   uint64_t compare_add, uint64_t swap);

void word_write(struct end *a, uint64_t addr, uint32_t rkey, uint64_t value);
uint64_t word_read(struct end *a, uint64_t addr, uint32_t rkey);

/* What the owner's own processor sees at @offset, in wr_id. */
struct ibv_wc peek_word(struct end *end, uint64_t offset);
