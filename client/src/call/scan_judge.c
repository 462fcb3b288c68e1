/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What a pass of a scan has brought: each block is judged, and may deal with its position. */
#include "client/src/call/scan.h"
#include "client/src/link/handle.h"
#include "common/base/hash.h"
#include "common/layout/block.h"

static bool head_only(const struct scan_block *f)
{
	return f->len < f->whole;
}

static enum block_verdict judge(const struct gkv_cursor *s, const struct scan_block *f)
{
	if (head_only(f))
		return block_verify_key(f->block, f->len, f->whole, s->h->reader.world->hash_seed);
	return block_verify_any(f->block, f->len);
}

/* A block that does not verify: can its key be read? Its state is not under the checksum. */
static bool key_readable(const struct gkv_cursor *s, const struct scan_block *f)
{
	struct block *b = f->block;
	uint64_t state = atomic_load_explicit(&b->state, memory_order_relaxed); /* private copy */

	if (block_state_of(state) != BLOCK_OBSOLETE)
		return false;
	atomic_store_explicit(&b->state,
			      block_state_make(block_state_incarnation(state), BLOCK_LIVE),
			      memory_order_relaxed);
	return judge(s, f) == BLOCK_OK;
}

static bool has_prefix(const struct gkv_cursor *s, const struct block *b)
{
	return b->key_len >= s->prefix_len && memcmp(b->data, s->prefix, s->prefix_len) == 0;
}

static int look_up_later(struct gkv_cursor *s, const struct scan_block *f)
{
	struct scan_key *k = &s->key[s->keys++];

	k->position = f->position;
	k->again = false;
	k->len = f->block->key_len;
	memcpy(k->bytes, f->block->data, k->len);
	return 1;
}

static int mark(struct gkv_cursor *s, const struct scan_block *f)
{
	scan_mark(&s->pass, f->position);
	return 1;
}

/* A block that is not what the slot promised: its key is looked up, or it is READ once more. */
static int take_unsound(struct gkv_cursor *s, const struct scan_block *f,
			enum block_verdict verdict)
{
	struct gkv_stats *stats = &s->h->reader.stats;

	figure_add(verdict == BLOCK_GONE ? &stats->retry_obsolete : &stats->retry_checksum, 1);
	if (verdict == BLOCK_GONE && key_readable(s, f)) {
		if (!has_prefix(s, f->block))
			return mark(s, f);
		if (!s->keys_only || s->idle)
			return look_up_later(s, f);
	}
	s->pass.bad++;
	return 0;
}

/* What has expired by now, or may have: the server deletes it. */
static bool expired(const struct gkv_cursor *s, const struct block *b)
{
	return b->expiry_ms && (!s->now_ms || b->expiry_ms <= s->now_ms);
}

/* Whether its head has the whole key; else the next one has. */
static bool head_long_enough(struct scan *pass, const struct scan_block *f)
{
	uint32_t need = (block_bytes(f->block->key_len, 0) + OFFSET_UNIT - 1) & ~(OFFSET_UNIT - 1);

	if (f->block->key_len > KEY_MAX) /* no block, says judge() */
		return true;
	if (pass->head_met < need)
		pass->head_met = need;
	if (!head_only(f) || f->len >= need)
		return true;
	if (pass->head < need)
		pass->head = need;
	pass->left = true;
	return false;
}

/* Returns 1: that deals with its position, or is a step to it; 0; -ENOMEM. */
static int take(struct gkv_cursor *s, const struct scan_block *f)
{
	struct scan *pass = &s->pass;
	const struct block *b = f->block;
	enum block_verdict verdict;
	struct gkv_record rec;
	int rc;

	if (!head_long_enough(pass, f))
		return 1;
	verdict = judge(s, f);
	if (verdict != BLOCK_OK)
		return take_unsound(s, f, verdict);
	if (!has_prefix(s, b))
		return mark(s, f);
	if (expired(s, b))
		return look_up_later(s, f);
	if (head_only(f) && !s->keys_only) {
		pass->whole[f->position / 64] |= 1ull << f->position % 64;
		pass->left = true;
		return 1;
	}
	rec = (struct gkv_record){
		.key = b->data,
		.key_len = b->key_len,
		.value = s->keys_only ? NULL : b->data + b->key_len,
		.meta = { b->version, b->expiry_ms, b->value_len, 0 },
	};
	rc = scan_keep(s, b->key_hash, &rec, 0, false);
	if (rc > 0)
		pass->left = true;
	return rc < 0 ? rc : rc ? 0 : mark(s, f);
}

int scan_judge(struct gkv_cursor *s)
{
	int dealt = 0;

	for (unsigned i = 0; i < s->pass.count; i++) {
		int rc = take(s, &s->pass.fetched[i]);

		if (rc < 0)
			return rc;
		dealt += rc;
	}
	return dealt;
}
