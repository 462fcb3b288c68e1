/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Atomics on memory of three kinds: of the initiator's own process, of another process and mapped,
 * of another process and private, which that process executes itself.
 */
#include <assert.h>
#include <poll.h>
#include <string.h>

#include "ends.h"
#include "words.h"

#define ADD	 IBV_WR_ATOMIC_FETCH_AND_ADD
#define CAS	 IBV_WR_ATOMIC_CMP_AND_SWP
#define PATIENT	 20 /* timeout: 4 seconds, 8 times */
#define EVENT_MS 2000

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
	assert_ok(ibv_post_send(a->qp, &wr, &bad));
	end_expect(a->send_cq, 1, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(a->mem[i < 3 ? 101 + i : 200 + i - 3], i + 1);
}

UNIT_TEST(test_values)
{
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
		assert_ok(atomic_do(&a, ADD, t.info.addr + (1 << 20) - 8, key, 1, 0));
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
	assert_ok(ibv_post_send(a.qp, &wr, &bad));
	assert_ok(end_atomic(&a, ADD, 6, 0, t.info.addr, t.info.rkey, 1, 0));
	end_expect(a.send_cq, 5, r->status);
	end_expect(a.send_cq, 6, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(target_call(&t, r->event < 0 ? 0 : EVENT_MS).byte_len, r->event + 1);
	target_close(&t, &a);
}

UNIT_TEST(test_refusals)
{
	for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		print_message("  %s\n", refusals[i].what);
		for (enum place place = OWN; place < PLACES; place++)
			refusal_run(&refusals[i], place);
	}
}

UNIT_TEST(test_other_pd)
{
	struct end_options options = { .timeout = PATIENT };
	struct end a, b, stranger;

	pair_open(&a, &b, &options, &options);
	end_open(&stranger, &options);
	assert_ok(end_atomic(&a, ADD, 1, 0, (uintptr_t)stranger.mem, stranger.mr->rkey, 1, 0));
	end_expect(a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(stranger.mem[0], 0);
	end_close(&stranger);
	pair_close(&a, &b);
}

/* What waits after one that the peer executes: in order, each seeing those before. */
UNIT_TEST(test_order)
{
	struct end_options near = { .timeout = PATIENT };

	for (enum place place = OWN; place < PLACES; place++) {
		struct end_options other = { .call = peek_word };
		struct target t;
		struct end a;
		uint64_t seventy = 70, got[4];

		target_open(&t, place, &a, &near, &other);
		memcpy(a.mem + 100, &seventy, 8);
		for (unsigned round = 0; round < 20; round++) {
			word_write(&a, t.info.addr, t.info.rkey, 10);
			assert_ok(end_atomic(&a, ADD, 0, 32, t.info.addr, t.info.rkey, 1, 0));
			assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 1, 40, 8, t.info.addr, t.info.rkey,
					   IBV_SEND_SIGNALED));
			/* the fence: IBTA lets a WRITE pass a READ and an atomic */
			assert_ok(end_rdma(&a, IBV_WR_RDMA_WRITE, 2, 100, 8, t.info.addr,
					   t.info.rkey, IBV_SEND_SIGNALED | IBV_SEND_FENCE));
			assert_ok(end_atomic(&a, CAS, 3, 48, t.info.addr, t.info.rkey, 70, 3));
			assert_ok(end_rdma(&a, IBV_WR_RDMA_READ, 4, 56, 8, t.info.addr, t.info.rkey,
					   IBV_SEND_SIGNALED));
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

UNIT_TEST(test_query)
{
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_device_attr attr;

	assert_ok(softrdma_query_device(context, &attr));
	assert_int_equal(attr.atomic_cap, IBV_ATOMIC_GLOB);
	assert_true(attr.max_qp_rd_atom > 0 && attr.max_qp_init_rd_atom > 0);
	assert_ok(softrdma_close_device(context));
}
