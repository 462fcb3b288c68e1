/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "lists.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAP_TRIES    600
#define MAP_PAUSE_US 50000

struct wrap wrap;
struct far far;
struct end a;
struct list list;

ssize_t process_vm_readv(pid_t pid, const struct iovec *near, unsigned long nears,
			 const struct iovec *others, unsigned long fars, unsigned long flags)
{
	void (*before)(void) = wrap.before, (*after)(void) = wrap.after;
	struct iovec some[1024];
	size_t left = wrap.cut;
	ssize_t done;

	wrap.calls++;
	wrap.before = wrap.after = NULL;
	assert(fars <= 1024);
	for (unsigned long i = 0; i < fars; i++) {
		some[i] = others[i];
		if (some[i].iov_len > left)
			some[i].iov_len = left;
		left -= some[i].iov_len;
	}
	if (before)
		before();
	done = syscall(SYS_process_vm_readv, pid, near, nears, some, fars, flags);
	if (after)
		after();
	return done;
}

unsigned char pattern(size_t at)
{
	return (unsigned char)(at * 7 + (at >> 8) * 13 + (at >> 16));
}

/* Register more memory; key and address come back. The process takes it along in the end. */
static struct ibv_wc deed_register(struct end *end, bool mapped, int access)
{
	int fd = mapped ? memfd_create("more", MFD_CLOEXEC) : -1;
	struct ibv_mr *mr;
	void *memory;

	assert(!mapped || (fd >= 0 && ftruncate(fd, PAGE) == 0));
	memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		      mapped ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	assert(memory != MAP_FAILED);
	memset(memory, 0x99, PAGE);
	mr = softrdma_reg_mr(end->pd, memory, PAGE, (unsigned)access);
	assert(mr);
	return (struct ibv_wc){ .wr_id = (uintptr_t)memory, .byte_len = mr->rkey };
}

static struct ibv_wc deed_do(struct end *end, uint64_t deed)
{
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	switch (deed) {
	case DEED_FILL:
		for (size_t i = 0; i < end->size; i++)
			end->mem[i] = pattern(i);
		break;
	case DEED_UNREADABLE:
		return deed_register(end, false, IBV_ACCESS_LOCAL_WRITE);
	case DEED_MAPPED:
		return deed_register(end, true, END_ALL);
	case DEED_QP_ACCESS:
		assert(softrdma_modify_qp(end->qp, &attr, IBV_QP_ACCESS_FLAGS) == 0);
		break;
	default:
		assert(munmap(end->mem + deed, PAGE) == 0);
		break;
	}
	return (struct ibv_wc){ .status = 0 };
}

size_t place(unsigned i)
{
	return i * 37u % LIST * (size_t)PAGE + i % 8 * 8;
}

void list_make(unsigned count, unsigned flags)
{
	memset(&list, 0, sizeof(list));
	for (unsigned i = 0; i < count; i++) {
		list.sge[i] = (struct ibv_sge){ .addr = (uintptr_t)a.mem + 128 * i,
						.length = 64,
						.lkey = a.mr->lkey };
		list.wr[i] = (struct ibv_send_wr){
			.wr_id = i,
			.next = i + 1 < count ? &list.wr[i + 1] : NULL,
			.sg_list = &list.sge[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_READ,
			.send_flags = flags,
			.wr.rdma = { .remote_addr = far.info.addr + place(i),
				     .rkey = far.info.rkey },
		};
	}
	memset(a.mem, 0, a.size);
}

unsigned list_post(int expected, struct ibv_send_wr **bad)
{
	wrap.calls = 0;
	assert_int_equal(ibv_post_send(a.qp, list.wr, bad), expected);
	return wrap.calls;
}

void list_check(unsigned i, bool filled)
{
	for (unsigned at = 0; at < 128; at++)
		assert_int_equal(a.mem[128 * i + at],
				 filled && at < 64 ? pattern(place(i) + at) : 0);
}

void read_until_mapped(uint64_t addr, uint32_t rkey)
{
	for (unsigned i = 0; i < MAP_TRIES; i++) {
		wrap.calls = 0;
		assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, addr, rkey, IBV_SEND_SIGNALED));
		end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
		if (!wrap.calls)
			return;
		usleep(MAP_PAUSE_US);
	}
	fail_msg("it is never mapped");
}

void open_both(bool mapped, uint32_t send_wr)
{
	struct end_options other = { .mapped = mapped, .call = deed_do, .size = LIST * PAGE };
	struct end_options near = { .send_wr = send_wr,
				    .send_sge = SGES,
				    .size = LIST * PAGE,
				    .timeout = 20,
				    .cqe = 1024 };

	wrap.cut = CUT_NEVER;
	far_pair_open(&far, &a, &other, &near);
	far_do(&far, FAR_CALL, DEED_FILL);
	if (mapped) {
		read_until_mapped(far.info.addr, far.info.rkey);
		return;
	}
	/* the device learns that the memory is not mapped */
	assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, far.info.addr, far.info.rkey,
			   IBV_SEND_SIGNALED));
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
}

void close_both(void)
{
	far_pair_close(&far, &a);
}
