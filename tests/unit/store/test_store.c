/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What a PUT, a GET and a DEL do, without a device. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <urcu/urcu-qsbr.h>

#include "common/layout/size_code.h"
#include "common/layout/slot.h"
#include "server/store/store.h"
#include "tests/lib/no_device.h"

struct fixture {
	struct store store;
	struct store_worker worker;
};

static struct fixture f;

static void open_store_deferring(uint64_t bytes, uint64_t slots, uint64_t deferred_max)
{
	const struct store_config config = {
		.bytes_max = bytes,
		.slots = slots,
		.server_incarnation = 5,
		.hash_seed = 6,
		.hooks = { take_region, drop_region, NULL },
		.deferred_max = deferred_max,
	};
	struct error err;
	int rc;

	rc = store_create(&f.store, &config, &err);
	if (rc)
		print_error("%s\n", err.text);
	assert_int_equal(rc, 0);
	assert_int_equal(store_worker_create(&f.worker, &f.store, 8), 0);
}

static void open_store(uint64_t bytes, uint64_t slots)
{
	open_store_deferring(bytes, slots, 0);
}

static void close_store(void)
{
	store_worker_destroy(&f.worker);
	urcu_qsbr_thread_offline();
	store_destroy(&f.store);
	urcu_qsbr_thread_online();
}

static int put(const char *key, const void *value, uint32_t len, uint64_t expiry,
	       struct store_result *out)
{
	struct store_put p;
	int rc;

	while ((rc = store_put_begin(&f.worker, key, (uint32_t)strlen(key), len, expiry, &p)) ==
	       -EAGAIN)
		memory_growth_wait(f.store.memory, 100);
	if (rc)
		return rc;
	memcpy(p.block->data + strlen(key), value, len);
	while ((rc = store_put_commit(&f.worker, &p, &store_always, out)) == -EAGAIN)
		memory_growth_wait(f.store.memory, 100);
	return rc;
}

static int get(const char *key, uint64_t now, struct store_result *out)
{
	return store_get(&f.worker, key, (uint32_t)strlen(key), now, true, out);
}

UNIT_TEST(basics)
{
	struct store_result a, b, c;

	open_store(64 << 20, 2000);
	assert_int_equal(get("k", 1, &a), -ENOENT);
	assert_int_equal(put("k", "one", 3, 0, &a), 0);
	assert_int_equal(get("k", 1, &b), 0);
	assert_memory_equal(b.block->data, "kone", 4);
	assert_int_equal(b.version, a.version);
	assert_int_equal(b.slot, a.slot);
	assert_int_equal(block_verify(b.block, size_code_bytes(slot_size_code(b.slot)), "k", 1,
				      b.block->key_hash, b.incarnation),
			 BLOCK_OK);
	assert_int_equal(put("k", "three", 5, 0, &b), 0);
	assert_true(b.version > a.version);
	assert_int_equal(block_state_of(a.block->state), BLOCK_OBSOLETE);
	assert_int_equal(store_del(&f.worker, "k", 1, &store_forced, &c), 0);
	assert_true(c.version > b.version);
	assert_int_equal(block_state_of(b.block->state), BLOCK_OBSOLETE);
	assert_int_equal(store_del(&f.worker, "k", 1, &store_forced, &c), -ENOENT);
	assert_int_equal(get("k", 1, &a), -ENOENT);
	assert_int_equal(put("k", "", 0, 0, &a), 0);
	assert_true(a.version > c.version); /* never a (key, version) twice */
	assert_int_equal(a.value_len, 0);
	close_store();
}

/* store_prefetch() of keys that are there, that are not, and that share a bucket with them. */
UNIT_TEST(hints_change_nothing)
{
	char name[2 * STORE_PREFETCH_MAX][16];
	struct store_key keys[2 * STORE_PREFETCH_MAX];
	struct store_result a;

	open_store(64 << 20, 0);
	for (unsigned i = 0; i < 2 * STORE_PREFETCH_MAX; i++) {
		snprintf(name[i], sizeof(name[i]), "key-%u", i);
		keys[i] = (struct store_key){ name[i], (uint32_t)strlen(name[i]) };
	}
	store_prefetch(&f.store, keys, 0, true);
	for (unsigned write = 0; write < 2; write++) {
		store_prefetch(&f.store, keys, STORE_PREFETCH_MAX, write);
		for (unsigned i = 0; i < STORE_PREFETCH_MAX; i++)
			assert_int_equal(put(name[i], &i, sizeof(i), 0, &a), 0);
		store_prefetch(&f.store, keys + STORE_PREFETCH_MAX / 2, STORE_PREFETCH_MAX, write);
		for (unsigned i = 0; i < 2 * STORE_PREFETCH_MAX; i++) {
			assert_int_equal(get(name[i], 1, &a), i < STORE_PREFETCH_MAX ? 0 : -ENOENT);
			if (i >= STORE_PREFETCH_MAX)
				continue;
			assert_memory_equal(a.block->data + keys[i].len, &i, sizeof(i));
			assert_int_equal(
				block_verify_any(a.block, size_code_bytes(slot_size_code(a.slot))),
				BLOCK_OK);
		}
		for (unsigned i = 0; i < STORE_PREFETCH_MAX; i++)
			assert_ok(store_del(&f.worker, name[i], keys[i].len, &store_forced, &a));
	}
	close_store();
}

UNIT_TEST(expiry)
{
	struct store_result a;
	struct index_stats stats;

	open_store(64 << 20, 2000);
	assert_int_equal(put("k", "v", 1, 1000, &a), 0);
	assert_int_equal(get("k", 999, &a), 0);
	assert_int_equal(a.expiry_ms, 1000);
	assert_int_equal(get("k", 1000, &a), -ENOENT); /* deleted before it answers */
	index_stats_get(f.store.index, &stats);
	assert_int_equal(stats.records, 0);
	assert_int_equal(get("k", 999, &a), -ENOENT);
	close_store();
}

static uint64_t record_bytes(void)
{
	struct index_stats stats;

	index_stats_get(f.store.index, &stats);
	return stats.record_bytes;
}

UNIT_TEST(record_bytes_are_counted)
{
	struct store_result a;

	open_store(64 << 20, 2000);
	assert_int_equal(put("key", "four", 4, 0, &a), 0);
	assert_int_equal(record_bytes(), 48 + 3 + 4);
	assert_int_equal(put("expires", "", 0, 1000, &a), 0);
	assert_int_equal(record_bytes(), 48 + 3 + 4 + 48 + 7);
	assert_int_equal(put("key", "2b", 2, 0, &a), 0);
	assert_int_equal(record_bytes(), 48 + 3 + 2 + 48 + 7);
	assert_int_equal(get("expires", 1000, &a), -ENOENT);
	assert_int_equal(record_bytes(), 48 + 3 + 2);
	assert_int_equal(store_del(&f.worker, "key", 3, &store_forced, &a), 0);
	assert_int_equal(store_del(&f.worker, "key", 3, &store_forced, &a), -ENOENT);
	assert_int_equal(record_bytes(), 0);
	close_store();
}

/* Full, by memory or by index: -ENOMEM, nothing is lost, and there is room again after DELs. */
static void full(uint64_t bytes, uint64_t slots, uint32_t value_len)
{
	static char value[200000];
	struct store_result r;
	unsigned stored = 0;
	char key[32];
	int rc = 0;

	memset(value, 'v', sizeof(value));
	open_store(bytes, slots);
	for (;; stored++) {
		snprintf(key, sizeof(key), "key%u", stored);
		rc = put(key, value, value_len, 0, &r);
		if (rc)
			break;
		assert_true(stored < 1000000);
	}
	assert_int_equal(rc, -ENOMEM);
	assert_true(stored > 20);
	for (unsigned i = 0; i < stored; i++) {
		snprintf(key, sizeof(key), "key%u", i);
		assert_int_equal(get(key, 1, &r), 0);
		assert_int_equal(r.value_len, value_len);
	}
	for (unsigned i = 0; i < stored; i++) {
		snprintf(key, sizeof(key), "key%u", i);
		assert_ok(store_del(&f.worker, key, (uint32_t)strlen(key), &store_forced, &r));
	}
	for (unsigned i = 0; i < 200; i++) { /* the reclaimer gives the space back */
		uint64_t due = reclaim_poll(f.worker.reclaim, UINT64_MAX / 2);

		assert_true(due > 0);
		reclaim_kick(f.store.reclaim);
		urcu_qsbr_quiescent_state();
		rc = put("again", value, value_len, 0, &r);
		if (rc == 0)
			break;
		urcu_qsbr_thread_offline();
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
		urcu_qsbr_thread_online();
	}
	assert_int_equal(rc, 0);
	close_store();
}

UNIT_TEST(full_memory)
{
	full(16 << 20, 2000, 100000);
}

UNIT_TEST(full_index)
{
	full(64 << 20, 1000, 10);
}

static int put_number(unsigned number)
{
	struct store_result r;
	char key[16];

	snprintf(key, sizeof(key), "%08u", number);
	return put(key, "", 0, 0, &r);
}

/* I5: new keys alone retire segments. While a session holds these, splits wait, then they go on. */
UNIT_TEST(growth_stays_within_the_bound)
{
	const uint64_t max = 1 << 20;
	struct reclaim_stats stats;
	struct epoch_session s;
	struct epoch_slot slot;
	struct grace *g;
	unsigned n = 0;
	int rc;

	open_store_deferring(64 << 20, 1000, max);
	g = reclaim_grace(f.store.reclaim);
	grace_join(g, &s, &slot, 1);
	grace_wait_for(g, &s, true);
	while ((rc = put_number(n)) == 0 && n < 500000)
		n++;
	assert_int_equal(rc, -EBUSY);
	reclaim_stats_get(f.store.reclaim, &stats);
	assert_in_range(stats.deferred_bytes, max / 2, max);
	grace_close_slot(g, &s);
	grace_leave(g, &s);
	for (unsigned i = 0; i < 10000 && rc == -EBUSY; i++) {
		reclaim_poll(f.worker.reclaim, UINT64_MAX / 2);
		reclaim_kick(f.store.reclaim);
		urcu_qsbr_thread_offline();
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		urcu_qsbr_thread_online();
		rc = put_number(n);
	}
	assert_int_equal(rc, 0);
	close_store();
}

int main(void)
{
	int rc;

	urcu_qsbr_register_thread();
	rc = unit_run(NULL, NULL);
	urcu_qsbr_unregister_thread();
	return rc;
}
