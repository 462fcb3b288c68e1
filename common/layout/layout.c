/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/hash.h"
#include "common/layout/block.h"
#include "common/layout/bucket.h"
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

#define FIELD(type, member) \
	((uint64_t)offsetof(struct type, member) << 32 | sizeof(((struct type *)0)->member))

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
		sizeof(struct rpc_measure),
		sizeof(struct rpc_measured),
		RPC_ALWAYS,
		RPC_IF_ABSENT,
		RPC_IF_PRESENT,
		RPC_IF_VERSION,
		RPC_INLINE_VALUE,
		RPC_RETRY,
		RPC_KEEP_EXPIRY,
		FIELD(block, checksum),
		FIELD(block, state),
		FIELD(block, version),
		FIELD(block, key_hash),
		FIELD(block, expiry_ms),
		FIELD(block, value_len),
		FIELD(block, key_len),
		FIELD(block, flags),
		FIELD(root, server_incarnation),
		FIELD(root, hash_seed),
		FIELD(root, directory),
		FIELD(root, extents),
		FIELD(root, epoch),
		FIELD(root, hint_floor),
		FIELD(root, clock_ms),
		FIELD(root_directory, extent),
		FIELD(root_directory, depth),
		FIELD(root_directory, offset),
		FIELD(root_directory, incarnation),
		FIELD(root_extents, addr),
		FIELD(root_extents, rkey),
		FIELD(root_extents, entries),
		FIELD(extent_entry, addr),
		FIELD(extent_entry, length),
		FIELD(extent_entry, rkey),
		FIELD(extent_entry, kind),
		FIELD(epoch_slot, generation),
		FIELD(epoch_slot, e),
		FIELD(epoch_slot, not_e),
		FIELD(epoch_slot, beat),
		FIELD(epoch_slot, h),
		FIELD(epoch_slot, gets),
		FIELD(epoch_slot, reads),
		FIELD(epoch_slot, retries),
		FIELD(rpc_request, client_id),
		FIELD(rpc_request, generation),
		FIELD(rpc_request, sequence),
		FIELD(rpc_request, op),
		FIELD(rpc_request, flags),
		FIELD(rpc_request, slot),
		FIELD(rpc_request, key_len),
		FIELD(rpc_request, value_len),
		FIELD(rpc_request, value_hash),
		FIELD(rpc_request, waited_ms),
		FIELD(rpc_request, staging_addr),
		FIELD(rpc_request, staging_len),
		FIELD(rpc_request, staging_rkey),
		FIELD(rpc_request, ttl_ms),
		FIELD(rpc_request, condition),
		FIELD(rpc_request, operand),
		FIELD(rpc_reply, status),
		FIELD(rpc_reply, slot),
		FIELD(rpc_reply, sequence),
		FIELD(rpc_reply, version),
		FIELD(rpc_reply, index_slot),
		FIELD(rpc_reply, incarnation),
		FIELD(rpc_reply, value_len),
		FIELD(rpc_reply, expiry_ms),
		FIELD(rpc_reply, clock_ms),
		FIELD(rpc_reply, number),
	};

	return hash_bytes(facts, sizeof(facts));
}
