/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A reader with hints: it remembers of each of its keys where the block was that the index led to,
 * over sections, and READs it there. Nothing keeps that block from being replaced and reused: what
 * keeps the reader right is the block's own word (LIVE, the incarnation that the hint promises, the
 * checksum), OBSOLETE before the new block can be seen (DESIGN 3), and that the address keeps its
 * format until no session holds a hint as old (DESIGN 5.1, h).
 */
#include <string.h>

#include "common/base/hash.h"
#include "common/layout/block.h"
#include "common/layout/root.h"
#include "tests/stress/torture/forge.h"
#include "tests/stress/torture/reader.h"

#define HINTS	    4096u /* a power of two times HINTS_FIRST */
#define HINTS_FIRST 16u
#define HINT_BYTES  (64u << 10) /* longer blocks are not remembered */
#define TELL_ONE_IN 128u /* looks */

struct hint {
	uint32_t k;
	uint64_t epoch; /* it was learnt in a section with a pin at or above this */
	uint64_t remote;
	uint32_t rkey, len, incarnation; /* len 0: none */
};

struct hints {
	uint64_t session_number; /* that they belong to */
	unsigned at, in_use;
	struct hint hint[HINTS];
};

static _Atomic bool holding; /* this process has hints */
static _Atomic uint64_t oldest; /* no hint is older than this epoch */

/*
 * The library knows of no hints and says that none is older than now. Its housekeeper writes the
 * epoch slot through here, and says what is so.
 */
int __real_channel_write(struct gkv *h, uint64_t remote, uint32_t rkey, const void *bytes,
			 uint32_t len);
int __wrap_channel_write(struct gkv *h, uint64_t remote, uint32_t rkey, const void *bytes,
			 uint32_t len);

int __wrap_channel_write(struct gkv *h, uint64_t remote, uint32_t rkey, const void *bytes,
			 uint32_t len)
{
	struct epoch_slot *slot = (struct epoch_slot *)(uintptr_t)bytes;

	/* acquire pairs with tell_oldest(): what was dropped before is used no more */
	if (len == sizeof(*slot) && atomic_load(&holding)) {
		uint64_t h_now = atomic_load_explicit(&slot->h, memory_order_relaxed);
		uint64_t h_held = atomic_load_explicit(&oldest, memory_order_acquire);

		atomic_store_explicit(&slot->h, h_now < h_held ? h_now : h_held,
				      memory_order_relaxed);
	}
	return __real_channel_write(h, remote, rkey, bytes, len);
}

static uint64_t epoch_now(struct visitor *r)
{
	return atomic_load_explicit(&r->session->epochs.newest, memory_order_acquire);
}

/* Drop what the server asks to be dropped, and let the housekeeper say what is left. */
static void tell_oldest(struct visitor *r, struct hints *hints)
{
	const struct world *w = r->kv->reader.world;
	const struct read_op op = reader_scratch_op(
		&r->kv->reader, 0, w->root_addr + offsetof(struct root, hint_floor), w->root_rkey,
		sizeof(uint64_t));
	uint64_t epoch = epoch_now(r), floor;
	int rc;

	section_open(r->kv);
	rc = r->hold.real->read(r->kv, &op, 1);
	section_close(r->kv);
	if (rc)
		return; /* a new session comes */
	floor = *(const uint64_t *)r->kv->reader.scratch;
	for (unsigned i = 0; i < HINTS; i++) {
		struct hint *hint = &hints->hint[i];

		if (hint->len && hint->epoch < floor) {
			hint->len = 0;
			count(&r->seat->counts.hints_asked, 1);
		}
		if (hint->len && hint->epoch < epoch)
			epoch = hint->epoch;
	}
	/* release pairs with __wrap_channel_write() */
	atomic_store_explicit(&oldest, epoch, memory_order_release);
}

/* By the index; what it found is remembered. */
static void learn(struct visitor *r, struct hint *hint)
{
	const struct hold_block *last = &r->hold.last;

	hint->k = key_pick(r->s, &r->random);
	hint->len = 0;
	hint->epoch = epoch_now(r);
	reader_get(r, hint->k);
	if (!last->remote || last->len > HINT_BYTES ||
	    block_state_of(atomic_load_explicit(&last->copy->state, memory_order_relaxed)) !=
		    BLOCK_LIVE)
		return;
	hint->remote = last->remote;
	hint->rkey = last->rkey;
	hint->len = last->len;
	hint->incarnation = last->incarnation;
}

static void accepted(struct visitor *r, const struct hint *hint, const struct block *b,
		     uint32_t floor)
{
	uint64_t state = atomic_load_explicit(&b->state, memory_order_relaxed);

	count(&r->seat->counts.hints_good, 1);
	if (block_state_incarnation(state) != hint->incarnation)
		model_wrong(r->s->model, WRONG_HINT, hint->k,
			    "incarnation %u was accepted by a hint that promised %u",
			    block_state_incarnation(state), hint->incarnation);
	else if (forged(b->data + b->key_len, b->value_len))
		model_wrong(r->s->model, WRONG_FORGED, hint->k,
			    "a hint with incarnation %u led into the value of another record, "
			    "which was accepted",
			    hint->incarnation);
	else
		model_found(r->s->model, hint->k, floor, b->data + b->key_len, b->value_len);
}

/* One READ, in a section of its own. Returns whether the hint is still good. */
static bool follow(struct visitor *r, const struct hint *hint)
{
	struct gkv *h = r->kv;
	const struct read_op op = { hint->remote, hint->rkey, hint->len, h->reader.arena,
				    h->reader.arena_lkey };
	uint32_t floor = model_floor(r->s->model, hint->k), key_len;
	const struct block *b = (const struct block *)h->reader.arena;
	enum block_verdict verdict;
	char key[MODEL_KEY_MAX];
	int rc;

	section_open(h);
	rc = hold_read_hint(&r->hold, &op, hint->incarnation);
	section_close(h);
	if (rc)
		return false;
	key_len = model_key(hint->k, key);
	verdict =
		block_verify(b, hint->len, key, key_len,
			     hash_key(h->reader.world->hash_seed, key, key_len), hint->incarnation);
	count(&r->seat->counts.hints, 1);
	if (verdict == BLOCK_OK)
		accepted(r, hint, b, floor);
	else
		count(&r->seat->counts.hints_gone, 1);
	return verdict == BLOCK_OK;
}

void hint_begin(void)
{
	atomic_store(&oldest, 0);
	atomic_store(&holding, true);
}

/*
 * Hints are used in turn, so that in between their blocks have time to be reused: of few at first,
 * so that all are met where everything is slow.
 */
static struct hint *next(struct hints *hints)
{
	if (++hints->at < hints->in_use)
		return &hints->hint[hints->at];
	if (hints->in_use < HINTS)
		hints->in_use *= 2;
	hints->at = 0;
	return &hints->hint[0];
}

void hint_visit(struct visitor *r, uint64_t end_ns)
{
	static struct hints hints;

	memset(&hints, 0, sizeof(hints));
	hints.in_use = HINTS_FIRST;
	hold_take(&r->hold, r->s, r->seat, r->kv, &r->random);
	for (unsigned n = 0; !shared_ended(r->s) && time_now_ns() < end_ns; n++) {
		struct hint *hint;

		reader_rest(r);
		r->kv->deadline_ns = 0; /* each look is a call of its own */
		if (hints.session_number != r->kv->session_number || !handle_current(r->kv)) {
			memset(hints.hint, 0, sizeof(hints.hint)); /* they died with it */
			hints.session_number = r->kv->session_number;
		}
		hint = next(&hints);
		if (n % TELL_ONE_IN == TELL_ONE_IN - 1 && handle_current(r->kv))
			tell_oldest(r, &hints);
		else if (!hint->len)
			learn(r, hint);
		else if (!follow(r, hint))
			hint->len = 0;
	}
}
