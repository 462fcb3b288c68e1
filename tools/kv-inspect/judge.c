/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-inspect/judge.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/base/hash.h"
#include "common/layout/limits.h"
#include "common/layout/size_code.h"
#include "common/layout/slot.h"

#define ENTRY_BITS 57u /* of a directory entry */

static const char *say(char text[JUDGE_TEXT], const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static const char *say(char text[JUDGE_TEXT], const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, JUDGE_TEXT, fmt, args);
	va_end(args);
	return text;
}

const char *judge_root(const struct root *root, uint64_t incarnation, char text[JUDGE_TEXT])
{
	if (root->magic != ROOT_MAGIC)
		return say(text, "magic is 0x%016" PRIx64 ", not 0x%016llx: this is no root",
			   root->magic, ROOT_MAGIC);
	if (root->layout_version != LAYOUT_VERSION || root->layout_hash != layout_hash())
		return say(text,
			   "layout %u (%016" PRIx64 ") is not ours, which is %u (%016" PRIx64 ")",
			   root->layout_version, root->layout_hash, LAYOUT_VERSION, layout_hash());
	if (root->segment_buckets != SEGMENT_BUCKETS)
		return say(text, "%u buckets a segment are not ours, which has %u",
			   root->segment_buckets, SEGMENT_BUCKETS);
	if (!root->server_incarnation || (incarnation && root->server_incarnation != incarnation))
		return say(text,
			   "server incarnation %016" PRIx64 " is not %016" PRIx64
			   ", which the server said when we connected",
			   root->server_incarnation, incarnation);
	if (!atomic_load_explicit(&root->epoch, memory_order_relaxed)) /* a copy */
		return "the epoch is 0: it counts from 1";
	return NULL;
}

const char *judge_root_extents(const struct root_extents *x, char text[JUDGE_TEXT])
{
	if (!root_extents_sound(x))
		return "its checksum does not fit";
	if (x->entries == 0 || x->entries > EXTENTS_MAX)
		return say(text, "a table of %u entries cannot be (1 to %u)", x->entries,
			   EXTENTS_MAX);
	if (!x->addr || x->addr + EXTENT_TABLE_BYTES < x->addr)
		return say(text, "a table at 0x%" PRIx64 " cannot be", x->addr);
	return NULL;
}

const char *judge_root_directory(const struct root_directory *d, const struct extent *x,
				 char text[JUDGE_TEXT])
{
	uint64_t bytes;

	if (!root_directory_sound(d))
		return "its checksum does not fit";
	if (d->depth > DEPTH_MAX)
		return say(text, "depth %u is more than %u", d->depth, DEPTH_MAX);
	if (!x)
		return say(text, "extent %u is not in the extent table", d->extent);
	if (x->kind != EXTENT_DIR)
		return say(text, "extent %u is not one of directories", d->extent);
	bytes = sizeof(struct directory) + (sizeof(uint64_t) << d->depth);
	if (d->offset % 64 || d->offset > x->length || bytes > x->length - d->offset)
		return say(text,
			   "%" PRIu64 " bytes at offset 0x%" PRIx64
			   " are not inside its extent of %" PRIu64 " bytes, or not at a multiple "
			   "of 64",
			   bytes, d->offset, x->length);
	if (!d->incarnation)
		return "its incarnation is 0: they count from 1";
	return NULL;
}

const char *judge_directory(const struct directory *d, const struct root_directory *at,
			    uint64_t incarnation, char text[JUDGE_TEXT])
{
	if (d->magic != DIRECTORY_MAGIC)
		return say(text, "magic is 0x%016" PRIx64 ", not 0x%016llx", d->magic,
			   DIRECTORY_MAGIC);
	if (d->checksum != hash_bytes(d, offsetof(struct directory, checksum)))
		return "its checksum does not fit";
	if (d->depth != at->depth || d->incarnation != at->incarnation)
		return say(text,
			   "depth %u, incarnation %u stand there, root promises depth %u, "
			   "incarnation %u",
			   d->depth, d->incarnation, at->depth, at->incarnation);
	if (d->server_incarnation != incarnation)
		return say(text, "it is of server incarnation %016" PRIx64, d->server_incarnation);
	return NULL;
}

const char *judge_extent(const struct extent_entry *e, char text[JUDGE_TEXT])
{
	if (!e->addr && !e->length && !e->rkey && !e->kind && !e->checksum)
		return NULL;
	if (!extent_entry_sound(e))
		return "its checksum does not fit";
	if (e->kind != EXTENT_INDEX && e->kind != EXTENT_DIR && e->kind != EXTENT_DATA)
		return say(text, "its kind %u is none", e->kind);
	if (!e->addr || !e->length || e->length > EXTENT_BYTES_MAX ||
	    e->addr + e->length <= e->addr)
		return say(text, "%" PRIu64 " bytes at 0x%" PRIx64 " cannot be", e->length,
			   e->addr);
	return NULL;
}

const char *judge_entry(uint64_t entry, unsigned depth, char text[JUDGE_TEXT])
{
	if (!entry)
		return "it is empty";
	if (!directory_entry_incarnation(entry))
		return "its incarnation is 0: they count from 1";
	if (entry >> ENTRY_BITS)
		return "bits that mean nothing are set in it";
	if (directory_entry_depth(entry) > depth)
		return say(text, "its local depth %u is more than the directory's %u",
			   directory_entry_depth(entry), depth);
	return NULL;
}

uint64_t judge_run_length(const struct dir_cache *d, uint64_t first)
{
	uint64_t all = 1ull << d->depth, entry = judge_entry_at(d, first), end = first + 1;

	while (end < all && judge_entry_at(d, end) == entry)
		end++;
	return end - first;
}

const char *judge_run(const struct dir_cache *d, uint64_t first, uint64_t count,
		      const struct extent *x, char text[JUDGE_TEXT])
{
	uint64_t entry = judge_entry_at(d, first), span;
	const char *fault = judge_entry(entry, d->depth, text);

	if (fault)
		return fault;
	span = 1ull << (d->depth - directory_entry_depth(entry));
	if (first % span || count != span)
		return say(text,
			   "its local depth wants %" PRIu64 " entries like it, from a multiple of "
			   "that on, there are %" PRIu64,
			   span, count);
	if (!x)
		return "its extent is not in the extent table";
	if (x->kind != EXTENT_INDEX)
		return "its extent is not one of segments";
	if ((directory_entry_segment(entry) + 1ull) * SEGMENT_BYTES > x->length)
		return "its segment is beyond the end of its extent";
	return NULL;
}

const char *judge_header(uint64_t header, uint64_t entry, uint64_t hash, char text[JUDGE_TEXT])
{
	unsigned depth = directory_entry_depth(entry);

	if (!header)
		return "its header is 0";
	if (bucket_header_moved(header))
		return "it is MOVED: its segment was replaced";
	if (bucket_header_incarnation(header) != directory_entry_incarnation(entry))
		return say(text, "its segment's incarnation is %u, the directory says %u",
			   bucket_header_incarnation(header), directory_entry_incarnation(entry));
	if (bucket_header_depth(header) != depth)
		return say(text, "its local depth is %u, the directory says %u",
			   bucket_header_depth(header), depth);
	if (bucket_header_prefix(header) != hash_prefix(hash, depth))
		return say(text, "its prefix is 0x%x, of the hashes here it is 0x%x",
			   bucket_header_prefix(header), hash_prefix(hash, depth));
	if (bucket_header_overflow(header) > SEGMENT_OVERFLOW)
		return say(text, "it links to overflow bucket %u, of %u",
			   bucket_header_overflow(header), SEGMENT_OVERFLOW);
	return NULL;
}

const char *judge_slot(uint64_t slot, const struct extent *x, char text[JUDGE_TEXT])
{
	uint32_t len = size_code_bytes(slot_size_code(slot)), offset = slot_offset(slot);

	if (!len)
		return "its size code is 0";
	if (!x)
		return say(text, "extent %u is not in the extent table", slot_extent(slot));
	if (x->kind != EXTENT_DATA)
		return say(text, "extent %u is not one of blocks", slot_extent(slot));
	if (offset >= x->length || len > x->length - offset)
		return say(text,
			   "%u bytes at offset 0x%x go beyond the end of extent %u (%" PRIu64
			   " bytes)",
			   len, offset, slot_extent(slot), x->length);
	if (len <= SLAB_BYTES / 4 && offset % SLAB_BYTES + len > SLAB_BYTES)
		return say(text, "%u bytes at offset 0x%x go beyond the end of their slab", len,
			   offset);
	return NULL;
}

const char *judge_state(uint32_t state)
{
	static const char *const names[] = { "invalid", "live", "obsolete" };

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "none";
}

static uint32_t lengths(const struct block *b, uint32_t len)
{
	if (len < BLOCK_HEADER_BYTES || b->key_len < KEY_MIN || b->key_len > KEY_MAX ||
	    b->value_len > VALUE_MAX || block_bytes(b->key_len, b->value_len) > len)
		return 0;
	return block_bytes(b->key_len, b->value_len);
}

struct judged judge_block(const struct block *b, uint32_t len, uint64_t seed)
{
	uint64_t state = atomic_load_explicit(&b->state, memory_order_relaxed); /* a copy */
	struct judged j = { .state = block_state_of(state),
			    .incarnation = block_state_incarnation(state),
			    .bytes = lengths(b, len) };

	if (j.bytes) {
		j.checksum_good = block_checksum(b, block_body_hash(b)) == b->checksum;
		j.hash_good = hash_key(seed, b->data, b->key_len) == b->key_hash;
	}
	if (j.state == BLOCK_INVALID)
		j.fault = "it is INVALID: an insert that waits for the log, or never published";
	else if (j.state > BLOCK_OBSOLETE)
		j.fault = "its state is none that a block has";
	else if (!j.bytes)
		j.fault = "its lengths cannot be, or are longer than what a slot's size code READs";
	else if (!j.checksum_good)
		j.fault = "its checksum does not fit: torn, overwritten, or no block";
	else if (!j.hash_good)
		j.fault = "its hash is not that of its key";
	else if (!j.incarnation)
		j.fault = "its incarnation is 0: they count from 1";
	else if (!b->version)
		j.fault = "its version is 0: they count from 1";
	else if (b->flags)
		j.fault = "its flags are not 0";
	else if (j.state == BLOCK_OBSOLETE)
		j.fault = "it is OBSOLETE: replaced or deleted";
	return j;
}

const char *judge_record(const struct block *b, uint64_t slot, uint64_t header, unsigned bucket,
			 char text[JUDGE_TEXT])
{
	unsigned depth = bucket_header_depth(header);
	uint64_t hash = b->key_hash;

	if (slot_fingerprint(slot) != slot_fingerprint_of_hash(hash))
		return say(text, "the slot's fingerprint is 0x%06x, the hash's is 0x%06x",
			   slot_fingerprint(slot), slot_fingerprint_of_hash(hash));
	if (hash_bucket(hash) != bucket)
		return say(text, "its hash belongs to bucket %u", hash_bucket(hash));
	if (depth > DEPTH_MAX || hash_prefix(hash, depth) != bucket_header_prefix(header))
		return say(text, "its hash %016" PRIx64 " belongs to another segment", hash);
	if (slot_size_code(slot) != size_code_for(block_bytes(b->key_len, b->value_len)))
		return say(text, "the slot's size code is %u, %u is enough for the %u bytes",
			   slot_size_code(slot),
			   size_code_for(block_bytes(b->key_len, b->value_len)),
			   block_bytes(b->key_len, b->value_len));
	return NULL;
}
