/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/hash.h"
#include "common/layout/block.h"
#include "common/layout/bucket.h"
#include "common/layout/fields.h"
#include "common/layout/limits.h"
#include "common/layout/root.h"
#include "common/layout/size_code.h"
#include "common/layout/slot.h"
#include "common/layout/wire_measure.h"
#include "common/layout/wire_rpc.h"

void root_directory_seal(struct root_directory *d)
{
	d->checksum = hash_bytes(d, offsetof(struct root_directory, checksum));
}

bool root_directory_sound(const struct root_directory *d)
{
	return d->checksum == hash_bytes(d, offsetof(struct root_directory, checksum));
}

void root_extents_seal(struct root_extents *x)
{
	x->checksum = hash_bytes(x, offsetof(struct root_extents, checksum));
}

bool root_extents_sound(const struct root_extents *x)
{
	return x->checksum == hash_bytes(x, offsetof(struct root_extents, checksum));
}

void extent_entry_seal(struct extent_entry *e)
{
	e->checksum = hash_bytes(e, offsetof(struct extent_entry, checksum));
}

bool extent_entry_sound(const struct extent_entry *e)
{
	return e->checksum == hash_bytes(e, offsetof(struct extent_entry, checksum));
}

uint64_t layout_hash(void)
{
	/* Facts that both ends must agree on; values of helpers stand for their bit layouts. */
	const uint64_t facts[] = {
		LAYOUT_VERSION,
		ROOT_MAGIC,
		DIRECTORY_MAGIC,
		KEY_MAX,
		VALUE_MAX,
		SLAB_BYTES,
		OFFSET_UNIT,
		EXTENTS_MAX,
		EXTENT_BYTES_MAX,
		SEGMENT_BUCKETS,
		SEGMENT_OVERFLOW,
		BUCKET_SLOTS,
		DEPTH_MAX,
		BLOCK_CHECKED_START,
		BLOCK_LIVE,
		BLOCK_OBSOLETE,
		EXTENT_INDEX,
		EXTENT_DIR,
		EXTENT_DATA,
		CLOCK_PERIOD_MS,
		slot_make(1, 2, 3, 4 * OFFSET_UNIT),
		bucket_header_make(1, 2, 3, true, 5),
		directory_entry_make(1, 2, 3, 4),
		hash_prefix(0x123456789abcdef0ull, 9),
		hash_bucket(0x123456789abcdef0ull),
		size_code_bytes(100),
		size_code_bytes(255),
		hash_key(1, "layout", 6),
		sizeof(struct root),
		sizeof(struct block),
		sizeof(struct bucket),
		sizeof(struct extent_entry),
		sizeof(struct epoch_slot),
		sizeof(struct directory),
		sizeof(struct rpc_request),
		sizeof(struct rpc_reply),
		RPC_EAGER_MAX,
		RPC_REPLY_INLINE_MAX,
		RPC_SLOTS_MAX,
		SESSION_QPS_MAX,
		RPC_PING,
		RPC_GET,
		RPC_PUT,
		RPC_DEL,
		RPC_STATS,
		RPC_INCR,
		RPC_TOUCH,
		RPC_MEASURE,
		RPC_APPEND,
		RPC_SAVE,
		sizeof(struct rpc_measure),
		sizeof(struct rpc_measured),
		RPC_ALWAYS,
		RPC_IF_ABSENT,
		RPC_IF_PRESENT,
		RPC_IF_VERSION,
		RPC_INLINE_VALUE,
		RPC_RETRY,
		RPC_KEEP_EXPIRY,
		FIELDS(struct block, checksum, state, version, key_hash, expiry_ms, value_len,
		       key_len, flags),
		FIELDS(struct root, server_incarnation, hash_seed, directory, extents, epoch,
		       hint_floor, clock_ms),
		FIELDS(struct root_directory, extent, depth, offset, incarnation),
		FIELDS(struct root_extents, addr, rkey, entries),
		FIELDS(struct extent_entry, addr, length, rkey, kind),
		FIELDS(struct epoch_slot, generation, e, not_e, beat, h, gets, reads, retries),
		FIELDS(struct rpc_request, client_id, generation, sequence, op, flags, slot,
		       key_len, value_len, value_hash, waited_ms, staging_addr, staging_len,
		       staging_rkey, ttl_ms, condition, operand),
		FIELDS(struct rpc_reply, status, slot, sequence, version, index_slot, incarnation,
		       value_len, expiry_ms, clock_ms, number),
	};

	return hash_bytes(facts, sizeof(facts));
}
