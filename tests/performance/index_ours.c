/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Our side of index-bench: records through server/store, as a worker of kv-server has them. */
#include <stdlib.h>

#include "common/layout/block.h"
#include "server/memory/size_class.h"
#include "server/store/store.h"
#include "tests/performance/index_side.h"

#define GROWTH_WAIT_MS 1000

static struct {
	struct store store;
	uint32_t value_len;
	unsigned group;
} ours;

/* No device: nothing is registered, and there are no sessions. */
static int take_region(void *ctx, int fd, void *addr, size_t len, struct memory_region *out,
		       struct error *err)
{
	*out = (struct memory_region){ addr, 1, 1 };
	return 0;
}

static int drop_region(void *ctx, struct memory_region *region)
{
	return 0;
}

/* Memory for the records is committed before, as the arena of the other side is; the index's is
 * not: it grows with the table. */
static int commit_blocks(uint64_t bytes, struct error *err)
{
	struct memory_stats m;
	unsigned extent;
	int rc = 0;

	memory_stats_get(ours.store.memory, &m);
	while (rc == 0 && m.extent_bytes[EXTENT_DATA] < bytes + bytes / 16) {
		rc = memory_extent_add(ours.store.memory, EXTENT_DATA, EXTENT_BYTES_FIRST, &extent,
				       err);
		memory_stats_get(ours.store.memory, &m);
	}
	return rc;
}

static int ours_open(const struct index_setup *config, struct error *err)
{
	uint64_t block =
		size_class_bytes(size_class_for(block_bytes(INDEX_KEY_LEN, config->value_len)));
	const struct store_config store = {
		.bytes_max = config->records * (block + 64) + 4ull * EXTENT_BYTES_MAX,
		.slots = 0, /* as few as there can be */
		.server_incarnation = 1,
		.hash_seed = INDEX_HASH_SEED,
		.hooks = { take_region, drop_region, NULL },
	};
	int rc;

	ours.value_len = config->value_len;
	ours.group = config->group;
	rc = store_create(&ours.store, &store, err);
	if (rc)
		return rc;
	rc = commit_blocks(config->records * block, err);
	if (rc)
		store_destroy(&ours.store);
	return rc;
}

static void ours_close(void)
{
	store_destroy(&ours.store);
}

static void *ours_worker_open(void)
{
	struct store_worker *w = malloc(sizeof(*w));

	if (w && store_worker_create(w, &ours.store, 0)) {
		free(w);
		w = NULL;
	}
	return w;
}

static void ours_worker_close(void *worker)
{
	store_worker_destroy(worker);
	free(worker);
}

static void ours_pause(void *worker)
{
	struct store_worker *w = worker;

	qsbr_quiescent();
	reclaim_poll(w->reclaim, time_now_ns());
}

static inline void ahead(const struct index_key *key, unsigned count, bool write)
{
	struct store_key keys[STORE_PREFETCH_MAX];

	for (unsigned i = 0; i < count; i++)
		keys[i] = (struct store_key){ &key[i], INDEX_KEY_LEN };
	store_prefetch(&ours.store, keys, count, write);
}

static void ahead_read(const struct index_key *key, unsigned count)
{
	ahead(key, count, false);
}

static void ahead_write(const struct index_key *key, unsigned count)
{
	ahead(key, count, true);
}

static void wait_for_growth(void)
{
	qsbr_offline();
	memory_growth_wait(ours.store.memory, GROWTH_WAIT_MS);
	qsbr_online();
}

static int ours_insert(void *worker, const struct index_key *key)
{
	struct store_result result;
	struct store_put put;
	int rc;

	while ((rc = store_put_begin(worker, key, INDEX_KEY_LEN, ours.value_len, 0, &put)) ==
	       -EAGAIN)
		wait_for_growth();
	if (rc)
		return rc;
	index_value_fill(put.block->data + INDEX_KEY_LEN, ours.value_len, key);
	while ((rc = store_put_commit(worker, &put, &store_always, &result)) == -EAGAIN)
		wait_for_growth();
	return rc;
}

static int ours_hit(void *worker, const struct index_key *key)
{
	struct store_result result;

	return store_get(worker, key, INDEX_KEY_LEN, 0, true, &result);
}

static int ours_hit_read(void *worker, const struct index_key *key)
{
	struct store_result result;
	int rc = store_get(worker, key, INDEX_KEY_LEN, 0, true, &result);

	if (rc == 0 && !index_value_fits(result.block->data + INDEX_KEY_LEN, ours.value_len, key))
		rc = -ENOENT;
	return rc;
}

static int ours_miss(void *worker, const struct index_key *key)
{
	struct store_result result;

	return store_get(worker, key, INDEX_KEY_LEN, 0, true, &result) == -ENOENT ? 0 : -EEXIST;
}

static int ours_delete(void *worker, const struct index_key *key)
{
	struct store_result result;

	return store_del(worker, key, INDEX_KEY_LEN, &store_forced, &result);
}

#define LOOP(name, op, ahead)                                                                     \
	static int run_##name(void *worker, const struct index_batch *batch)                      \
	{                                                                                         \
		return index_loop(worker, batch, ours_##op, ours_pause, ahead, ours.group, NULL); \
	}
LOOP(insert, insert, ahead_write)
LOOP(hit, hit, ahead_read)
LOOP(hit_read, hit_read, ahead_read)
LOOP(hit_single, hit, NULL)
LOOP(miss, miss, ahead_read)
LOOP(delete, delete, ahead_write)

#define TIMED_LOOP(op)                                                                           \
	static int timed_##op(void *worker, const struct index_batch *batch,                     \
			      struct histogram *times)                                           \
	{                                                                                        \
		return index_loop(worker, batch, ours_##op, ours_pause, ahead_write, ours.group, \
				  times);                                                        \
	}
TIMED_LOOP(insert)
TIMED_LOOP(delete)

void index_ours_bytes(struct index_bytes *out)
{
	uint32_t exact = block_bytes(INDEX_KEY_LEN, ours.value_len);
	struct memory_stats memory;
	struct index_stats index;

	memory_stats_get(ours.store.memory, &memory);
	index_stats_get(ours.store.index, &index);
	*out = (struct index_bytes){
		.records = index.records,
		.index_used = memory.segments_used * SEGMENT_BYTES + memory.directory_bytes_used,
		.index_committed =
			memory.extent_bytes[EXTENT_INDEX] + memory.extent_bytes[EXTENT_DIR],
		.block = size_class_bytes(size_class_for(exact)),
		.depth = index.depth,
		.fill = (double)index.records / (double)index.slots,
	};
	out->block_rounding = out->block - exact;
}

const struct index_side index_ours = {
	.name = "GraceKV",
	.key = "gracekv",
	.open = ours_open,
	.close = ours_close,
	.worker_open = ours_worker_open,
	.worker_close = ours_worker_close,
	.run = { run_insert, run_hit, run_hit_read, run_hit_single, run_miss, run_delete },
	.timed = { [INDEX_INSERT] = timed_insert, [INDEX_DELETE] = timed_delete },
};
