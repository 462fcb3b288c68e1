/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* READs of private memory that are posted in one list, when all goes well. */
#include <errno.h>
#include <string.h>

#include "lists.h"

#define ROUNDS 300
#define MARGIN 50000 /* more than a READ has */

UNIT_TEST(test_calls)
{
	struct ibv_send_wr *bad;

	open_both(false, 1024);
	list_make(16, 0);
	list.wr[15].send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(list_post(0, &bad), 1);
	end_expect(a.send_cq, 15, IBV_WC_SUCCESS);
	end_quiet(a.send_cq);
	for (unsigned i = 0; i < 16; i++)
		list_check(i, true);
	/* more than one call takes; all signalled */
	list_make(200, IBV_SEND_SIGNALED);
	assert_int_equal(list_post(0, &bad), 4);
	for (unsigned i = 0; i < 200; i++) {
		struct ibv_wc wc;

		end_wait(a.send_cq, &wc);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
		assert_int_equal(wc.byte_len, 64);
		list_check(i, true);
	}
	/* one is one */
	list_make(1, IBV_SEND_SIGNALED);
	assert_int_equal(list_post(0, &bad), 1);
	end_expect(a.send_cq, 0, IBV_WC_SUCCESS);
	close_both();
	open_both(true, 64);
	list_make(16, IBV_SEND_SIGNALED);
	assert_ok(list_post(0, &bad));
	for (unsigned i = 0; i < 16; i++)
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	close_both();
}

/* Others among them: in order, each seeing those before. */
UNIT_TEST(test_mixed)
{
	struct ibv_send_wr *bad;

	open_both(false, 64);
	list_make(10, IBV_SEND_SIGNALED);
	list.wr[4].opcode = IBV_WR_RDMA_WRITE; /* 128 * 4 to place(2) */
	list.wr[4].wr.rdma.remote_addr = far.info.addr + place(2);
	list.wr[5].wr.rdma.remote_addr = far.info.addr + place(2);
	list.wr[7].opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	list.wr[7].wr.atomic.remote_addr = far.info.addr;
	list.wr[7].wr.atomic.rkey = far.info.rkey;
	list.sge[7].length = 8;
	list.sge[8].length = 0;
	memset(a.mem + 128 * 4, 0xaa, 64);
	assert_in_range(list_post(0, &bad), 2, 3); /* 4; 2; the last, after the atomic, later */
	for (unsigned i = 0; i < 10; i++)
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 4; i++)
		list_check(i, true);
	assert_int_equal(a.mem[128 * 5], 0xaa);
	assert_int_equal(a.mem[128 * 5 + 63], 0xaa);
	list_check(6, true);
	assert_memory_equal(a.mem + 128 * 7, ((unsigned char[8]){ 0, 7, 14, 21, 28, 35, 42, 49 }),
			    8);
	list_check(9, true);
	close_both();
}

/* Mapped memory is read without a system call, also after, before and between such READs. */
UNIT_TEST(test_both_kinds)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	open_both(false, 64);
	wc = far_do(&far, FAR_CALL, DEED_MAPPED);
	read_until_mapped(wc.wr_id, wc.byte_len);
	list_make(12, IBV_SEND_SIGNALED);
	for (unsigned i = 0; i < 12; i++) {
		if (i / 4 == 1)
			continue;
		list.wr[i].wr.rdma.remote_addr = wc.wr_id + 64 * i;
		list.wr[i].wr.rdma.rkey = wc.byte_len;
	}
	assert_int_equal(list_post(0, &bad), 2); /* the first of four alone */
	for (unsigned i = 0; i < 12; i++) {
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
		if (i / 4 == 1)
			list_check(i, true);
		else
			assert_int_equal(a.mem[128 * i + 63], 0x99);
	}
	end_close(&a);
	far_kill(&far);
}

/* What post_send itself refuses. */
UNIT_TEST(test_refused)
{
	struct ibv_send_wr *bad = NULL;

	open_both(false, 10);
	list_make(16, IBV_SEND_SIGNALED);
	list.wr[6].num_sge = 99;
	list_post(EINVAL, &bad);
	assert_ptr_equal(bad, &list.wr[6]);
	for (unsigned i = 0; i < 6; i++)
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	end_quiet(a.send_cq);
	list_check(6, false);
	/* the queue is full: 10 places */
	list_make(16, 0);
	list.wr[9].send_flags = IBV_SEND_SIGNALED;
	list_post(ENOMEM, &bad);
	assert_ptr_equal(bad, &list.wr[10]);
	list_post(ENOMEM, &bad);
	assert_ptr_equal(bad, &list.wr[0]);
	end_expect(a.send_cq, 9, IBV_WC_SUCCESS);
	list_check(9, true);
	list_check(10, false);
	list_make(10, 0);
	assert_int_equal(list_post(0, &bad), 1);
	close_both();
}

/* The kernel copies less than all of it. */
UNIT_TEST(test_cut)
{
	struct ibv_send_wr *bad;

	open_both(false, 1024);
	for (size_t cut = 1; cut < 16 * 64; cut += 17) {
		list_make(16, IBV_SEND_SIGNALED);
		wrap.cut = cut;
		list_post(0, &bad);
		wrap.cut = CUT_NEVER;
		for (unsigned i = 0; i < 16; i++) {
			end_expect(a.send_cq, i, IBV_WC_SUCCESS);
			list_check(i, true);
		}
	}
	close_both();
}

/* Buffers and places that touch, overlap, or lie in one region of each other, by chance. */
UNIT_TEST(test_random)
{
	static unsigned char expected[LIST * PAGE];
	uint64_t seed = 12345;

	open_both(false, 1024);
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned count = 2 + round % 98;
		struct ibv_send_wr *bad;
		struct ibv_sge sge[100][SGES];
		size_t at = 0;

		list_make(count, 0);
		memset(expected, 0, sizeof(expected));
		list.wr[count - 1].send_flags = IBV_SEND_SIGNALED;
		for (unsigned i = 0; i < count; i++) {
			size_t from = (seed = seed * 6364136223846793005ull + 1) >> 33;

			/* as often as not right after the one before */
			from = seed >> 60 < 8 ? at : from % (LIST * PAGE - MARGIN);
			list.wr[i].wr.rdma.remote_addr = far.info.addr + from;
			list.wr[i].sg_list = sge[i];
			list.wr[i].num_sge = (int)(seed >> 40 & (SGES - 1)) + 1;
			for (int s = 0; s < list.wr[i].num_sge; s++) {
				size_t to, length;

				seed = seed * 6364136223846793005ull + 1;
				length = seed >> 33 & 0xff;
				if (s < 4 && (seed >> 50 & 15) == 0)
					length *= 37;
				to = s % 2 == 0 ? (seed >> 20) % 1000000
						: sge[i][s - 1].addr - (uintptr_t)a.mem +
							  sge[i][s - 1].length;
				sge[i][s] = (struct ibv_sge){ .addr = (uintptr_t)a.mem + to,
							      .length = (uint32_t)length,
							      .lkey = a.mr->lkey };
				for (size_t b = 0; b < length; b++)
					expected[to + b] = pattern(from + b);
				from += length;
			}
			at = from < LIST * PAGE - MARGIN ? from : 0;
		}
		assert_true(list_post(0, &bad) <= count);
		end_expect(a.send_cq, count - 1, IBV_WC_SUCCESS);
		assert_memory_equal(a.mem, expected, sizeof(expected));
	}
	close_both();
}
