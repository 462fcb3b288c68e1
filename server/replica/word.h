/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A word of this server, WRITTEN to another one. */
#include <stdint.h>

#include "common/rdma/qp.h"
#include "common/rdma/region.h"

/*
 * word_write - store @value at @word, which is in @from, and post its WRITE to @addr, signalled.
 * Nothing else is stored there until that has completed. Returns 0, or what posting did.
 */
int word_write(const struct rdma_qp *qp, const struct rdma_buffer *from, _Atomic uint64_t *word,
	       uint64_t value, uint64_t addr, uint32_t rkey);
