/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "words.h"

#include <string.h>

uint64_t atomic_do(struct end *a, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey,
		   uint64_t compare_add, uint64_t swap)
{
	uint64_t before;
	struct ibv_wc wc;

	memset(a->mem, 0xcc, 24);
	assert_ok(end_atomic(a, opcode, 7, 8, addr, rkey, compare_add, swap));
	end_wait(a->send_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.opcode, opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? IBV_WC_FETCH_ADD
									  : IBV_WC_COMP_SWAP);
	assert_int_equal(wc.byte_len, 8);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(a->mem[i], 0xcc);
		assert_int_equal(a->mem[16 + i], 0xcc);
	}
	memcpy(&before, a->mem + 8, sizeof(before));
	return before;
}

void word_write(struct end *a, uint64_t addr, uint32_t rkey, uint64_t value)
{
	memcpy(a->mem, &value, sizeof(value));
	assert_ok(end_rdma(a, IBV_WR_RDMA_WRITE, 8, 0, 8, addr, rkey, IBV_SEND_SIGNALED));
	end_expect(a->send_cq, 8, IBV_WC_SUCCESS);
}

uint64_t word_read(struct end *a, uint64_t addr, uint32_t rkey)
{
	uint64_t value;

	assert_ok(end_rdma(a, IBV_WR_RDMA_READ, 9, 0, 8, addr, rkey, IBV_SEND_SIGNALED));
	end_expect(a->send_cq, 9, IBV_WC_SUCCESS);
	memcpy(&value, a->mem, sizeof(value));
	return value;
}

struct ibv_wc peek_word(struct end *end, uint64_t offset)
{
	uint64_t value = __atomic_load_n((uint64_t *)(void *)(end->mem + offset), __ATOMIC_SEQ_CST);

	return (struct ibv_wc){ .wr_id = value };
}
