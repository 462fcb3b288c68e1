/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What the protocols rest on, asked of a device: the order of one queue pair, words that are whole,
 * and that nothing reaches memory that was taken back. Two queue pairs of this process, connected
 * with each other. On the device that the first argument or $GRACEKV_TEST_DEVICE names, with the
 * GID of the address in $GRACEKV_TEST_HOST; else on soft0.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "common/rdma/post.h"
#include "common/rdma/qp.h"
#include "common/rdma/region.h"

#define PAGE	65536u
#define WAIT_NS (20 * NS_PER_S)
#define ROUNDS	200u
#define WORDS	20000u /* READs of words that change */
#define OPEN	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static struct rdma_device *dev;

/* What this side has, and the far side's memory. */
static struct {
	struct rdma_cq cq, far_cq;
	struct rdma_qp qp, far;
	struct rdma_buffer near_mem, far_mem;
} pair;

static void must(int rc, const struct error *err)
{
	if (rc)
		fail_msg("%s", err->text);
}

void unit_begin(const char *argument)
{
	const char *name = argument ? argument : getenv("GRACEKV_TEST_DEVICE");
	struct rdma_options o = rdma_options_default();
	struct error err = { 0 };

	o.device = name ? name : "soft0";
	/* what is meant to fail does so in a second, not in many */
	o.timeout = 10;
	o.retry_cnt = 3;
	o.rnr_retry = 1;
	if (rdma_device_open(&dev, &o, getenv("GRACEKV_TEST_HOST"), &err)) {
		print_error("%s\n", err.text);
		exit(1);
	}
	print_message("%s: %s\n", dev->name, dev->choice);
}

static int set_up(void **state)
{
	struct rdma_qp_config config = { .max_send = 64,
					 .max_recv = 4,
					 .max_send_sge = 3,
					 .inline_wish = 64,
					 .remote_access = OPEN & ~IBV_ACCESS_LOCAL_WRITE };
	struct wire_qp offer[2];
	struct error err = { 0 };

	memset(&pair, 0, sizeof(pair));
	must(rdma_cq_create(dev, 256, 0, true, &pair.cq, &err), &err);
	must(rdma_cq_create(dev, 256, 0, false, &pair.far_cq, &err), &err);
	config.cq = &pair.cq;
	must(rdma_qp_create(dev, &config, &pair.qp, &err), &err);
	config.cq = &pair.far_cq;
	must(rdma_qp_create(dev, &config, &pair.far, &err), &err);
	must(rdma_buffer_create(dev, PAGE, OPEN, "a test page", &pair.near_mem, &err), &err);
	must(rdma_buffer_create(dev, PAGE, OPEN, "a test page", &pair.far_mem, &err), &err);
	rdma_qp_offer(&pair.qp, &offer[0]);
	rdma_qp_offer(&pair.far, &offer[1]);
	must(rdma_qp_connect(&pair.far, &offer[0], &err), &err);
	must(rdma_qp_connect(&pair.qp, &offer[1], &err), &err);
	return 0;
}

static int tear_down(void **state)
{
	int rc = rdma_qp_destroy(&pair.qp);

	rc = rdma_qp_destroy(&pair.far) ? -EBUSY : rc;
	rdma_cq_destroy(&pair.cq);
	rdma_cq_destroy(&pair.far_cq);
	rdma_buffer_destroy(&pair.near_mem);
	rdma_buffer_destroy(&pair.far_mem);
	return rc;
}

#define CONFORMS(name) UNIT_TEST(name, set_up, tear_down)

static void post(enum ibv_wr_opcode opcode, size_t at, uint32_t len, uint32_t rkey, unsigned flags)
{
	struct ibv_sge sge = { (uintptr_t)pair.near_mem.addr + at, len, pair.near_mem.region.lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = flags,
				  .wr.rdma = { (uintptr_t)pair.far_mem.addr + at, rkey } };
	struct ibv_send_wr *bad;

	assert_ok(rdma_post_send(pair.qp.qp, &wr, &bad));
}

static struct ibv_wc wait_for(struct rdma_cq *cq)
{
	uint64_t end = time_now_ns() + WAIT_NS;
	struct ibv_wc wc;
	int n;

	while ((n = rdma_poll(cq->cq, 1, &wc)) == 0 && time_now_ns() < end)
		;
	assert_int_equal(n, 1);
	return wc;
}

static enum ibv_wc_status did(enum ibv_wr_opcode opcode, size_t at, uint32_t len, uint32_t rkey)
{
	post(opcode, at, len, rkey, IBV_SEND_SIGNALED);
	return wait_for(&pair.cq).status;
}

static void fill(struct rdma_buffer *b, uint64_t seed)
{
	uint64_t *word = b->addr;

	for (size_t i = 0; i < PAGE / sizeof(*word); i++)
		word[i] = unit_random(&seed);
}

/* What was refused left the far memory as it was. */
static void untouched(enum ibv_wc_status status)
{
	const uint8_t *far = pair.far_mem.addr;

	assert_int_not_equal(status, IBV_WC_SUCCESS);
	for (size_t i = 0; i < PAGE; i++)
		assert_int_equal(far[i], 0x55);
}

CONFORMS(reads_and_writes_move_all_bytes)
{
	uint32_t rkey = pair.far_mem.region.rkey;

	fill(&pair.far_mem, 1);
	assert_int_equal(did(IBV_WR_RDMA_READ, 0, PAGE, rkey), IBV_WC_SUCCESS);
	assert_memory_equal(pair.near_mem.addr, pair.far_mem.addr, PAGE);
	fill(&pair.near_mem, 2);
	assert_int_equal(did(IBV_WR_RDMA_WRITE, 0, PAGE, rkey), IBV_WC_SUCCESS);
	assert_int_equal(did(IBV_WR_RDMA_READ, 0, 1, rkey), IBV_WC_SUCCESS); /* it has arrived */
	assert_memory_equal(pair.near_mem.addr, pair.far_mem.addr, PAGE);
}

/* DESIGN 5: a WRITE and then a READ of one queue pair execute in order at the responder. */
CONFORMS(a_read_sees_the_write_before_it)
{
	_Atomic uint64_t *near_word = pair.near_mem.addr;
	struct ibv_sge sge[2] = {
		{ (uintptr_t)&near_word[0], 8, pair.near_mem.region.lkey },
		{ (uintptr_t)&near_word[1], 8, pair.near_mem.region.lkey },
	};
	struct ibv_send_wr read = { .sg_list = &sge[1],
				    .num_sge = 1,
				    .opcode = IBV_WR_RDMA_READ,
				    .send_flags = IBV_SEND_SIGNALED,
				    .wr.rdma = { (uintptr_t)pair.far_mem.addr,
						 pair.far_mem.region.rkey } };
	struct ibv_send_wr write = { .next = &read,
				     .sg_list = &sge[0],
				     .num_sge = 1,
				     .opcode = IBV_WR_RDMA_WRITE,
				     .wr.rdma = read.wr.rdma };
	struct ibv_send_wr *bad;

	for (uint64_t i = 1; i <= ROUNDS; i++) {
		near_word[0] = i * 0x100000001;
		near_word[1] = 0;
		assert_ok(rdma_post_send(pair.qp.qp, &write, &bad));
		assert_int_equal(wait_for(&pair.cq).status, IBV_WC_SUCCESS);
		assert_int_equal(near_word[1], i * 0x100000001);
	}
}

static atomic_bool storing;

static void *store(void *arg)
{
	_Atomic uint64_t *word = arg;

	for (uint32_t n = 0; atomic_load(&storing); n++) {
		for (unsigned i = 0; i < 8; i++)
			atomic_store(&word[i], (uint64_t)~n << 32 | n);
	}
	return NULL;
}

/* DESIGN 4: aligned 8-byte words are whole. */
CONFORMS(words_that_change_are_whole)
{
	_Atomic uint64_t *near_word = pair.near_mem.addr, *far_word = pair.far_mem.addr;
	pthread_t thread;

	for (unsigned i = 0; i < 8; i++)
		far_word[i] = (uint64_t)~0u << 32;
	atomic_store(&storing, true);
	assert_ok(pthread_create(&thread, NULL, store, far_word));
	for (unsigned i = 0; i < WORDS; i++) {
		assert_int_equal(did(IBV_WR_RDMA_READ, 0, 64, pair.far_mem.region.rkey),
				 IBV_WC_SUCCESS);
		for (unsigned j = 0; j < 8; j++)
			assert_int_equal((uint32_t)near_word[j], (uint32_t) ~(near_word[j] >> 32));
	}
	atomic_store(&storing, false);
	assert_ok(pthread_join(thread, NULL));
}

/* As large gets do: one READ to three places. */
CONFORMS(a_read_is_scattered_to_three_places)
{
	uint8_t *to = pair.near_mem.addr;
	const uint32_t lkey = pair.near_mem.region.lkey;
	struct ibv_sge sge[3] = { { (uintptr_t)to, 64, lkey },
				  { (uintptr_t)to + 4096, 1000, lkey },
				  { (uintptr_t)to + 8192, 8, lkey } };
	struct ibv_send_wr wr = { .sg_list = sge,
				  .num_sge = 3,
				  .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { (uintptr_t)pair.far_mem.addr,
					       pair.far_mem.region.rkey } };
	const uint8_t *from = pair.far_mem.addr;
	struct ibv_send_wr *bad;

	fill(&pair.far_mem, 3);
	assert_ok(rdma_post_send(pair.qp.qp, &wr, &bad));
	assert_int_equal(wait_for(&pair.cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(to, from, 64);
	assert_memory_equal(to + 4096, from + 64, 1000);
	assert_memory_equal(to + 8192, from + 1064, 8);
}

CONFORMS(a_send_arrives_and_wakes_a_sleeper)
{
	struct ibv_sge sge = { (uintptr_t)pair.far_mem.addr, PAGE, pair.far_mem.region.lkey };
	struct ibv_recv_wr recv = { .wr_id = 7, .sg_list = &sge, .num_sge = 1 };
	struct pollfd p = { rdma_cq_fd(&pair.cq), POLLIN, 0 };
	struct ibv_wc wc;

	fill(&pair.near_mem, 4);
	assert_ok(rdma_post_recv(pair.far.qp, &recv));
	assert_ok(rdma_cq_arm(&pair.cq));
	post(IBV_WR_SEND, 0, 100, 0, IBV_SEND_SIGNALED);
	assert_int_equal(poll(&p, 1, 20000), 1);
	rdma_cq_drain_events(&pair.cq);
	assert_int_equal(wait_for(&pair.cq).status, IBV_WC_SUCCESS);
	wc = wait_for(&pair.far_cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.byte_len, 100);
	assert_memory_equal(pair.near_mem.addr, pair.far_mem.addr, 100);
}

CONFORMS(a_send_without_a_receive_ends_and_flushes_what_follows)
{
	post(IBV_WR_SEND, 0, 8, 0, IBV_SEND_SIGNALED);
	post(IBV_WR_RDMA_READ, 0, 8, pair.far_mem.region.rkey, IBV_SEND_SIGNALED);
	assert_int_equal(wait_for(&pair.cq).status, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(wait_for(&pair.cq).status, IBV_WC_WR_FLUSH_ERR);
}

CONFORMS(a_wrong_key_is_refused)
{
	assert_int_equal(did(IBV_WR_RDMA_READ, 0, 8, pair.far_mem.region.rkey ^ 0x5a5a5a5a),
			 IBV_WC_REM_ACCESS_ERR);
}

CONFORMS(a_read_past_the_end_is_refused)
{
	post(IBV_WR_RDMA_READ, PAGE - 64, 64, pair.far_mem.region.rkey, IBV_SEND_SIGNALED);
	assert_int_equal(wait_for(&pair.cq).status, IBV_WC_SUCCESS);
	pair.far_mem.addr = (uint8_t *)pair.far_mem.addr + 64;
	post(IBV_WR_RDMA_READ, PAGE - 64, 64, pair.far_mem.region.rkey, IBV_SEND_SIGNALED);
	pair.far_mem.addr = (uint8_t *)pair.far_mem.addr - 64;
	assert_int_equal(wait_for(&pair.cq).status, IBV_WC_REM_ACCESS_ERR);
}

CONFORMS(a_write_to_memory_that_may_only_be_read_is_refused)
{
	struct rdma_region only;
	struct error err = { 0 };

	memset(pair.far_mem.addr, 0x55, PAGE);
	must(rdma_region_register(dev, pair.far_mem.addr, PAGE,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, "a test page",
				  &only, &err),
	     &err);
	assert_int_equal(did(IBV_WR_RDMA_READ, 0, 8, only.rkey), IBV_WC_SUCCESS);
	untouched(did(IBV_WR_RDMA_WRITE, 0, 8, only.rkey));
	rdma_region_unregister(&only);
}

/* DESIGN 5.5: what was taken back is neither read nor written. */
CONFORMS(a_region_that_was_deregistered_is_not_written)
{
	struct rdma_region gone;
	struct error err = { 0 };
	uint32_t rkey;

	memset(pair.far_mem.addr, 0x55, PAGE);
	must(rdma_region_register(dev, pair.far_mem.addr, PAGE, OPEN, "a test page", &gone, &err),
	     &err);
	rkey = gone.rkey;
	assert_int_equal(did(IBV_WR_RDMA_READ, 0, 8, rkey), IBV_WC_SUCCESS);
	memset(pair.near_mem.addr, 0xaa, PAGE);
	rdma_region_unregister(&gone);
	untouched(did(IBV_WR_RDMA_WRITE, 0, PAGE, rkey));
}

CONFORMS(a_queue_pair_that_failed_serves_nothing)
{
	memset(pair.far_mem.addr, 0x55, PAGE);
	memset(pair.near_mem.addr, 0xaa, PAGE);
	assert_ok(rdma_qp_fail(&pair.far));
	untouched(did(IBV_WR_RDMA_WRITE, 0, PAGE, pair.far_mem.region.rkey));
}

CONFORMS(a_queue_pair_that_was_destroyed_serves_nothing)
{
	memset(pair.far_mem.addr, 0x55, PAGE);
	memset(pair.near_mem.addr, 0xaa, PAGE);
	assert_ok(rdma_qp_destroy(&pair.far));
	memset(&pair.far, 0, sizeof(pair.far));
	untouched(did(IBV_WR_RDMA_WRITE, 0, PAGE, pair.far_mem.region.rkey));
}

CONFORMS(memory_of_a_queue_pair_that_was_destroyed_is_left_alone)
{
	uint8_t *near = pair.near_mem.addr;

	memset(pair.far_mem.addr, 0xaa, PAGE);
	for (unsigned i = 0; i < 16; i++)
		post(IBV_WR_RDMA_READ, i * 4096u, 4096, pair.far_mem.region.rkey,
		     IBV_SEND_SIGNALED);
	assert_ok(rdma_qp_destroy(&pair.qp));
	memset(&pair.qp, 0, sizeof(pair.qp));
	memset(near, 0x55, PAGE);
	time_sleep(NS_PER_S / 10);
	for (size_t i = 0; i < PAGE; i++)
		assert_int_equal(near[i], 0x55);
}
