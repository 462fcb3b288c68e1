/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Many on one word: other processes, other queue pairs, and the owner's processor. */
#include <assert.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/time.h"
#include "ends.h"
#include "words.h"

#define ADD	IBV_WR_ATOMIC_FETCH_AND_ADD
#define CAS	IBV_WR_ATOMIC_CMP_AND_SWP
#define PATIENT 20 /* timeout: 4 seconds, 8 times */
#define ADDERS	3
#define LOCKERS 2
#define TIMES	1000000 /* at most, */
#define RUN_NS	NS_PER_S /* and no longer */
#define STUCK_S 60

/* What others do to the owner's words. In memory that all processes of the test share. */
static struct job {
	uint64_t addr;
	uint32_t rkey, id;
} * jobs;

/* As end_wait(), but leaves the processors to others: there are more processes than those. */
static void wait_asleep(struct ibv_cq *cq, struct ibv_wc *wc)
{
	uint64_t deadline = time_now_ns() + STUCK_S * NS_PER_S;

	while (ibv_poll_cq(cq, 1, wc) == 0) {
		assert(time_now_ns() < deadline);
		usleep(5);
	}
}

/*
 * Add 1, in every second process by compare-and-swap, which may fail. The value never goes back.
 * How often 1 was added comes back, in wr_id.
 */
static struct ibv_wc add_many(struct end *end, uint64_t index)
{
	const struct job *job = &jobs[index];
	uint64_t end_ns = time_now_ns() + RUN_NS, next = 0, before, added = 0;
	bool swap = job->id % 2 == 0;
	struct ibv_wc wc;

	for (uint64_t i = 0; i < TIMES && time_now_ns() < end_ns; i++) {
		assert(end_atomic(end, swap ? CAS : ADD, i, 0, job->addr, job->rkey,
				  swap ? next : 1, next + 1) == 0);
		wait_asleep(end->send_cq, &wc);
		memcpy(&before, end->mem, sizeof(before));
		assert(wc.status == IBV_WC_SUCCESS && before >= next);
		added += !swap || before == next;
		next = swap && before != next ? before : before + 1;
	}
	return (struct ibv_wc){ .wr_id = added };
}

/* Take a lock, add 1 by READ and WRITE, give it back; the count lies behind the lock. */
static struct ibv_wc lock_many(struct end *end, uint64_t index)
{
	const struct job *job = &jobs[index];
	uint64_t end_ns = time_now_ns() + RUN_NS, count, i = 0;

	while (i < TIMES && time_now_ns() < end_ns) {
		if (atomic_do(end, CAS, job->addr, job->rkey, 0, job->id) != 0) {
			sched_yield();
			continue;
		}
		count = word_read(end, job->addr + 8, job->rkey);
		word_write(end, job->addr + 8, job->rkey, count + 1);
		assert(atomic_do(end, CAS, job->addr, job->rkey, job->id, 0) == job->id);
		i++;
	}
	return (struct ibv_wc){ .wr_id = i };
}

/* The owner adds as well, with its processor, over about as long as the others take. */
static uint64_t add_too(struct end *end)
{
	uint64_t end_ns = time_now_ns() + RUN_NS / 2, i;

	for (i = 0; i < TIMES && time_now_ns() < end_ns; i++) {
		__atomic_fetch_add((uint64_t *)(void *)end->mem, 1, __ATOMIC_SEQ_CST);
		if (!end->options.mapped)
			usleep(1);
		else if (i % 4 == 0)
			sched_yield();
	}
	return i;
}

/* @count processes work on memory of this one, and it may itself. */
static void many(unsigned count, bool mapped, struct ibv_wc (*work)(struct end *, uint64_t))
{
	struct end_options other = { .timeout = PATIENT, .call = work };
	struct end_options near = { .mapped = mapped, .timeout = PATIENT };
	struct end end[ADDERS];
	struct far far[ADDERS];
	uint64_t total = 0;

	for (unsigned i = 0; i < count; i++)
		far_start(&far[i], &other);
	near.context = softrdma_open_device(softrdma_device());
	near.pd = softrdma_alloc_pd(near.context);
	for (unsigned i = 0; i < count; i++) {
		end_open(&end[i], &near);
		far_connect(&far[i], &end[i]);
		jobs[i] = (struct job){ .addr = (uintptr_t)end[0].mem,
					.rkey = end[0].mr->rkey,
					.id = i + 1 };
	}
	for (unsigned i = 0; i < count; i++)
		far_ask(&far[i], FAR_CALL, i);
	if (work == add_many)
		total += add_too(&end[0]);
	for (unsigned i = 0; i < count; i++) {
		total += far_answer(&far[i]).wr_id;
		far_stop(&far[i]);
	}
	print_message("  %u times\n", (unsigned)total);
	assert_true(total > 0);
	assert_int_equal(peek_word(&end[0], work == add_many ? 0 : 8).wr_id, total);
	for (unsigned i = 0; i < count; i++)
		end_close(&end[i]);
	assert_ok(softrdma_dealloc_pd(near.pd));
	assert_ok(softrdma_close_device(near.context));
}

UNIT_TEST(test_sum)
{
	many(ADDERS, true, add_many);
	many(ADDERS, false, add_many);
}

UNIT_TEST(test_lock)
{
	many(LOCKERS, true, lock_many);
	many(LOCKERS, false, lock_many);
}

/* Two processes ask each other, at the same time, on one pair of queue pairs. */
UNIT_TEST(test_cross)
{
	struct end_options options = { .timeout = PATIENT, .call = add_many };
	uint64_t here, there;
	struct far far;
	struct end a;

	far_pair_open(&far, &a, &options, &options);
	jobs[0] = (struct job){ .addr = (uintptr_t)a.mem + 64, .rkey = a.mr->rkey };
	jobs[1] = (struct job){ .addr = far.info.addr + 64, .rkey = far.info.rkey };
	far_ask(&far, FAR_CALL, 0);
	there = add_many(&a, 1).wr_id;
	here = far_answer(&far).wr_id;
	print_message("  %u and %u times\n", (unsigned)here, (unsigned)there);
	assert_true(here > 0 && there > 0);
	assert_int_equal(peek_word(&a, 64).wr_id, here);
	assert_int_equal(word_read(&a, far.info.addr + 64, far.info.rkey), there);
	far_pair_close(&far, &a);
}

int main(void)
{
	jobs = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert(jobs != MAP_FAILED);
	return unit_run(NULL, NULL);
}
