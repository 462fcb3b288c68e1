/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Atomics on memory of three kinds: of the initiator's own process, of another process and mapped,
 * of another process and private, which that process executes itself.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/time.h"
#include "ends.h"

#define ADD	 IBV_WR_ATOMIC_FETCH_AND_ADD
#define CAS	 IBV_WR_ATOMIC_CMP_AND_SWP
#define PATIENT	 20 /* timeout: 4 seconds, 8 times */
#define EVENT_MS 2000
#define ADDERS	 3
#define ADDS	 50000 /* on mapped memory; a FEWth of that on private */
#define LOCKERS	 2
#define LOCKS	 4000
#define FEW	 40
#define SPIN_NS	 (60 * NS_PER_S)

enum place { OWN, MAPPED, PRIVATE, PLACES };

/* The end whose memory is operated on. */
struct target {
	enum place place;
	struct end end;
	struct far far;
	struct end_info info;
};

static void target_open(struct target *t, enum place place, struct end *a,
			const struct end_options *near, struct end_options *other)
{
	t->place = place;
	other->mapped = place == MAPPED;
	if (place == OWN) {
		pair_open(a, &t->end, near, other);
		t->info = end_info(&t->end);
		return;
	}
	far_start(&t->far, other);
	end_open(a, near);
	far_connect(&t->far, a);
	t->info = t->far.info;
}

static void target_close(struct target *t, struct end *a)
{
	end_close(a);
	if (t->place == OWN)
		end_close(&t->end);
	else
		far_stop(&t->far);
}

static struct ibv_wc target_call(struct target *t, uint64_t arg)
{
	return t->place == OWN ? t->end.options.call(&t->end, arg) : far_do(&t->far, FAR_CALL, arg);
}

/* One atomic that goes well; returns the value before. */
static uint64_t atomic_do(struct end *a, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey,
			  uint64_t compare_add, uint64_t swap)
{
	uint64_t before;
	struct ibv_wc wc;

	memset(a->mem, 0xcc, 24);
	assert_int_equal(end_atomic(a, opcode, 7, 8, addr, rkey, compare_add, swap), 0);
	end_wait(a->send_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.opcode, opcode == ADD ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP);
	assert_int_equal(wc.byte_len, 8);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(a->mem[i], 0xcc);
		assert_int_equal(a->mem[16 + i], 0xcc);
	}
	memcpy(&before, a->mem + 8, sizeof(before));
	return before;
}

static void word_write(struct end *a, uint64_t addr, uint32_t rkey, uint64_t value)
{
	memcpy(a->mem, &value, sizeof(value));
	assert_int_equal(end_rdma(a, IBV_WR_RDMA_WRITE, 8, 0, 8, addr, rkey, IBV_SEND_SIGNALED), 0);
	end_expect(a->send_cq, 8, IBV_WC_SUCCESS);
}

static uint64_t word_read(struct end *a, uint64_t addr, uint32_t rkey)
{
	uint64_t value;

	assert_int_equal(end_rdma(a, IBV_WR_RDMA_READ, 9, 0, 8, addr, rkey, IBV_SEND_SIGNALED), 0);
	end_expect(a->send_cq, 9, IBV_WC_SUCCESS);
	memcpy(&value, a->mem, sizeof(value));
	return value;
}

/* What the owner's own processor sees. */
static struct ibv_wc peek_word(struct end *end, uint64_t offset)
{
	uint64_t value = __atomic_load_n((uint64_t *)(void *)(end->mem + offset), __ATOMIC_SEQ_CST);

	return (struct ibv_wc){ .wr_id = value };
}

static void two_pieces(struct end *a, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge[2] = {
		{ .addr = (uintptr_t)a->mem + 101, .length = 3, .lkey = a->mr->lkey },
		{ .addr = (uintptr_t)a->mem + 200, .length = 5, .lkey = a->mr->lkey }
	};
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = sge,
				  .num_sge = 2,
				  .opcode = ADD,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.atomic = { .remote_addr = addr, .rkey = rkey } },
			   *bad;

	word_write(a, addr, rkey, 0x0807060504030201);
	assert_int_equal(ibv_post_send(a->qp, &wr, &bad), 0);
	end_expect(a->send_cq, 1, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(a->mem[i < 3 ? 101 + i : 200 + i - 3], i + 1);
}

static void test_values(void **state)
{
	(void)state;
	for (enum place place = OWN; place < PLACES; place++) {
		struct end_options near = { .timeout = PATIENT };
		struct end_options other = { .call = peek_word };
		struct target t;
		struct end a;
		uint32_t key;
		uint64_t at;

		target_open(&t, place, &a, &near, &other);
		key = t.info.rkey;
		at = t.info.addr + 64;
		word_write(&a, at - 8, key, 0x5a);
		word_write(&a, at + 8, key, 0x5b);
		word_write(&a, at, key, 100);
		assert_int_equal(atomic_do(&a, ADD, at, key, 5, 99), 100);
		assert_int_equal(target_call(&t, 64).wr_id, 105);
		assert_int_equal(word_read(&a, at, key), 105);
		assert_int_equal(atomic_do(&a, CAS, at, key, 105, 7), 105);
		assert_int_equal(word_read(&a, at, key), 7);
		assert_int_equal(atomic_do(&a, CAS, at, key, 1ull << 32 | 7, 9), 7);
		assert_int_equal(word_read(&a, at, key), 7);
		assert_true(atomic_do(&a, ADD, at, key, (uint64_t)-8, 0) == 7);
		assert_true(word_read(&a, at, key) == UINT64_MAX);
		assert_true(atomic_do(&a, CAS, at, key, UINT64_MAX, 1ull << 63) == UINT64_MAX);
		assert_true(target_call(&t, 64).wr_id == 1ull << 63);
		assert_int_equal(word_read(&a, at - 8, key), 0x5a);
		assert_int_equal(word_read(&a, at + 8, key), 0x5b);
		/* the last word of the region */
		assert_int_equal(atomic_do(&a, ADD, t.info.addr + (1 << 20) - 8, key, 1, 0), 0);
		two_pieces(&a, at, key);
		target_close(&t, &a);
	}
}

struct refusal {
	const char *what;
	int64_t shift;
	uint32_t key_xor;
	uint32_t length; /* 0: 8 */
	int qp_access, mr_access, local_access; /* 0: all */
	bool near_rd_atomic, other_rd_atomic; /* none there */
	enum ibv_wc_status status;
	int event; /* at the responder, or -1 */
};

#define NOT_ATOMIC (END_ALL & ~IBV_ACCESS_REMOTE_ATOMIC)

static const struct refusal refusals[] = {
	{ .what = "by four bytes off",
	  .shift = 4,
	  .status = IBV_WC_REM_INV_REQ_ERR,
	  .event = IBV_EVENT_QP_REQ_ERR },
	{ .what = "by one byte off",
	  .shift = 1,
	  .status = IBV_WC_REM_INV_REQ_ERR,
	  .event = IBV_EVENT_QP_REQ_ERR },
	{ .what = "QP without atomics",
	  .qp_access = NOT_ATOMIC,
	  .status = IBV_WC_REM_INV_REQ_ERR,
	  .event = IBV_EVENT_QP_REQ_ERR },
	{ .what = "responder takes no READs and atomics",
	  .other_rd_atomic = true,
	  .status = IBV_WC_REM_INV_REQ_ERR,
	  .event = IBV_EVENT_QP_REQ_ERR },
	{ .what = "region without atomics",
	  .mr_access = NOT_ATOMIC,
	  .status = IBV_WC_REM_ACCESS_ERR,
	  .event = IBV_EVENT_QP_ACCESS_ERR },
	{ .what = "behind the region",
	  .shift = 1 << 20,
	  .status = IBV_WC_REM_ACCESS_ERR,
	  .event = IBV_EVENT_QP_ACCESS_ERR },
	{ .what = "before the region",
	  .shift = -8,
	  .status = IBV_WC_REM_ACCESS_ERR,
	  .event = IBV_EVENT_QP_ACCESS_ERR },
	{ .what = "bad rkey",
	  .key_xor = 1,
	  .status = IBV_WC_REM_ACCESS_ERR,
	  .event = IBV_EVENT_QP_ACCESS_ERR },
	{ .what = "short buffer", .length = 4, .status = IBV_WC_LOC_LEN_ERR, .event = -1 },
	{ .what = "long buffer", .length = 16, .status = IBV_WC_LOC_LEN_ERR, .event = -1 },
	{ .what = "buffer not writable",
	  .local_access = IBV_ACCESS_REMOTE_READ,
	  .status = IBV_WC_LOC_PROT_ERR,
	  .event = -1 },
	{ .what = "initiator may have none under way",
	  .near_rd_atomic = true,
	  .status = IBV_WC_LOC_QP_OP_ERR,
	  .event = -1 },
};

/* Which event does the responder get? Its type and 1 come back in byte_len, or 0. */
static struct ibv_wc event_of(struct end *end, uint64_t wait_ms)
{
	struct pollfd look = { .fd = end->context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&look, 1, (int)wait_ms) != 1)
		return (struct ibv_wc){ .byte_len = 0 };
	assert(softrdma_get_async_event(end->context, &event) == 0);
	assert(event.element.qp == end->qp);
	softrdma_ack_async_event(&event);
	return (struct ibv_wc){ .byte_len = (uint32_t)event.event_type + 1 };
}

static void refusal_run(const struct refusal *r, enum place place)
{
	struct end_options near = { .mr_access = r->local_access,
				    .no_rd_atomic = r->near_rd_atomic,
				    .timeout = PATIENT };
	struct end_options other = { .qp_access = r->qp_access,
				     .mr_access = r->mr_access,
				     .no_rd_atomic = r->other_rd_atomic,
				     .call = event_of };
	struct ibv_sge sge = { .length = r->length ? r->length : 8 };
	struct ibv_send_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = CAS }, *bad;
	struct target t;
	struct end a;

	target_open(&t, place, &a, &near, &other);
	sge.addr = (uintptr_t)a.mem;
	sge.lkey = a.mr->lkey;
	wr.wr.atomic.remote_addr = t.info.addr + (uint64_t)r->shift;
	wr.wr.atomic.rkey = t.info.rkey ^ r->key_xor;
	wr.wr.atomic.swap = 1;
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	assert_int_equal(end_atomic(&a, ADD, 6, 0, t.info.addr, t.info.rkey, 1, 0), 0);
	end_expect(a.send_cq, 5, r->status);
	end_expect(a.send_cq, 6, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(target_call(&t, r->event < 0 ? 0 : EVENT_MS).byte_len, r->event + 1);
	target_close(&t, &a);
}

static void test_refusals(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		print_message("  %s\n", refusals[i].what);
		for (enum place place = OWN; place < PLACES; place++)
			refusal_run(&refusals[i], place);
	}
}

static void test_other_pd(void **state)
{
	struct end_options options = { .timeout = PATIENT };
	struct end a, b, stranger;

	(void)state;
	pair_open(&a, &b, &options, &options);
	end_open(&stranger, &options);
	assert_int_equal(
		end_atomic(&a, ADD, 1, 0, (uintptr_t)stranger.mem, stranger.mr->rkey, 1, 0), 0);
	end_expect(a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(stranger.mem[0], 0);
	end_close(&stranger);
	pair_close(&a, &b);
}

/* What waits behind one that the peer executes: in order, each seeing those before. */
static void test_order(void **state)
{
	struct end_options near = { .timeout = PATIENT };

	(void)state;
	for (enum place place = OWN; place < PLACES; place++) {
		struct end_options other = { .call = peek_word };
		struct target t;
		struct end a;
		uint64_t seventy = 70, got[4];

		target_open(&t, place, &a, &near, &other);
		memcpy(a.mem + 100, &seventy, 8);
		for (unsigned round = 0; round < 20; round++) {
			word_write(&a, t.info.addr, t.info.rkey, 10);
			assert_int_equal(end_atomic(&a, ADD, 0, 32, t.info.addr, t.info.rkey, 1, 0),
					 0);
			assert_int_equal(end_rdma(&a, IBV_WR_RDMA_READ, 1, 40, 8, t.info.addr,
						  t.info.rkey, IBV_SEND_SIGNALED),
					 0);
			/* the fence: IBTA lets a WRITE pass a READ and an atomic */
			assert_int_equal(end_rdma(&a, IBV_WR_RDMA_WRITE, 2, 100, 8, t.info.addr,
						  t.info.rkey, IBV_SEND_SIGNALED | IBV_SEND_FENCE),
					 0);
			assert_int_equal(
				end_atomic(&a, CAS, 3, 48, t.info.addr, t.info.rkey, 70, 3), 0);
			assert_int_equal(end_rdma(&a, IBV_WR_RDMA_READ, 4, 56, 8, t.info.addr,
						  t.info.rkey, IBV_SEND_SIGNALED),
					 0);
			for (unsigned i = 0; i < 5; i++)
				end_expect(a.send_cq, i, IBV_WC_SUCCESS);
			memcpy(got, a.mem + 32, sizeof(got));
			assert_int_equal(got[0], 10);
			assert_int_equal(got[1], 11);
			assert_int_equal(got[2], 70);
			assert_int_equal(got[3], 3);
		}
		assert_int_equal(target_call(&t, 0).wr_id, 3);
		target_close(&t, &a);
	}
}

/* What others do to the owner's words. In memory that all processes of the test share. */
static struct job {
	uint64_t addr, count;
	uint32_t rkey, id;
} * jobs;

/* As end_wait(), but leaves the processors to others: there are more processes than those. */
static void wait_asleep(struct ibv_cq *cq, struct ibv_wc *wc)
{
	uint64_t deadline = time_now_ns() + SPIN_NS;

	while (ibv_poll_cq(cq, 1, wc) == 0) {
		assert(time_now_ns() < deadline);
		usleep(5);
	}
}

/* Add 1, so often; each value before is larger than the last. */
static struct ibv_wc add_many(struct end *end, uint64_t index)
{
	const struct job *job = &jobs[index];
	uint64_t last = 0, before;
	struct ibv_wc wc;

	for (uint64_t i = 0; i < job->count; i++) {
		assert(end_atomic(end, ADD, i, 0, job->addr, job->rkey, 1, 0) == 0);
		wait_asleep(end->send_cq, &wc);
		memcpy(&before, end->mem, sizeof(before));
		assert(wc.status == IBV_WC_SUCCESS && (i == 0 || before > last));
		last = before;
	}
	return wc;
}

/* Take a lock, add 1 by READ and WRITE, give it back; the count lies behind the lock. */
static struct ibv_wc lock_many(struct end *end, uint64_t index)
{
	const struct job *job = &jobs[index];
	uint64_t deadline = time_now_ns() + SPIN_NS, count;

	for (uint64_t i = 0; i < job->count; i++) {
		while (atomic_do(end, CAS, job->addr, job->rkey, 0, job->id) != 0) {
			assert(time_now_ns() < deadline);
			sched_yield();
		}
		count = word_read(end, job->addr + 8, job->rkey);
		word_write(end, job->addr + 8, job->rkey, count + 1);
		assert(atomic_do(end, CAS, job->addr, job->rkey, job->id, 0) == job->id);
	}
	return (struct ibv_wc){ .status = IBV_WC_SUCCESS };
}

/*
 * @count processes work on memory of this one, for which we give the processor to do: @beside is
 * called until they are done.
 */
static void many(unsigned count, bool mapped, struct ibv_wc (*work)(struct end *, uint64_t),
		 uint64_t times, void (*beside)(struct end *))
{
	struct end_options other = { .timeout = PATIENT, .call = work };
	struct end_options near = { .mapped = mapped, .timeout = PATIENT };
	struct end end[ADDERS];
	struct far far[ADDERS];

	for (unsigned i = 0; i < count; i++)
		far_start(&far[i], &other);
	near.context = softrdma_open_device(softrdma_device());
	near.pd = softrdma_alloc_pd(near.context);
	for (unsigned i = 0; i < count; i++) {
		end_open(&end[i], &near);
		far_connect(&far[i], &end[i]);
		jobs[i] = (struct job){ .addr = (uintptr_t)end[0].mem,
					.count = times,
					.rkey = end[0].mr->rkey,
					.id = i + 1 };
	}
	for (unsigned i = 0; i < count; i++)
		far_ask(&far[i], FAR_CALL, i);
	beside(&end[0]);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(far_answer(&far[i]).status, IBV_WC_SUCCESS);
		far_stop(&far[i]);
	}
	if (work == add_many)
		assert_int_equal(peek_word(&end[0], 0).wr_id, (count + 1) * times);
	else
		assert_int_equal(peek_word(&end[0], 8).wr_id, count * times);
	for (unsigned i = 0; i < count; i++)
		end_close(&end[i]);
	assert_int_equal(softrdma_dealloc_pd(near.pd), 0);
	assert_int_equal(softrdma_close_device(near.context), 0);
}

/* The owner adds as well, with its processor, over about as long as the others take. */
static void add_too(struct end *end)
{
	for (uint64_t i = 0; i < jobs[0].count; i++) {
		__atomic_fetch_add((uint64_t *)(void *)end->mem, 1, __ATOMIC_SEQ_CST);
		if (!end->options.mapped)
			usleep(1);
		else if (i % 4 == 0)
			sched_yield();
	}
}

static void nothing(struct end *end)
{
	(void)end;
}

static void test_sum(void **state)
{
	(void)state;
	many(ADDERS, true, add_many, ADDS, add_too);
	many(ADDERS, false, add_many, ADDS / FEW, add_too);
}

static void test_lock(void **state)
{
	(void)state;
	many(LOCKERS, true, lock_many, LOCKS, nothing);
	many(LOCKERS, false, lock_many, LOCKS / FEW, nothing);
}

/* Two processes ask each other, at the same time, on one pair of queue pairs. */
static void test_cross(void **state)
{
	struct end_options options = { .timeout = PATIENT, .call = add_many };
	struct far far;
	struct end a;

	(void)state;
	far_start(&far, &options);
	end_open(&a, &options);
	far_connect(&far, &a);
	jobs[0] = (struct job){ .addr = (uintptr_t)a.mem + 64,
				.count = ADDS / FEW,
				.rkey = a.mr->rkey };
	jobs[1] = (struct job){ .addr = far.info.addr + 64,
				.count = ADDS / FEW,
				.rkey = far.info.rkey };
	far_ask(&far, FAR_CALL, 0);
	add_many(&a, 1);
	far_answer(&far);
	assert_int_equal(peek_word(&a, 64).wr_id, ADDS / FEW);
	assert_int_equal(word_read(&a, far.info.addr + 64, far.info.rkey), ADDS / FEW);
	end_close(&a);
	far_stop(&far);
}

static void test_query(void **state)
{
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_device_attr attr;

	(void)state;
	assert_int_equal(softrdma_query_device(context, &attr), 0);
	assert_int_equal(attr.atomic_cap, IBV_ATOMIC_GLOB);
	assert_true(attr.max_qp_rd_atom > 0 && attr.max_qp_init_rd_atom > 0);
	assert_int_equal(softrdma_close_device(context), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_query),	 cmocka_unit_test(test_values),
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_other_pd),
		cmocka_unit_test(test_order),	 cmocka_unit_test(test_sum),
		cmocka_unit_test(test_lock),	 cmocka_unit_test(test_cross),
	};

	jobs = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert(jobs != MAP_FAILED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
