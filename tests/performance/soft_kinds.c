/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/performance/soft_kinds.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>

#include "common/base/time.h"
#include "tools/lib/samples.h"

static uint64_t random_place(struct soft_kinds *b)
{
	return bench_random(&b->seed) % (b->other.size / SOFT_BLOCK) * SOFT_BLOCK;
}

/* What is measured: each does @ops operations and returns 0 or a negative errno. */

static int do_memcpy(struct soft_kinds *b, uint64_t ops)
{
	for (uint64_t i = 0; i < ops; i++) {
		memcpy(b->end.buffer + i % SOFT_LIST * SOFT_BLOCK,
		       b->other.mapped + random_place(b), SOFT_BLOCK);
		/* as if somebody looked at each */
		__asm__ __volatile__("" ::"r"(b->end.buffer) : "memory");
	}
	return 0;
}

static int post(struct soft_kinds *b, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int rc = ibv_post_send(b->end.qp, wr, &bad);

	return rc ? -rc : soft_end_wait(&b->end);
}

static int singles(struct soft_kinds *b, uint64_t ops, uint64_t area, uint32_t rkey)
{
	struct ibv_send_wr *wr = &b->wr[SOFT_LIST - 1]; /* signalled, and last in the list */
	int rc = 0;

	wr->wr.rdma.rkey = rkey;
	for (uint64_t i = 0; i < ops && rc == 0; i++) {
		wr->wr.rdma.remote_addr = area + random_place(b);
		rc = post(b, wr);
	}
	return rc;
}

static int lists(struct soft_kinds *b, uint64_t ops, uint64_t area, uint32_t rkey, bool neighbours)
{
	int rc = 0;

	for (uint64_t i = 0; i < ops && rc == 0; i += SOFT_LIST) {
		uint64_t first = random_place(b);

		if (first > b->other.size - SOFT_LIST * SOFT_BLOCK)
			first = 0;
		for (unsigned k = 0; k < SOFT_LIST; k++) {
			b->wr[k].wr.rdma.rkey = rkey;
			b->wr[k].wr.rdma.remote_addr =
				area + (neighbours ? first + k * SOFT_BLOCK : random_place(b));
		}
		rc = post(b, b->wr);
	}
	return rc;
}

static int do_mapped_list(struct soft_kinds *b, uint64_t ops)
{
	return lists(b, ops, b->other.hello.mapped, b->other.hello.mapped_rkey, false);
}

static int do_write_list(struct soft_kinds *b, uint64_t ops)
{
	int rc;

	for (unsigned i = 0; i < SOFT_LIST; i++)
		b->wr[i].opcode = IBV_WR_RDMA_WRITE;
	rc = do_mapped_list(b, ops);
	for (unsigned i = 0; i < SOFT_LIST; i++)
		b->wr[i].opcode = IBV_WR_RDMA_READ;
	return rc;
}

static int do_mapped(struct soft_kinds *b, uint64_t ops)
{
	return singles(b, ops, b->other.hello.mapped, b->other.hello.mapped_rkey);
}

static int do_private(struct soft_kinds *b, uint64_t ops)
{
	return singles(b, ops, b->other.hello.private, b->other.hello.private_rkey);
}

static int do_private_list(struct soft_kinds *b, uint64_t ops)
{
	return lists(b, ops, b->other.hello.private, b->other.hello.private_rkey, false);
}

static int do_private_near(struct soft_kinds *b, uint64_t ops)
{
	return lists(b, ops, b->other.hello.private, b->other.hello.private_rkey, true);
}

/* The floor of the latter three: the system call itself, with as many ranges in a call. */
static int kernel(struct soft_kinds *b, uint64_t ops, unsigned ranges)
{
	struct iovec near[SOFT_LIST], far[SOFT_LIST];

	for (uint64_t i = 0; i < ops; i += ranges) {
		for (unsigned k = 0; k < ranges; k++) {
			near[k].iov_base = b->end.buffer + k * SOFT_BLOCK;
			far[k].iov_base = (void *)(b->other.hello.private + random_place(b));
			near[k].iov_len = far[k].iov_len = SOFT_BLOCK;
		}
		if (process_vm_readv(b->other.pid, near, ranges, far, ranges, 0) !=
		    (ssize_t)(ranges * SOFT_BLOCK))
			return -errno;
	}
	return 0;
}

static int do_kernel(struct soft_kinds *b, uint64_t ops)
{
	return kernel(b, ops, 1);
}

static int do_kernel_list(struct soft_kinds *b, uint64_t ops)
{
	return kernel(b, ops, SOFT_LIST);
}

static int do_atomic(struct soft_kinds *b, uint64_t ops)
{
	struct ibv_sge sge = { .addr = (uintptr_t)b->end.buffer,
			       .length = sizeof(uint64_t),
			       .lkey = b->end.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .send_flags = IBV_SEND_SIGNALED };
	int rc = 0;

	wr.wr.atomic.remote_addr = b->other.hello.private;
	wr.wr.atomic.rkey = b->other.hello.private_rkey;
	wr.wr.atomic.compare_add = 1;
	for (uint64_t i = 0; i < ops && rc == 0; i++)
		rc = post(b, &wr);
	return rc;
}

static int do_message(struct soft_kinds *b, uint64_t ops)
{
	int rc = soft_other_echo(&b->other, ops);

	for (uint64_t i = 0; i < ops && rc == 0; i++) {
		rc = soft_post_receive(&b->end, 0);
		if (rc == 0)
			rc = soft_post_message(&b->end, 1);
		/* ours is sent, and that of the other has come; in whichever order */
		if (rc == 0)
			rc = soft_end_wait(&b->end);
		if (rc == 0)
			rc = soft_end_wait(&b->end);
	}
	return rc ? rc : soft_other_ready(&b->other);
}

const struct soft_kind soft_kind[KINDS] = {
	[MEMCPY] = { "memcpy", "memcpy_ns", do_memcpy, 1 },
	[MAPPED_LIST] = { "READ, mapped, lists of 16", "mapped_list_ns", do_mapped_list, 1 },
	[MAPPED] = { "READ, mapped, one by one", "mapped_ns", do_mapped, 2 },
	[WRITE_LIST] = { "WRITE, mapped, lists of 16", "write_list_ns", do_write_list, 1 },
	[PRIVATE] = { "READ, private, one by one", "private_ns", do_private, 10 },
	[PRIVATE_LIST] = { "READ, private, lists of 16", "private_list_ns", do_private_list, 5 },
	[PRIVATE_NEAR] = { "READ, private, lists of 16 neighbours", "private_neighbours_ns",
			   do_private_near, 2 },
	[KERNEL] = { "process_vm_readv, one range", "kernel_ns", do_kernel, 10 },
	[KERNEL_LIST] = { "process_vm_readv, 16 ranges", "kernel_list_ns", do_kernel_list, 5 },
	[ATOMIC] = { "atomic, private", "atomic_ns", do_atomic, 100 },
	[MESSAGE] = { "message of 64 B there and back", "message_ns", do_message, 100 },
};

static uint64_t kind_ops(const struct soft_kinds *b, const struct soft_kind *kind)
{
	uint64_t ops = b->ops / kind->fewer / SOFT_LIST * SOFT_LIST;

	return ops ? ops : SOFT_LIST;
}

static void requests_make(struct soft_kinds *b)
{
	for (unsigned i = 0; i < SOFT_LIST; i++) {
		b->sge[i] = (struct ibv_sge){ .addr = (uintptr_t)b->end.buffer + i * SOFT_BLOCK,
					      .length = SOFT_BLOCK,
					      .lkey = b->end.mr->lkey };
		b->wr[i] = (struct ibv_send_wr){ .sg_list = &b->sge[i],
						 .num_sge = 1,
						 .opcode = IBV_WR_RDMA_READ };
		if (i < SOFT_LIST - 1)
			b->wr[i].next = &b->wr[i + 1];
		else
			b->wr[i].send_flags = IBV_SEND_SIGNALED;
	}
}

/* Round 0 warms up and is not kept. */
int soft_kinds_measure(struct soft_kinds *b, unsigned *kind)
{
	requests_make(b);
	for (uint64_t round = 0; round <= b->rounds; round++) {
		for (unsigned k = 0; k < KINDS; k++) {
			uint64_t ops = kind_ops(b, &soft_kind[k]), start;
			int rc;

			*kind = k;
			b->seed = round;
			start = time_now_ns();
			rc = soft_kind[k].run(b, ops);
			if (rc)
				return rc;
			if (round)
				b->ns[k][round - 1] = (double)(time_now_ns() - start) / (double)ops;
		}
	}
	return 0;
}
