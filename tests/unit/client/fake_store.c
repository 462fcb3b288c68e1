/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "fake_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/hash.h"
#include "common/layout/size_code.h"
#include "common/layout/slot.h"

#define RKEY_ROOT  100u
#define RKEY_TABLE 101u
#define RKEY_FIRST 1000u /* of extent 0 */

static void *zeroed(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert(p != MAP_FAILED);
	return p;
}

static void check_bounds(const struct fake *f, const struct read_op *op)
{
	uintptr_t base = 0;
	uint64_t len = FAKE_EXTENT_BYTES;

	if (op->rkey == RKEY_ROOT) {
		base = (uintptr_t)f->root;
		len = ROOT_BYTES;
	} else if (op->rkey == RKEY_TABLE) {
		base = (uintptr_t)f->table;
		len = EXTENT_TABLE_BYTES;
	} else if (op->rkey >= RKEY_FIRST && op->rkey < RKEY_FIRST + EXTENTS_MAX) {
		base = (uintptr_t)f->extent[op->rkey - RKEY_FIRST];
	}
	if (base && op->remote >= base && op->len && op->len <= len &&
	    op->remote - base <= len - op->len)
		return;
	fprintf(stderr, "a READ of %u bytes at 0x%llx, rkey %u, leaves what is registered\n",
		op->len, (unsigned long long)op->remote, op->rkey);
	abort();
}

static void copy(const struct read_op *op)
{
	const uint8_t *from = (const uint8_t *)(uintptr_t)op->remote;
	uint32_t done = read_op_first(op);

	assert(done >= 1 && done <= op->len);
	memcpy(op->local, from, done);
	for (unsigned i = 0; op->more && i < READ_PIECES - 1; i++) {
		assert(op->more[i].len <= op->len - done);
		memcpy(op->more[i].local, from + done, op->more[i].len);
		done += op->more[i].len;
	}
	assert(done == op->len);
}

static int fake_read(void *ctx, const struct read_op *ops, unsigned count)
{
	struct fake *f = ctx;

	assert(count >= 1 && count <= READER_BATCH);
	if ((int)f->chains++ == f->fail_at_chain)
		return -ECONNRESET;
	if (f->before)
		f->before(f, ops, count);
	for (unsigned i = 0; i < count; i++) {
		check_bounds(f, &ops[i]);
		copy(&ops[i]);
		if (ops[i].rkey == RKEY_FIRST + FAKE_DATA) {
			f->data_reads++;
			f->data_bytes += ops[i].len;
		}
	}
	if (f->after)
		f->after(f, ops, count);
	return 0;
}

int lookup_run(struct reader *r, struct lookup *l, unsigned count, uint32_t age)
{
	struct batch b;

	batch_init(r, &b, l, &r->fetch);
	while (b.count < count)
		batch_add(r, &b, false);
	b.age = age;
	return batch_run(r, &b);
}

static int fake_grow(struct fetch *fetch, size_t bytes)
{
	struct fake *f = fetch->owner;

	free(fetch->arena);
	fetch->arena = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	fetch->arena_len = bytes;
	f->grown++;
	return fetch->arena ? 0 : -ENOMEM;
}

static uint64_t fake_clock(void *ctx)
{
	return ((struct fake *)ctx)->clock_ms;
}

static const struct reader_ops fake_ops = {
	.read = fake_read,
	.clock_ms = fake_clock,
};

static void fake_extent(struct fake *f, unsigned number, enum extent_kind kind)
{
	if (!f->extent[number])
		f->extent[number] = zeroed(FAKE_EXTENT_BYTES);
	f->table[number] = (struct extent_entry){
		.addr = (uintptr_t)f->extent[number],
		.length = FAKE_EXTENT_BYTES,
		.rkey = RKEY_FIRST + number,
		.kind = kind,
	};
	extent_entry_seal(&f->table[number]);
}

void fake_publish_late(struct fake *f)
{
	fake_extent(f, FAKE_DATA_LATE, EXTENT_DATA);
}

void fake_directory(struct fake *f, unsigned depth, uint32_t incarnation)
{
	struct directory *d = (void *)(f->extent[FAKE_DIR] + f->dir_used);

	f->dir_used += sizeof(*d) + (((8ull << depth) + 63) & ~63ull);
	assert(f->dir_used <= FAKE_EXTENT_BYTES);
	d->magic = DIRECTORY_MAGIC;
	d->depth = depth;
	d->incarnation = incarnation;
	d->server_incarnation = FAKE_INCARNATION;
	d->checksum = hash_bytes(d, offsetof(struct directory, checksum));
	f->dir = d;
	f->root->directory = (struct root_directory){
		.extent = FAKE_DIR,
		.depth = depth,
		.offset = (uint64_t)((uint8_t *)d - f->extent[FAKE_DIR]),
		.incarnation = incarnation,
	};
	root_directory_seal(&f->root->directory);
}

uint64_t fake_segment(struct fake *f, uint32_t prefix, unsigned depth)
{
	unsigned number = f->segments_used++;
	uint64_t entry = directory_entry_make(number + 1, depth, FAKE_INDEX, number);
	struct bucket *bucket = (struct bucket *)fake_segment_of(f, entry);

	assert((uint64_t)(number + 1) * SEGMENT_BYTES <= FAKE_EXTENT_BYTES);
	for (unsigned i = 0; i < SEGMENT_BUCKETS + SEGMENT_OVERFLOW; i++)
		bucket[i].header = bucket_header_make(number + 1, prefix, depth, false, 0);
	return entry;
}

struct segment *fake_segment_of(struct fake *f, uint64_t entry)
{
	return (void *)(f->extent[FAKE_INDEX] +
			(size_t)directory_entry_segment(entry) * SEGMENT_BYTES);
}

struct fake *fake_create(unsigned depth)
{
	struct fake *f = calloc(1, sizeof(*f));

	assert(f);
	f->fail_at_chain = -1;
	f->root = zeroed(ROOT_BYTES);
	f->table = zeroed(EXTENT_TABLE_BYTES);
	fake_extent(f, FAKE_INDEX, EXTENT_INDEX);
	fake_extent(f, FAKE_DIR, EXTENT_DIR);
	fake_extent(f, FAKE_DATA, EXTENT_DATA);
	f->root->magic = ROOT_MAGIC;
	f->root->layout_version = LAYOUT_VERSION;
	f->root->layout_hash = layout_hash();
	f->root->segment_buckets = SEGMENT_BUCKETS;
	f->root->server_incarnation = FAKE_INCARNATION;
	f->root->hash_seed = 4711;
	f->root->extents.addr = (uintptr_t)f->table;
	f->root->extents.rkey = RKEY_TABLE;
	f->root->extents.entries = EXTENTS_MAX;
	root_extents_seal(&f->root->extents);
	fake_directory(f, depth, 1);
	for (uint32_t i = 0; i < 1u << depth; i++)
		f->dir->entry[i] = fake_segment(f, i, depth);
	f->reader = (struct reader){
		.ops = &fake_ops,
		.ctx = f,
		.world = world_new(FAKE_INCARNATION, (uintptr_t)f->root, RKEY_ROOT),
		.fetch = {
			.buckets = aligned_alloc(64, READER_BATCH * BUCKET_BYTES),
			.arena = aligned_alloc(64, READER_ARENA_BYTES),
			.arena_len = READER_ARENA_BYTES,
			.batch_bytes = READER_ARENA_BYTES,
			.grow = fake_grow,
			.owner = f,
		},
		.scratch = aligned_alloc(64, READER_SCRATCH_BYTES),
		.err = &f->err,
	};
	return f;
}

void fake_destroy(struct fake *f)
{
	reader_drop(&f->reader);
	free(f->reader.fetch.buckets);
	free(f->reader.scratch);
	free(f->reader.fetch.arena);
	for (unsigned i = 0; i < EXTENTS_MAX; i++) {
		if (f->extent[i])
			munmap(f->extent[i], FAKE_EXTENT_BYTES);
	}
	munmap(f->root, ROOT_BYTES);
	munmap(f->table, EXTENT_TABLE_BYTES);
	free(f);
}

uint64_t fake_hash(const struct fake *f, const char *key)
{
	return hash_key(f->root->hash_seed, key, strlen(key));
}

struct bucket *fake_bucket(struct fake *f, const char *key)
{
	uint64_t hash = fake_hash(f, key);
	uint64_t entry = f->dir->entry[hash_prefix(hash, f->dir->depth)];

	return &fake_segment_of(f, entry)->bucket[hash_bucket(hash)];
}

uint64_t fake_block(struct fake *f, const char *key, const char *value, const char *fingerprint_of,
		    struct block **block)
{
	uint32_t bytes = block_bytes((uint32_t)strlen(key), (uint32_t)strlen(value));
	unsigned code = size_code_for(bytes);
	uint64_t offset = f->data_used;
	struct block *b;

	if (offset % SLAB_BYTES + size_code_bytes(code) > SLAB_BYTES)
		offset = (offset + SLAB_BYTES - 1) & ~(uint64_t)(SLAB_BYTES - 1);
	f->data_used = offset + size_code_bytes(code);
	assert(f->data_used <= FAKE_EXTENT_BYTES);
	b = (void *)(f->extent[FAKE_DATA] + offset);
	b->state = block_state_make(9, BLOCK_LIVE);
	b->version = 1 + offset / 64;
	b->key_hash = fake_hash(f, key);
	b->value_len = (uint32_t)strlen(value);
	b->key_len = (uint16_t)strlen(key);
	memcpy(b->data, key, strlen(key));
	memcpy(b->data + strlen(key), value, strlen(value));
	b->checksum = block_checksum(b, block_body_hash(b));
	if (block)
		*block = b;
	return slot_make(slot_fingerprint_of_hash(fake_hash(f, fingerprint_of)), code, FAKE_DATA,
			 (uint32_t)offset);
}

struct block *fake_put(struct fake *f, const char *key, const char *value)
{
	struct bucket *bucket = fake_bucket(f, key);
	struct block *b;
	unsigned i = 0;

	while (bucket->slot[i])
		i++;
	assert(i < BUCKET_SLOTS);
	bucket->slot[i] = fake_block(f, key, value, key, &b);
	return b;
}
