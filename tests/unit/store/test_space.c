/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Space: how much a full store holds of records of each size, and that what all of them took serves
 * records of other sizes once they are deleted.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <urcu/urcu-qsbr.h>

#include "server/store/store.h"
#include "tests/lib/no_device.h"

#define MIB	  (1ull << 20)
#define VALUE_BIG (16u << 20)
#define RECORDS	  2000000u
#define DEFERRED  MIB

static struct store store;
static struct store_worker worker;
static uint8_t *value; /* VALUE_BIG bytes, none of them 0 */

static uint64_t record_bytes(void)
{
	struct index_stats stats;

	index_stats_get(store.index, &stats);
	return stats.record_bytes;
}

static void open_store(uint64_t bytes)
{
	const struct store_config config = {
		.bytes_max = bytes,
		.server_incarnation = 5,
		.hash_seed = 6,
		.hooks = { take_region, drop_region, NULL },
	};
	struct error err = { 0 };
	int rc = store_create(&store, &config, &err);

	if (rc)
		print_error("%s\n", err.text);
	assert_int_equal(rc, 0);
	assert_int_equal(store_worker_create(&worker, &store, 8), 0);
}

static void close_store(void)
{
	store_worker_destroy(&worker);
	urcu_qsbr_thread_offline();
	store_destroy(&store);
	urcu_qsbr_thread_online();
}

/* Wait for growth as a worker does: it holds nothing meanwhile. */
static void wait_for_growth(void)
{
	urcu_qsbr_thread_offline();
	memory_growth_wait(store.memory, 1000);
	urcu_qsbr_thread_online();
}

static int put(unsigned number, uint32_t value_len)
{
	struct store_result r;
	struct store_put p;
	char key[16];
	int rc;

	snprintf(key, sizeof(key), "%08u", number);
	for (unsigned i = 0; i < 200; i++) {
		rc = store_put_begin(&worker, key, 8, value_len, 0, &p);
		if (rc != -EAGAIN)
			break;
		wait_for_growth();
	}
	if (rc)
		return rc;
	memcpy(p.block->data + 8, value, value_len);
	for (unsigned i = 0; i < 200; i++) {
		rc = store_put_commit(&worker, &p, &store_always, &r);
		if (rc != -EAGAIN)
			return rc;
		wait_for_growth();
	}
	store_put_abort(&worker, &p);
	return rc;
}

/* However busy the machine is: memory that waits for the reclaimer would count as taken. */
static void let_reclaimer_keep_up(void)
{
	struct reclaim_stats stats;

	for (unsigned i = 0; i < 10000; i++) {
		reclaim_stats_get(store.reclaim, &stats);
		if (stats.deferred_bytes <= DEFERRED)
			return;
		reclaim_poll(worker.reclaim, UINT64_MAX / 2);
		urcu_qsbr_thread_offline();
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		urcu_qsbr_thread_online();
	}
	fail_msg("%llu bytes are not freed", (unsigned long long)stats.deferred_bytes);
}

/* Put records of one size until there is no room; how many. */
static unsigned fill(uint32_t value_len)
{
	unsigned n = 0;
	int rc;

	for (; (rc = put(n, value_len)) == 0; n++) {
		urcu_qsbr_quiescent_state();
		reclaim_poll(worker.reclaim, 0);
		if (n % 256 == 0)
			let_reclaimer_keep_up();
		assert_true(n < RECORDS);
	}
	assert_int_equal(rc, -ENOMEM);
	return n;
}

static void all_are_there(unsigned count, uint32_t value_len)
{
	struct store_result r;
	char key[16];

	for (unsigned i = 0; i < count; i++) {
		snprintf(key, sizeof(key), "%08u", i);
		assert_int_equal(store_get(&worker, key, 8, 1, true, &r), 0);
		assert_int_equal(r.value_len, value_len);
		urcu_qsbr_quiescent_state();
	}
}

/* Delete all, and wait until the reclaimer has freed all, and no slab waits for hints. */
static void drop(unsigned count)
{
	struct reclaim_stats stats;
	struct store_result r;
	char key[16];

	for (unsigned i = 0; i < count; i++) {
		snprintf(key, sizeof(key), "%08u", i);
		assert_int_equal(store_del(&worker, key, 8, &store_forced, &r), 0);
		urcu_qsbr_quiescent_state();
	}
	for (unsigned i = 0; i < 2000; i++) {
		reclaim_poll(worker.reclaim, UINT64_MAX / 2);
		reclaim_kick(store.reclaim);
		urcu_qsbr_thread_offline();
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
		urcu_qsbr_thread_online();
		reclaim_stats_get(store.reclaim, &stats);
		if (stats.deferred_blocks == 0 && !memory_recut_waits(store.memory))
			return;
	}
	fail_msg("%llu blocks are not freed, or their slabs wait",
		 (unsigned long long)stats.deferred_blocks);
}

/* Bytes of records, header, key and value, in parts of 1000 of the store's memory. */
static unsigned share(unsigned count, uint32_t value_len)
{
	uint64_t bytes = (uint64_t)count * block_bytes(8, value_len);
	struct memory_stats m;

	memory_stats_get(store.memory, &m);
	print_message("%u records of %u B: %u of 1000 of %llu MiB; INDEX %llu, DIR %llu, DATA %llu "
		      "MiB, of which %llu are free\n",
		      count, value_len, (unsigned)(bytes * 1000 / m.bytes_max),
		      (unsigned long long)(m.bytes_max / MIB),
		      (unsigned long long)(m.extent_bytes[EXTENT_INDEX] / MIB),
		      (unsigned long long)(m.extent_bytes[EXTENT_DIR] / MIB),
		      (unsigned long long)(m.extent_bytes[EXTENT_DATA] / MIB),
		      (unsigned long long)m.slabs_free);
	assert_int_equal(record_bytes(), bytes);
	return (unsigned)(bytes * 1000 / m.bytes_max);
}

UNIT_TEST(records_take_their_share)
{
	/* What is missing: blocks of whole 64 B, the index, and for large ones the ends of extents
	 * that are too short for another. */
	const struct {
		uint32_t value_len;
		unsigned least[2]; /* of 1000; of 64 and 256 MiB. 0: not looked at */
	} sizes[] = {
		{ 0, { 620, 0 } },	     { 100, { 600, 0 } },	  { 1024, { 750, 830 } },
		{ 200000, { 780, 880 } },    { MIB - 100, { 830, 930 } }, { 5000000, { 550, 750 } },
		{ VALUE_BIG, { 450, 600 } },
	};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (unsigned k = 0; k < 2; k++) {
			unsigned n;

			if (!sizes[i].least[k])
				continue;
			open_store((k ? 256 : 64) * MIB);
			n = fill(sizes[i].value_len);
			assert_true(share(n, sizes[i].value_len) >= sizes[i].least[k]);
			all_are_there(n, sizes[i].value_len);
			close_store();
		}
	}
}

enum { SMALL, MEDIUM, SLAB, LARGE, SIZES };

static const uint32_t value_lens[SIZES] = { 100, 200000, MIB - 100, 5000000 };

/*
 * Fill and empty one store with these sizes in turn; @fresh: what a new store takes of each. What
 * the index took for many small records it keeps: from then on there is less for large ones, once.
 */
static void rounds(uint64_t bytes, const uint8_t *order, unsigned count, const unsigned *fresh)
{
	unsigned first[SIZES] = { 0 };
	bool index_grew = false;
	struct memory_stats m;

	open_store(bytes);
	for (unsigned i = 0; i < count; i++) {
		unsigned size = order[i], n = fill(value_lens[size]);

		share(n, value_lens[size]);
		if (!first[size])
			first[size] = n;
		if (size == SMALL && !index_grew) {
			index_grew = true;
			first[MEDIUM] = first[SLAB] = first[LARGE] = 0;
		}
		assert_true(n >= first[size] * 95 / 100);
		assert_true(n >= fresh[size] * (size == SMALL ? 95 : 80) / 100);
		all_are_there(n, value_lens[size]);
		drop(n);
		assert_int_equal(record_bytes(), 0);
		/* What the worker's cache holds on to: a slab of each size at most. */
		memory_stats_get(store.memory, &m);
		assert_true(m.slabs_used <= SIZES);
		for (unsigned c = 0; c < m.classes; c++)
			assert_int_equal(m.class[c].blocks_used, 0);
		assert_int_equal(m.run_slabs, 0);
		assert_true(m.extents < EXTENTS_MAX / 64);
	}
	close_store();
}

/* What a new store takes of each size. */
static void fill_new(uint64_t bytes, unsigned *fresh)
{
	for (unsigned i = 0; i < SIZES; i++) {
		open_store(bytes);
		fresh[i] = fill(value_lens[i]);
		close_store();
	}
}

UNIT_TEST(space_serves_other_sizes)
{
	const uint8_t orders[][7] = {
		{ SMALL, MEDIUM, LARGE, SMALL, LARGE, MEDIUM, SMALL },
		{ LARGE, MEDIUM, SMALL, LARGE, SMALL, MEDIUM, LARGE },
		{ MEDIUM, SMALL, LARGE, MEDIUM, LARGE, SMALL, MEDIUM },
	};
	unsigned fresh[SIZES];

	fill_new(64 * MIB, fresh);
	for (unsigned i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
		rounds(64 * MIB, orders[i], 7, fresh);
}

/* The index gets what records of a slab each have left, and then both keep what they have. */
UNIT_TEST(the_index_gets_room_of_large_records)
{
	const uint8_t order[] = { SLAB, SMALL, SLAB };
	uint8_t many[21];
	unsigned fresh[SIZES];

	fill_new(64 * MIB, fresh);
	for (unsigned i = 0; i < sizeof(many); i++)
		many[i] = i % 2 ? SMALL : SLAB;
	rounds(64 * MIB, many, sizeof(many), fresh);
	fill_new(160 * MIB, fresh);
	rounds(160 * MIB, order, sizeof(order), fresh);
}

int main(void)
{
	int rc;

	value = malloc(VALUE_BIG);
	if (!value)
		return 1;
	memset(value, 'v', VALUE_BIG);
	urcu_qsbr_register_thread();
	rc = unit_run(NULL, NULL);
	urcu_qsbr_unregister_thread();
	free(value);
	return rc;
}
