/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Regions that change, and regions whose addresses are not those of the memory. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "ends.h"

#define HALF (1u << 19)

static enum ibv_wc_status read_status(struct end *a, uint64_t remote, uint32_t rkey)
{
	struct ibv_wc wc;

	assert_ok(end_rdma(a, IBV_WR_RDMA_READ, 1, 0, 64, remote, rkey, IBV_SEND_SIGNALED));
	end_wait(a->send_cq, &wc);
	return wc.status;
}

static enum ibv_wc_status write_status(struct end *a, uint64_t remote, uint32_t rkey)
{
	struct ibv_wc wc;

	assert_ok(end_rdma(a, IBV_WR_RDMA_WRITE, 1, 0, 64, remote, rkey, IBV_SEND_SIGNALED));
	end_wait(a->send_cq, &wc);
	return wc.status;
}

/* A failed access puts both ends into ERR. */
static void again(struct end *a, struct end *b)
{
	assert_ok(end_to(a, IBV_QPS_RESET));
	assert_ok(end_to(b, IBV_QPS_RESET));
	end_connect(a, b->qp->qp_num);
	end_connect(b, a->qp->qp_num);
}

UNIT_TEST(test_translation)
{
	struct end_options options = { .mapped = false };
	struct end a, b;
	uint32_t before;

	pair_open(&a, &b, &options, &options);
	memset(b.mem, 1, HALF);
	memset(b.mem + HALF, 2, HALF);
	before = b.mr->rkey;
	assert_ok(softrdma_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b.mem + HALF, 4096,
				    0));
	assert_int_not_equal(b.mr->rkey, before);
	assert_int_equal(b.mr->lkey, b.mr->rkey);
	assert_ptr_equal(b.mr->addr, b.mem + HALF);
	assert_int_equal(b.mr->length, 4096);
	assert_int_equal(read_status(&a, b.base + HALF, b.mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(a.mem[0], 2);
	assert_int_equal(read_status(&a, b.base + HALF + 4096 - 64, b.mr->rkey), IBV_WC_SUCCESS);
	/* access goes along */
	assert_int_equal(write_status(&a, b.base + HALF, b.mr->rkey), IBV_WC_SUCCESS);
	/* the old key, after the new end, before the new start */
	assert_int_equal(read_status(&a, b.base + HALF, before), IBV_WC_REM_ACCESS_ERR);
	again(&a, &b);
	assert_int_equal(read_status(&a, b.base + HALF + 4096, b.mr->rkey), IBV_WC_REM_ACCESS_ERR);
	again(&a, &b);
	assert_int_equal(read_status(&a, b.base, b.mr->rkey), IBV_WC_REM_ACCESS_ERR);
	again(&a, &b);
	/* and locally: b sends from the new place, not with the old key */
	before = a.mr->lkey;
	assert_ok(end_recv(&a, 5, 0, 64));
	assert_ok(end_send(&b, 6, HALF, 64, IBV_SEND_SIGNALED));
	end_expect(b.send_cq, 6, IBV_WC_SUCCESS);
	end_expect(a.recv_cq, 5, IBV_WC_SUCCESS);
	assert_ok(end_send(&b, 7, 0, 64, IBV_SEND_SIGNALED));
	end_expect(b.send_cq, 7, IBV_WC_LOC_PROT_ERR);
	pair_close(&a, &b);
}

UNIT_TEST(test_pd)
{
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_pd *one = softrdma_alloc_pd(context), *two = softrdma_alloc_pd(context);
	struct end_options first = { .context = context, .pd = one };
	struct end_options second = { .context = context, .pd = two };
	struct end a, b, c, d;
	struct ibv_mr *mr;

	pair_open(&a, &b, &first, &first);
	pair_open(&c, &d, &second, &second);
	mr = softrdma_reg_mr(one, b.mem, b.size, END_ALL);
	assert_non_null(mr);
	assert_int_equal(read_status(&a, b.base, mr->rkey), IBV_WC_SUCCESS);
	assert_ok(softrdma_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, two, NULL, 0, 0));
	assert_ptr_equal(mr->pd, two);
	assert_ptr_equal(mr->addr, b.mem);
	assert_int_equal(read_status(&c, b.base, mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(read_status(&a, b.base, mr->rkey), IBV_WC_REM_ACCESS_ERR);
	pair_close(&a, &b);
	pair_close(&c, &d);
	/* it holds the one it is in, and no longer the other */
	assert_int_equal(softrdma_dealloc_pd(two), EBUSY);
	assert_ok(softrdma_dealloc_pd(one));
	assert_ok(softrdma_dereg_mr(mr));
	assert_ok(softrdma_dealloc_pd(two));
	assert_ok(softrdma_close_device(context));
}

UNIT_TEST(test_access)
{
	struct end_options options = { .mapped = false };
	struct end a, b;

	pair_open(&a, &b, &options, &options);
	assert_ok(softrdma_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				    IBV_ACCESS_REMOTE_READ));
	assert_int_equal(read_status(&a, b.base, b.mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(write_status(&a, b.base, b.mr->rkey), IBV_WC_REM_ACCESS_ERR);
	again(&a, &b);
	assert_ok(softrdma_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(write_status(&a, b.base, b.mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(read_status(&a, b.base, b.mr->rkey), IBV_WC_REM_ACCESS_ERR);
	again(&a, &b);
	/* none at all */
	assert_ok(softrdma_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0));
	assert_int_equal(read_status(&a, b.base, b.mr->rkey), IBV_WC_REM_ACCESS_ERR);
	pair_close(&a, &b);
}

struct refusal {
	const char *what;
	int flags;
	enum { NO_PD, OWN_PD, OTHER_CONTEXT } pd;
	enum { NOTHING, MEMORY, HOLE, READ_ONLY } addr;
	size_t length;
	int access, code;
};

static const struct refusal refusals[] = {
	{ "no flag", 0, NO_PD, NOTHING, 0, 0, EINVAL },
	{ "unknown flag", 8, NO_PD, NOTHING, 0, 0, EINVAL },
	{ "no address", IBV_REREG_MR_CHANGE_TRANSLATION, NO_PD, NOTHING, 64, 0, EINVAL },
	{ "no length", IBV_REREG_MR_CHANGE_TRANSLATION, NO_PD, MEMORY, 0, 0, EINVAL },
	{ "wraps", IBV_REREG_MR_CHANGE_TRANSLATION, NO_PD, MEMORY, SIZE_MAX, 0, EINVAL },
	{ "no memory", IBV_REREG_MR_CHANGE_TRANSLATION, NO_PD, HOLE, 4096, 0, EFAULT },
	{ "read-only memory", IBV_REREG_MR_CHANGE_TRANSLATION, NO_PD, READ_ONLY, 4096, 0, EFAULT },
	{ "no PD", IBV_REREG_MR_CHANGE_PD, NO_PD, NOTHING, 0, 0, EINVAL },
	{ "PD of another context", IBV_REREG_MR_CHANGE_PD, OTHER_CONTEXT, NOTHING, 0, 0, EINVAL },
	{ "access without its flag", IBV_REREG_MR_CHANGE_PD, OWN_PD, NOTHING, 0,
	  IBV_ACCESS_LOCAL_WRITE, EINVAL },
	{ "remote without local", IBV_REREG_MR_CHANGE_ACCESS, NO_PD, NOTHING, 0,
	  IBV_ACCESS_REMOTE_WRITE, EINVAL },
	{ "unknown access", IBV_REREG_MR_CHANGE_ACCESS, NO_PD, NOTHING, 0, 1 << 8, EINVAL },
	{ "on demand", IBV_REREG_MR_CHANGE_ACCESS, NO_PD, NOTHING, 0, IBV_ACCESS_ON_DEMAND,
	  EOPNOTSUPP },
};

/* The region is as it was: same key, same place, and it works. */
UNIT_TEST(test_refused)
{
	struct end_options options = { .mapped = false };
	struct ibv_context *other = softrdma_open_device(softrdma_device());
	struct ibv_pd *stranger = softrdma_alloc_pd(other);
	unsigned char *pages;
	struct end a, b;
	uint32_t key;

	pair_open(&a, &b, &options, &options);
	key = b.mr->rkey;
	pages = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(pages != MAP_FAILED);
	for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		const struct refusal *r = &refusals[i];
		struct ibv_pd *pds[] = { NULL, b.pd, stranger };
		void *addrs[] = { NULL, b.mem, (void *)4096, pages };

		print_message("  %s\n", r->what);
		errno = 0;
		assert_int_equal(softrdma_rereg_mr(b.mr, r->flags, pds[r->pd], addrs[r->addr],
						   r->length, r->access),
				 IBV_REREG_MR_ERR_INPUT);
		assert_int_equal(errno, r->code);
		assert_int_equal(b.mr->rkey, key);
		assert_ptr_equal(b.mr->addr, b.mem);
		assert_int_equal(b.mr->length, b.size);
		assert_ptr_equal(b.mr->pd, b.pd);
		assert_int_equal(write_status(&a, b.base, key), IBV_WC_SUCCESS);
		assert_int_equal(read_status(&a, b.base + b.size - 64, key), IBV_WC_SUCCESS);
	}
	munmap(pages, 4096);
	pair_close(&a, &b);
	assert_ok(softrdma_dealloc_pd(stranger));
	assert_ok(softrdma_close_device(other));
}

/* All three at once; and a region with addresses of its own gets those of the memory. */
UNIT_TEST(test_all)
{
	struct end_options options = { .iova = true };
	struct end a, b, c;

	pair_open(&a, &b, &options, &options);
	end_open(&c, &options);
	b.mem[HALF] = 77;
	assert_int_equal(read_status(&a, END_IOVA + HALF, b.mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(a.mem[0], 77);
	/* the access alone: addresses stay */
	assert_ok(softrdma_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				    IBV_ACCESS_REMOTE_READ));
	a.mem[0] = 0;
	assert_int_equal(read_status(&a, END_IOVA + HALF, b.mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(a.mem[0], 77);
	assert_ok(softrdma_rereg_mr(b.mr,
				    IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
					    IBV_REREG_MR_CHANGE_ACCESS,
				    b.pd, b.mem + HALF, 64, END_ALL));
	a.mem[0] = 0;
	assert_int_equal(read_status(&a, (uintptr_t)b.mem + HALF, b.mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(a.mem[0], 77);
	assert_int_equal(write_status(&a, (uintptr_t)b.mem + HALF, b.mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(read_status(&a, END_IOVA + HALF, b.mr->rkey), IBV_WC_REM_ACCESS_ERR);
	end_close(&c);
	pair_close(&a, &b);
}

/* READ and WRITE of what the region calls END_IOVA, at its edges, and a list of READs. */
static void iova_rdma(struct end *a, uint64_t remote, uint32_t rkey, size_t size)
{
	struct ibv_send_wr wr[4], *bad;
	struct ibv_sge sge[4];

	memset(a->mem, 0x5a, 64);
	assert_int_equal(write_status(a, remote, rkey), IBV_WC_SUCCESS);
	memset(a->mem, 0x6b, 64);
	assert_int_equal(write_status(a, remote + size - 64, rkey), IBV_WC_SUCCESS);
	memset(wr, 0, sizeof(wr));
	for (unsigned i = 0; i < 4; i++) {
		sge[i] = (struct ibv_sge){ a->base + 4096 + i * 64, 64, a->mr->lkey };
		wr[i].wr_id = i;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].opcode = IBV_WR_RDMA_READ;
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].wr.rdma.remote_addr = i & 1 ? remote + size - 64 : remote;
		wr[i].wr.rdma.rkey = rkey;
	}
	assert_ok(ibv_post_send(a->qp, wr, &bad));
	for (unsigned i = 0; i < 4; i++) {
		end_expect(a->send_cq, i, IBV_WC_SUCCESS);
		for (unsigned j = 0; j < 64; j++)
			assert_int_equal(a->mem[4096 + i * 64 + j], i & 1 ? 0x6b : 0x5a);
	}
}

static void iova_far(bool mapped)
{
	struct end_options options = { .mapped = mapped, .iova = true, .rnr_retry = 7 };
	struct far far;
	struct end a;
	struct ibv_wc wc;

	far_pair_open(&far, &a, &options, &options);
	assert_int_equal(far.info.addr, END_IOVA);
	iova_rdma(&a, far.info.addr, far.info.rkey, a.size);
	assert_int_equal(far_do(&far, FAR_PEEK, 0).byte_len, 0x5a);
	assert_int_equal(far_do(&far, FAR_PEEK, a.size - 1).byte_len, 0x6b);
	/* into its buffer, and from its buffer into ours */
	far_do(&far, FAR_RECV, 64);
	memset(a.mem, 0x7c, 64);
	assert_ok(end_send(&a, 1, 0, 64, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
	wc = far_do(&far, FAR_POLL, 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(far_do(&far, FAR_PEEK, 63).byte_len, 0x7c);
	assert_ok(end_recv(&a, 2, 8192, 64));
	assert_int_equal(far_do(&far, FAR_SEND, 64).status, IBV_WC_SUCCESS);
	end_expect(a.recv_cq, 2, IBV_WC_SUCCESS);
	assert_memory_equal(a.mem + 8192, a.mem, 64);
	/* one before, one after */
	assert_int_equal(read_status(&a, far.info.addr - 1, far.info.rkey), IBV_WC_REM_ACCESS_ERR);
	far_pair_close(&far, &a);
	far_pair_open(&far, &a, &options, &options);
	assert_int_equal(read_status(&a, far.info.addr + a.size - 63, far.info.rkey),
			 IBV_WC_REM_ACCESS_ERR);
	far_pair_close(&far, &a);
}

UNIT_TEST(test_iova)
{
	struct end_options options = { .iova = true };
	struct end a, b;

	iova_far(true);
	iova_far(false);
	pair_open(&a, &b, &options, &options);
	iova_rdma(&a, END_IOVA, b.mr->rkey, b.size);
	assert_int_equal(b.mem[0], 0x5a);
	assert_int_equal(b.mem[b.size - 1], 0x6b);
	assert_ptr_equal(b.mr->addr, b.mem);
	memset(a.mem, 0x7c, 64);
	assert_ok(end_recv(&b, 3, 4096, 64));
	assert_ok(end_send(&a, 4, 0, 64, IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 4, IBV_WC_SUCCESS);
	end_expect(b.recv_cq, 3, IBV_WC_SUCCESS);
	assert_memory_equal(b.mem + 4096, a.mem, 64);
	/* the address of the memory is none of the region */
	assert_int_equal(read_status(&a, (uintptr_t)b.mem, b.mr->rkey), IBV_WC_REM_ACCESS_ERR);
	again(&a, &b);
	a.base = (uintptr_t)a.mem;
	assert_int_equal(read_status(&a, END_IOVA, b.mr->rkey), IBV_WC_LOC_PROT_ERR);
	pair_close(&a, &b);
}

UNIT_TEST(test_flags)
{
	struct end_options options = { .mapped = false };
	const struct {
		int access, code;
	} bad[] = {
		{ IBV_ACCESS_ON_DEMAND, EOPNOTSUPP },
		{ IBV_ACCESS_MW_BIND, EOPNOTSUPP },
		{ IBV_ACCESS_ZERO_BASED, EOPNOTSUPP },
		{ IBV_ACCESS_ON_DEMAND | END_ALL, EOPNOTSUPP },
		{ 1 << 8, EINVAL },
		{ 1 << 8 | IBV_ACCESS_ON_DEMAND, EINVAL },
		{ 1 << 30, EINVAL },
		{ IBV_ACCESS_REMOTE_ATOMIC, EINVAL },
	};
	struct ibv_mr *mr;
	struct end a;

	end_open(&a, &options);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		assert_null(softrdma_reg_mr(a.pd, a.mem, a.size, (unsigned)bad[i].access));
		assert_int_equal(errno, bad[i].code);
	}
	mr = softrdma_reg_mr(a.pd, a.mem, a.size,
			     END_ALL | IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_HUGETLB |
				     IBV_ACCESS_REMOTE_ATOMIC);
	assert_non_null(mr);
	assert_ok(softrdma_dereg_mr(mr));
	assert_null(softrdma_reg_mr_iova(a.pd, a.mem, a.size, UINT64_MAX - 4096, END_ALL));
	assert_int_equal(errno, EINVAL);
	assert_null(softrdma_reg_mr_iova(a.pd, (void *)(UINTPTR_MAX - 4095), 8192, 0, END_ALL));
	assert_int_equal(errno, EINVAL);
	mr = softrdma_reg_mr_iova(a.pd, a.mem, a.size, 0, END_ALL);
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, a.mem);
	assert_ok(softrdma_dereg_mr(mr));
	end_close(&a);
}
