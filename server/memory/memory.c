/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Begin and end of a store's memory, and its statistics. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "server/memory/memory_internal.h"

static int config_check(const struct memory_config *config, struct error *err)
{
	unsigned long long mib = config->bytes_max >> 20;
	unsigned long long ram;
	struct sysinfo info;

	if (config->bytes_max < MEMORY_MIN)
		return error_set(err, -EINVAL,
				 "a store of %llu bytes is too small; the least is %u MiB",
				 (unsigned long long)config->bytes_max, MEMORY_MIN >> 20);
	if (sysinfo(&info) < 0)
		return error_set(err, -errno, "asking for the size of RAM failed: %s",
				 error_name(errno));
	ram = (unsigned long long)info.totalram * info.mem_unit;
	if (config->bytes_max > ram)
		return error_set(
			err, -EINVAL,
			"a store of %llu MiB does not fit into the %llu MiB of RAM of this "
			"machine; set a smaller size",
			mib, ram >> 20);
	if (config->extent_bytes_max && config->extent_bytes_max < EXTENT_BYTES_RUN)
		return error_set(err, -EINVAL,
				 "the device registers %llu MiB at once at most, and the largest "
				 "record needs %u MiB; take another device",
				 (unsigned long long)config->extent_bytes_max >> 20,
				 EXTENT_BYTES_RUN >> 20);
	return 0;
}

/* Map and register the extent table: one memfd of its own, not counted in bytes_max. */
static int table_create(struct memory *m, struct error *err)
{
	const struct memory_hooks *hooks = &m->config.hooks;
	struct mapping map;
	int rc;

	rc = mapping_create(&map, "gracekv-extents", EXTENT_TABLE_BYTES, m, err);
	if (rc)
		return rc;
	rc = hooks->register_region(hooks->ctx, map.fd, map.base, map.bytes, &m->table_region, err);
	if (rc) {
		mapping_destroy(&map);
		return rc;
	}
	m->table = map.base;
	m->table_fd = map.fd;
	return 0;
}

static void table_destroy(struct memory *m)
{
	struct mapping map = { m->table, EXTENT_TABLE_BYTES, m->table_fd, false };

	if (m->config.hooks.unregister_region(m->config.hooks.ctx, &m->table_region) == 0)
		mapping_destroy(&map);
}

static void locks_init(struct memory *m)
{
	pthread_mutex_init(&m->extent_lock, NULL);
	pthread_mutex_init(&m->pool_lock, NULL);
	LIST_INIT(&m->caches);
	recut_init(m);
	for (unsigned i = 0; i < SIZE_CLASSES; i++)
		class_init(&m->class[i]);
}

static void locks_destroy(struct memory *m)
{
	for (unsigned i = 0; i < SIZE_CLASSES; i++)
		pthread_mutex_destroy(&m->class[i].lock);
	pthread_mutex_destroy(&m->pool_lock);
	pthread_mutex_destroy(&m->extent_lock);
}

int memory_create(struct memory **out, const struct memory_config *config, struct error *err)
{
	struct memory *m;
	int rc;

	rc = config_check(config, err);
	if (rc)
		return rc;
	m = aligned_alloc(CACHE_LINE, sizeof(*m));
	if (!m)
		return error_set(err, -ENOMEM, "no memory for the store's headers; free memory");
	memset(m, 0, sizeof(*m));
	m->config = *config;
	if (!config->extent_bytes_max || config->extent_bytes_max > EXTENT_BYTES_MAX)
		m->config.extent_bytes_max = EXTENT_BYTES_MAX;
	m->config.extent_bytes_max -= m->config.extent_bytes_max % HUGEPAGE_BYTES;
	locks_init(m);
	m->set = calloc(EXTENTS_MAX, sizeof(*m->set));
	if (!m->set) {
		rc = error_set(err, -ENOMEM, "no memory for the store's headers; free memory");
		goto err_locks;
	}
	rc = table_create(m, err);
	if (rc)
		goto err_set;
	rc = growth_start(m, err);
	if (rc)
		goto err_growth;
	*out = m;
	return 0;

err_growth:
	growth_stop(m);
	table_destroy(m);
err_set:
	free(m->set);
err_locks:
	locks_destroy(m);
	free(m);
	return rc;
}

void memory_destroy(struct memory *m)
{
	assert(LIST_EMPTY(&m->caches));
	growth_stop(m);
	directories_destroy(m);
	extents_destroy(m);
	table_destroy(m);
	free(m->set);
	locks_destroy(m);
	free(m);
}

const void *memory_extent_table(const struct memory *m)
{
	return m->table;
}

const struct memory_region *memory_extent_table_region(const struct memory *m)
{
	return &m->table_region;
}

static void stats_class(struct memory *m, unsigned c, uint64_t cached,
			struct memory_class_stats *out)
{
	struct size_class *class = &m->class[c];

	out->block_bytes = size_class_bytes(c);
	pthread_mutex_lock(&class->lock);
	out->slabs = class->slabs;
	out->blocks_free = class->blocks_free + cached;
	if (out->blocks_free > class->blocks) /* a cache moved between the two looks */
		out->blocks_free = class->blocks;
	out->blocks_used = class->blocks - out->blocks_free;
	pthread_mutex_unlock(&class->lock);
}

void memory_stats_get(struct memory *m, struct memory_stats *out)
{
	uint64_t cached[SIZE_CLASSES] = { 0 };
	const struct memory_cache *cache;

	static_assert(SIZE_CLASSES <= sizeof(out->class) / sizeof(out->class[0]), "classes");
	memset(out, 0, sizeof(*out));
	out->bytes_max = m->config.bytes_max;
	for (unsigned i = 0; i < EXTENT_KINDS; i++)
		out->extent_bytes[i] =
			atomic_load_explicit(&m->kind_bytes[i], memory_order_relaxed);
	out->hugepage_bytes = atomic_load_explicit(&m->hugepage_bytes, memory_order_relaxed);
	out->extents = atomic_load_explicit(&m->extents, memory_order_relaxed);
	out->extents_released = atomic_load_explicit(&m->extents_released, memory_order_relaxed);
	out->elsewhere_bytes = atomic_load_explicit(&m->elsewhere_bytes, memory_order_relaxed);
	out->stuck_bytes = atomic_load_explicit(&m->stuck_bytes, memory_order_relaxed);
	out->hugepages = out->hugepage_bytes != 0;
	out->blocks_exhausted = atomic_load_explicit(&m->blocks_exhausted, memory_order_relaxed);

	pthread_mutex_lock(&m->pool_lock);
	LIST_FOREACH(cache, &m->caches, link)
	{
		for (unsigned c = 0; c < SIZE_CLASSES; c++)
			cached[c] +=
				atomic_load_explicit(&cache->class[c].count, memory_order_relaxed);
	}
	out->slabs_free = m->slabs_free;
	out->slabs_used = m->slabs_total - m->slabs_free - m->slabs_dead - m->slabs_waiting;
	out->slabs_waiting = m->slabs_waiting;
	out->slabs_dead = m->slabs_dead;
	out->run_slabs = m->run_slabs;
	out->segments_used = m->segments.total - m->segments.free;
	out->segments_free = m->segments.free;
	out->segments_exhausted = m->segments.exhausted;
	out->heads_bytes = m->segments.heads_bytes;
	out->directory_bytes_used = m->directories.bytes_used;
	pthread_mutex_unlock(&m->pool_lock);

	out->classes = SIZE_CLASSES;
	for (unsigned c = 0; c < SIZE_CLASSES; c++)
		stats_class(m, c, cached[c], &out->class[c]);
}
