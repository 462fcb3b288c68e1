/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The other side of index-bench: liburcu's cds_lfht.
 *
 * What it is given, so that the comparison is of tables and not of allocators: records (node, key
 * and value, in one or two lines of cache) come from an arena that was committed before, 256 at a
 * time, without a system call; records that were deleted go to call_rcu() 256 at a time, not one
 * by one, and come back to the arena 256 at a time. The match function compares 16 bytes, a length
 * that the compiler knows.
 *
 * Its buckets are kept by "order" unless told otherwise: the three ways are about as fast, and this
 * is the one that always takes hugepages from malloc (mmap never does, chunk by its chunks' size).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <urcu/rculfhash.h>

#include "common/base/hash.h"
#include "tests/performance/index_side.h"

#define BUCKETS_FIRST	65536u /* 1 MiB, about as much as our index begins with */
#define BUCKETS_MAX	(1ul << 32)
#define MAGAZINE	256u
#define HUGEPAGE_BYTES	(2u << 20)
#define ARENA_ALIGNMENT 32u /* node and key lie in one line */

struct record {
	struct cds_lfht_node node;
	struct index_key key;
	uint8_t value[];
};

/* Records on their way: to a worker, to a grace period, back to the arena. */
struct magazine {
	struct rcu_head head;
	struct magazine *next;
	unsigned count;
	struct record *record[MAGAZINE];
};

struct worker {
	struct magazine *fresh, *deleted;
};

static struct {
	struct cds_lfht *table;
	uint32_t value_len;
	uint64_t stride;
	uint8_t *arena;
	size_t arena_bytes;
	_Atomic uint64_t taken; /* of the arena, bytes */
	pthread_mutex_t lock; /* of full and empty */
	struct magazine *full, *empty;
} theirs = { .lock = PTHREAD_MUTEX_INITIALIZER };

uint64_t index_theirs_stride(uint32_t value_len)
{
	return (sizeof(struct record) + value_len + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT *
	       ARENA_ALIGNMENT;
}

void index_theirs_arena(uintptr_t *start, uintptr_t *end)
{
	*start = (uintptr_t)theirs.arena;
	*end = *start + theirs.arena_bytes;
}

static int arena_open(const struct index_setup *config, struct error *err)
{
	uint64_t records = config->records + 4ull * MAGAZINE * config->workers;
	size_t bytes = (records * theirs.stride / HUGEPAGE_BYTES + 1) * HUGEPAGE_BYTES;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
	void *p = MAP_FAILED;

	if (config->hugepages)
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB, -1, 0);
	if (p == MAP_FAILED)
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (p == MAP_FAILED)
		return error_set(err, -errno,
				 "mapping %zu MiB for the records of cds_lfht failed: %s; take "
				 "fewer --records",
				 bytes >> 20, error_name(errno));
	theirs.arena = p;
	theirs.arena_bytes = bytes;
	atomic_store(&theirs.taken, 0);
	return 0;
}

static const struct cds_lfht_mm_type *table_type(const char *name)
{
	return strcmp(name, "mmap") == 0    ? &cds_lfht_mm_mmap
	       : strcmp(name, "chunk") == 0 ? &cds_lfht_mm_chunk
					    : &cds_lfht_mm_order;
}

/*
 * With CDS_LFHT_ACCOUNTING a table grows when its records are eight times its buckets, to as many
 * buckets as records. Without, it grows where an insert meets a chain of three, which goes on long
 * after there are buckets enough: such a table must be told how many to stop at.
 */
static unsigned long buckets_max(const struct index_setup *setup)
{
	unsigned long buckets = BUCKETS_FIRST;

	while (setup->bound && buckets < setup->records)
		buckets *= 2;
	return setup->bound ? buckets : BUCKETS_MAX;
}

static int theirs_open(const struct index_setup *config, struct error *err)
{
	int rc;

	theirs.value_len = config->value_len;
	theirs.stride = index_theirs_stride(config->value_len);
	rc = arena_open(config, err);
	if (rc)
		return rc;
	theirs.table =
		_cds_lfht_new(BUCKETS_FIRST, BUCKETS_FIRST, buckets_max(config),
			      CDS_LFHT_AUTO_RESIZE | (config->bound ? 0 : CDS_LFHT_ACCOUNTING),
			      table_type(config->table), &urcu_qsbr_flavor, NULL);
	if (!theirs.table) {
		munmap(theirs.arena, theirs.arena_bytes);
		return error_set(err, -ENOMEM, "no memory for cds_lfht; free memory");
	}
	return 0;
}

static void magazines_free(struct magazine **list)
{
	struct magazine *m;

	while ((m = *list)) {
		*list = m->next;
		free(m);
	}
}

/* All records were deleted. */
static void theirs_close(void)
{
	urcu_qsbr_barrier();
	cds_lfht_destroy(theirs.table, NULL);
	magazines_free(&theirs.full);
	magazines_free(&theirs.empty);
	munmap(theirs.arena, theirs.arena_bytes);
	theirs.table = NULL;
}

static void magazine_put(struct magazine **list, struct magazine *m)
{
	pthread_mutex_lock(&theirs.lock);
	m->next = *list;
	*list = m;
	pthread_mutex_unlock(&theirs.lock);
}

static struct magazine *magazine_take(struct magazine **list)
{
	struct magazine *m;

	pthread_mutex_lock(&theirs.lock);
	m = *list;
	if (m)
		*list = m->next;
	pthread_mutex_unlock(&theirs.lock);
	return m;
}

static struct magazine *magazine_empty(void)
{
	struct magazine *m = magazine_take(&theirs.empty);

	if (!m)
		m = malloc(sizeof(*m));
	if (m)
		m->count = 0;
	return m;
}

/* Returns whether there were any left. */
static bool magazine_fill(struct magazine *m)
{
	uint64_t bytes = MAGAZINE * theirs.stride;
	uint64_t at = atomic_fetch_add_explicit(&theirs.taken, bytes, memory_order_relaxed);

	if (at + bytes > theirs.arena_bytes)
		return false;
	while (m->count < MAGAZINE) {
		m->record[MAGAZINE - 1 - m->count] = (struct record *)(theirs.arena + at);
		m->count++;
		at += theirs.stride;
	}
	return true;
}

static void *theirs_worker_open(void)
{
	return calloc(1, sizeof(struct worker));
}

static void magazine_back(struct rcu_head *head)
{
	struct magazine *m = caa_container_of(head, struct magazine, head);

	magazine_put(&theirs.full, m);
}

static void theirs_worker_close(void *worker)
{
	struct worker *w = worker;

	if (w->deleted)
		urcu_qsbr_call_rcu(&w->deleted->head, magazine_back);
	if (w->fresh)
		magazine_put(&theirs.full, w->fresh);
	free(w);
}

static void theirs_pause(void *worker)
{
	qsbr_quiescent();
}

static struct record *record_take(struct worker *w)
{
	if (!w->fresh || w->fresh->count == 0) {
		if (w->fresh)
			magazine_put(&theirs.empty, w->fresh);
		w->fresh = magazine_take(&theirs.full);
		if (!w->fresh)
			w->fresh = magazine_empty();
		if (!w->fresh || (w->fresh->count == 0 && !magazine_fill(w->fresh)))
			return NULL;
	}
	return w->fresh->record[--w->fresh->count];
}

static int record_retire(struct worker *w, struct record *r)
{
	if (!w->deleted)
		w->deleted = magazine_empty();
	if (!w->deleted)
		return -ENOMEM;
	w->deleted->record[w->deleted->count++] = r;
	if (w->deleted->count == MAGAZINE) {
		urcu_qsbr_call_rcu(&w->deleted->head, magazine_back);
		w->deleted = NULL;
	}
	return 0;
}

static int match(struct cds_lfht_node *node, const void *key)
{
	const struct record *r = caa_container_of(node, struct record, node);

	return memcmp(&r->key, key, INDEX_KEY_LEN) == 0;
}

static uint64_t hash_of(const struct index_key *key)
{
	return hash_key(INDEX_HASH_SEED, key, INDEX_KEY_LEN);
}

static struct record *find(const struct index_key *key)
{
	struct cds_lfht_iter iter;
	struct cds_lfht_node *node;

	cds_lfht_lookup(theirs.table, hash_of(key), match, key, &iter);
	node = cds_lfht_iter_get_node(&iter);
	return node ? caa_container_of(node, struct record, node) : NULL;
}

static int theirs_insert(void *worker, const struct index_key *key)
{
	struct record *r = record_take(worker);

	if (!r)
		return -ENOMEM;
	cds_lfht_node_init(&r->node);
	r->key = *key;
	index_value_fill(r->value, theirs.value_len, key);
	return cds_lfht_add_unique(theirs.table, hash_of(key), match, key, &r->node) == &r->node
		       ? 0
		       : -EEXIST;
}

static int theirs_hit(void *worker, const struct index_key *key)
{
	return find(key) ? 0 : -ENOENT;
}

static int theirs_hit_read(void *worker, const struct index_key *key)
{
	const struct record *r = find(key);

	return r && index_value_fits(r->value, theirs.value_len, key) ? 0 : -ENOENT;
}

static int theirs_miss(void *worker, const struct index_key *key)
{
	return find(key) ? -EEXIST : 0;
}

static int theirs_delete(void *worker, const struct index_key *key)
{
	struct record *r = find(key);

	if (!r || cds_lfht_del(theirs.table, &r->node))
		return -ENOENT;
	return record_retire(worker, r);
}

#define LOOP(name, op)                                                                      \
	static int run_##name(void *worker, const struct index_batch *batch)                \
	{                                                                                   \
		return index_loop(worker, batch, theirs_##op, theirs_pause, NULL, 0, NULL); \
	}
LOOP(insert, insert)
LOOP(hit, hit)
LOOP(hit_read, hit_read)
LOOP(hit_single, hit)
LOOP(miss, miss)
LOOP(delete, delete)

#define TIMED_LOOP(op)                                                                       \
	static int timed_##op(void *worker, const struct index_batch *batch,                 \
			      struct histogram *times)                                       \
	{                                                                                    \
		return index_loop(worker, batch, theirs_##op, theirs_pause, NULL, 0, times); \
	}
TIMED_LOOP(insert)
TIMED_LOOP(delete)

const struct index_side index_theirs = {
	.name = "cds_lfht",
	.key = "cds_lfht",
	.open = theirs_open,
	.close = theirs_close,
	.worker_open = theirs_worker_open,
	.worker_close = theirs_worker_close,
	.run = { run_insert, run_hit, run_hit_read, run_hit_single, run_miss, run_delete },
	.timed = { [INDEX_INSERT] = timed_insert, [INDEX_DELETE] = timed_delete },
};
