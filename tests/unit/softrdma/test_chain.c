/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * READs of private memory that are posted in one list. The system call that copies them is wrapped
 * here: counted, cut short, and preceded or followed by what the peer may do at that moment.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

#define LIST	  256
#define PAGE	  4096
#define SGES	  16
#define CUT_NEVER SIZE_MAX
#define ROUNDS	  300
#define MARGIN	  50000 /* more than a READ has */

static struct {
	unsigned calls;
	size_t cut; /* bytes that a call copies at most */
	void (*before)(void), (*after)(void); /* once */
} wrap;

ssize_t process_vm_readv(pid_t pid, const struct iovec *near, unsigned long nears,
			 const struct iovec *far, unsigned long fars, unsigned long flags)
{
	void (*before)(void) = wrap.before, (*after)(void) = wrap.after;
	struct iovec some[1024];
	size_t left = wrap.cut;
	ssize_t done;

	wrap.calls++;
	wrap.before = wrap.after = NULL;
	assert(fars <= 1024);
	for (unsigned long i = 0; i < fars; i++) {
		some[i] = far[i];
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

/* What the byte at @at of the far memory holds. */
static unsigned char pattern(size_t at)
{
	return (unsigned char)(at * 7 + (at >> 8) * 13 + (at >> 16));
}

/* What the far end does when called. From PAGE on: unmap that page. */
enum deed { DEED_FILL, DEED_UNREADABLE, DEED_MAPPED, DEED_QP_ACCESS };

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

/* A list of requests; by default READs of 64 bytes from places far from each other. */
struct list {
	struct ibv_send_wr wr[LIST];
	struct ibv_sge sge[LIST];
};

static struct far far;
static struct end a;
static struct list list;
static struct ibv_mr *unwritable; /* of the near memory */

static size_t place(unsigned i)
{
	return i * 37u % LIST * (size_t)PAGE + i % 8 * 8;
}

static void list_make(unsigned count, unsigned flags)
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

/* Post what was made; returns the number of system calls. */
static unsigned list_post(int expected, struct ibv_send_wr **bad)
{
	wrap.calls = 0;
	assert_int_equal(ibv_post_send(a.qp, list.wr, bad), expected);
	return wrap.calls;
}

static void list_check(unsigned i, bool filled)
{
	for (unsigned at = 0; at < 128; at++)
		assert_int_equal(a.mem[128 * i + at],
				 filled && at < 64 ? pattern(place(i) + at) : 0);
}

static void open_both(bool mapped, uint32_t send_wr)
{
	struct end_options other = { .mapped = mapped, .call = deed_do, .size = LIST * PAGE };
	struct end_options near = { .send_wr = send_wr,
				    .send_sge = SGES,
				    .size = LIST * PAGE,
				    .timeout = 20,
				    .cqe = 1024 };

	wrap.cut = CUT_NEVER;
	far_start(&far, &other);
	end_open(&a, &near);
	far_connect(&far, &a);
	far_do(&far, FAR_CALL, DEED_FILL);
	/* the device learns that the memory is not mapped */
	assert_int_equal(end_rdma(&a, IBV_WR_RDMA_READ, 1, 0, 8, far.info.addr, far.info.rkey,
				  IBV_SEND_SIGNALED),
			 0);
	end_expect(a.send_cq, 1, IBV_WC_SUCCESS);
}

static void close_both(void)
{
	end_close(&a);
	far_stop(&far);
}

static void test_calls(void **state)
{
	struct ibv_send_wr *bad;

	(void)state;
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
	assert_int_equal(list_post(0, &bad), 0);
	for (unsigned i = 0; i < 16; i++)
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	close_both();
}

/* Others among them: in order, each seeing those before. */
static void test_mixed(void **state)
{
	struct ibv_send_wr *bad;

	(void)state;
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
	assert_in_range(list_post(0, &bad), 2, 3); /* 4; 2; the last, behind the atomic, later */
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

enum middle {
	MIDDLE_RKEY,
	MIDDLE_LKEY,
	MIDDLE_BOUNDS,
	MIDDLE_UNMAPPED,
	MIDDLE_UNREADABLE,
	MIDDLE_UNWRITABLE,
	MIDDLES
};

/* Spoil request @at. Returns the status that it ends with. */
static enum ibv_wc_status middle_spoil(unsigned at, enum middle kind)
{
	struct ibv_wc wc;

	switch (kind) {
	case MIDDLE_RKEY:
		list.wr[at].wr.rdma.rkey ^= 1;
		return IBV_WC_REM_ACCESS_ERR;
	case MIDDLE_LKEY:
		list.sge[at].lkey ^= 1;
		return IBV_WC_LOC_PROT_ERR;
	case MIDDLE_BOUNDS:
		list.wr[at].wr.rdma.remote_addr = far.info.addr + LIST * PAGE - 63;
		return IBV_WC_REM_ACCESS_ERR;
	case MIDDLE_UNMAPPED:
		far_do(&far, FAR_CALL, place(at) / PAGE * PAGE);
		return IBV_WC_REM_OP_ERR;
	case MIDDLE_UNREADABLE:
		wc = far_do(&far, FAR_CALL, DEED_UNREADABLE);
		list.wr[at].wr.rdma.remote_addr = wc.wr_id;
		list.wr[at].wr.rdma.rkey = wc.byte_len;
		return IBV_WC_REM_ACCESS_ERR;
	default:
		list.sge[at].lkey = unwritable->lkey;
		return IBV_WC_LOC_PROT_ERR;
	}
}

/* An error in the middle: those before are done, those behind are flushed and touch nothing. */
static void middle_run(unsigned at, enum middle kind)
{
	enum ibv_wc_status status;
	struct ibv_send_wr *bad;

	open_both(false, 64);
	unwritable = softrdma_reg_mr(a.pd, a.mem, a.size, IBV_ACCESS_REMOTE_READ);
	list_make(16, 0);
	status = middle_spoil(at, kind);
	for (unsigned i = 0; i < 16; i += 2)
		list.wr[i].send_flags = IBV_SEND_SIGNALED;
	list_post(0, &bad);
	for (unsigned i = 0; i < 16; i++) {
		if (i < at && i % 2 == 0)
			end_expect(a.send_cq, i, IBV_WC_SUCCESS);
		else if (i >= at)
			end_expect(a.send_cq, i, i == at ? status : IBV_WC_WR_FLUSH_ERR);
		list_check(i, i < at);
	}
	end_quiet(a.send_cq);
	assert_int_equal(end_state(&a), IBV_QPS_ERR);
	assert_int_equal(softrdma_dereg_mr(unwritable), 0);
	end_close(&a);
	far_kill(&far); /* it may have more than it would give back */
}

static void test_middle(void **state)
{
	static const unsigned where[] = { 0, 1, 7, 15 };

	(void)state;
	for (enum middle kind = 0; kind < MIDDLES; kind++) {
		/* the first page was read before */
		for (unsigned i = kind == MIDDLE_UNMAPPED; i < 4; i++)
			middle_run(where[i], kind);
	}
}

/* The responder takes no READs any more. */
static void test_access(void **state)
{
	struct ibv_send_wr *bad;

	(void)state;
	open_both(false, 64);
	far_do(&far, FAR_CALL, DEED_QP_ACCESS);
	list_make(4, 0);
	list_post(0, &bad);
	end_expect(a.send_cq, 0, IBV_WC_REM_INV_REQ_ERR);
	for (unsigned i = 1; i < 4; i++)
		end_expect(a.send_cq, i, IBV_WC_WR_FLUSH_ERR);
	list_check(0, false);
	close_both();
}

/* Mapped memory is read without a system call, also after, before and between such READs. */
static void test_both_kinds(void **state)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	(void)state;
	open_both(false, 64);
	wc = far_do(&far, FAR_CALL, DEED_MAPPED);
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

/* Posted behind something that waits, they wait as well. */
static void test_behind(void **state)
{
	struct ibv_send_wr *bad;
	uint64_t word, before;

	(void)state;
	open_both(false, 64);
	memcpy(&word, (unsigned char[8]){ 0, 7, 14, 21, 28, 35, 42, 49 }, sizeof(word));
	kill(far.pid, SIGSTOP);
	waitpid(far.pid, NULL, WUNTRACED);
	assert_int_equal(end_atomic(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, 99, 128 * 8, far.info.addr,
				    far.info.rkey, 1, 0),
			 0);
	list_make(4, IBV_SEND_SIGNALED);
	list.wr[3].wr.rdma.remote_addr = far.info.addr;
	list_post(0, &bad);
	end_quiet(a.send_cq);
	list_check(0, false);
	kill(far.pid, SIGCONT);
	end_expect(a.send_cq, 99, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 4; i++)
		end_expect(a.send_cq, i, IBV_WC_SUCCESS);
	memcpy(&before, a.mem + 128 * 8, sizeof(before));
	assert_int_equal(before, word);
	memcpy(&before, a.mem + 128 * 3, sizeof(before));
	assert_int_equal(before, word + 1);
	close_both();
}

/* What post_send itself refuses. */
static void test_refused(void **state)
{
	struct ibv_send_wr *bad = NULL;

	(void)state;
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
static void test_cut(void **state)
{
	struct ibv_send_wr *bad;

	(void)state;
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

static void far_takes_back(void)
{
	far_do(&far, FAR_DEREG, 0xee);
}

static void far_to_error(void)
{
	far_do(&far, FAR_ERROR, 0xee);
}

static void far_dies(void)
{
	kill(far.pid, SIGKILL);
	waitpid(far.pid, NULL, 0);
}

/* The peer takes the region or the queue pair back, or dies, at the moment of the copy. */
static void test_meanwhile(void **state)
{
	static const struct {
		void (*what)(void);
		enum ibv_wc_status status;
	} runs[] = { { far_takes_back, IBV_WC_REM_ACCESS_ERR },
		     { far_to_error, IBV_WC_RETRY_EXC_ERR },
		     { far_dies, IBV_WC_RETRY_EXC_ERR } };

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		struct ibv_send_wr *bad;

		open_both(false, 64);
		list_make(16, IBV_SEND_SIGNALED);
		if (i < 3)
			wrap.before = runs[i].what;
		else
			wrap.after = runs[i - 3].what;
		list_post(0, &bad);
		assert_true(!wrap.before && !wrap.after);
		end_expect(a.send_cq, 0, runs[i % 3].status);
		for (unsigned k = 1; k < 16; k++)
			end_expect(a.send_cq, k, IBV_WC_WR_FLUSH_ERR);
		if (runs[i % 3].what == far_dies) {
			end_close(&a);
			far_kill(&far);
		} else {
			close_both();
		}
	}
}

/* Buffers and places that touch, overlap, or lie in one region of each other, by chance. */
static void test_random(void **state)
{
	static unsigned char expected[LIST * PAGE];
	uint64_t seed = 12345;

	(void)state;
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

			/* as often as not right behind the one before */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),	   cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_middle),	   cmocka_unit_test(test_refused),
		cmocka_unit_test(test_cut),	   cmocka_unit_test(test_meanwhile),
		cmocka_unit_test(test_random),	   cmocka_unit_test(test_access),
		cmocka_unit_test(test_both_kinds), cmocka_unit_test(test_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
