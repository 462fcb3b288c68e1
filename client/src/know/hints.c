/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Hints.
 *
 * A hint says: a record whose key has this hash stood in the block at this slot, in this
 * incarnation. It is verified like any other block, so a wrong one costs a READ and no more, as
 * long as what stands at the address is a block of that size class. Slabs are recut, so the
 * server has to know that no client holds a hint from before (HINTS in server/reclaim/grace.c; the
 * proof is tests/model/recut.pml, V_AGES).
 *
 * AGES. All that is remembered has an age, and what is used must have the present one. When the
 * server has raised hint_floor to f, the housekeeper's round makes the age one more: all that was
 * remembered is gone at once, in whatever set it stands, without a look at any. Then
 *	a section			a round of the housekeeper
 *	pin = newest			READ epoch and hint_floor f, poll
 *	full fence			newest = max(newest, v); since = newest
 *	a = age				age = age + 1
 *	use, remember: of a only	full fence
 *	pin = 0				scan; h = f in the first round whose pins are all > since
 *
 * Why no hint from before f is used when h = f was announced. Let a section use one of age a, and
 * the round after it raise the age. The section stored its pin before it loaded a, the round stored
 * the new age before it scans, with full fences in between: so the scan finds the pin, which is at
 * most since (newest only grows, and a pin above it is of a later round, whose section finds the
 * new age). It is waited for. What it remembers meanwhile is of age a, which nobody uses any more.
 *
 * Why what has the new age is from after f. A section that found it began its READs after the age
 * was raised, hence after hint_floor was READ, hence after the slabs that it is about had fallen
 * empty: nothing led into them. A PUT takes the age before its request is first posted, and its
 * block was taken later than that; sent again, it may be answered with what was done at first.
 *
 * SETS. A set is written by one thread at a time: it makes the sequence odd (compare and swap;
 * whoever does not get it gives up), and even again. A reader that finds the same head before and
 * after has read the words of one age, each whole; words of two hints may be mixed where the
 * sequence came round, 32768 writes in between: that is a hint that is wrong, of the right age.
 *
 * WHO GIVES WAY. A clock for each set: a place that was of use is passed over once. What was only
 * found once, in a scan say, goes first.
 */
#include "client/src/know/hints.h"

#include <errno.h>
#include <sys/mman.h>

#include "common/layout/slot.h"

#define SEQUENCE      0xffffull
#define MARK	      16
#define MARKS	      (((1ull << HINT_WAYS) - 1) << MARK)
#define HAND	      (MARK + HINT_WAYS)
#define HAND_MASK     (HINT_WAYS - 1ull)
#define AGE	      32
#define BEING_WRITTEN 1ull
#define SAMPLE	      4096u /* sets */

static uint32_t age_of(uint64_t head)
{
	return (uint32_t)(head >> AGE);
}

int hints_create(struct hints *h, uint64_t bytes, struct error *err)
{
	void *at;

	h->set = NULL;
	h->sets = 1;
	atomic_init(&h->age, 1); /* memory begins with age 0 */
	if (bytes < HINT_BYTES)
		return 0;
	while (h->sets * 2 <= bytes / HINT_BYTES)
		h->sets *= 2;
	at = mmap(NULL, h->sets * HINT_BYTES, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return error_set(err, -ENOMEM,
				 "there is no memory for %llu bytes of hints (set hint_bytes to "
				 "less, or to 0)",
				 (unsigned long long)bytes);
	madvise(at, h->sets * HINT_BYTES, MADV_HUGEPAGE); /* a wish */
	h->set = at;
	return 0;
}

void hints_destroy(struct hints *h)
{
	if (h->set)
		munmap(h->set, h->sets * HINT_BYTES);
	h->set = NULL;
}

void hints_drop_all(struct hints *h)
{
	uint32_t age =
		atomic_load_explicit(&h->age, memory_order_relaxed); /* ours alone to write */

	/* 0 is what fresh memory has */
	atomic_store_explicit(&h->age, age == UINT32_MAX ? 1 : age + 1, memory_order_seq_cst);
}

bool hints_find(const struct hints *h, uint64_t hash, uint32_t age, struct hint *out)
{
	const uint64_t wanted = slot_make(slot_fingerprint_of_hash(hash), 0, 0, 0);
	uint32_t found = 0;
	const struct hint_set *set;
	uint64_t head;

	if (!h->set)
		return false;
	set = hints_set_of(h, hash);
	head = atomic_load_explicit(&set->head, memory_order_acquire); /* pairs with end_write() */
	if (head & BEING_WRITTEN || age_of(head) != age)
		return false;
#pragma GCC unroll 4
	for (unsigned i = 0; i < HINT_WAYS; i++) {
		/* relaxed, as all below: the head tells whether they fit together */
		uint64_t slot = atomic_load_explicit(&set->slot[i], memory_order_relaxed);

		/* without branches: which places are empty is not to be predicted */
		found |= (uint32_t)(slot_fingerprint(slot ^ wanted) == 0) << i;
	}
	if (!found)
		return false;
	out->way = (uint32_t)__builtin_ctz(found);
	out->slot = atomic_load_explicit(&set->slot[out->way], memory_order_relaxed);
	if (!out->slot) /* fits fingerprint 0: one key of four million, which goes by the index */
		return false;
	out->incarnation = atomic_load_explicit(&set->incarnation[out->way], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire); /* the words before the second look */
	return ((head ^ atomic_load_explicit(&set->head, memory_order_relaxed)) & ~MARKS) == 0;
}

/* Returns whether the set is ours now; @head: what it was. */
static bool begin_write(struct hint_set *set, uint64_t *head)
{
	*head = atomic_load_explicit(&set->head, memory_order_relaxed);
	if (*head & BEING_WRITTEN ||
	    !atomic_compare_exchange_strong_explicit(&set->head, head, *head | BEING_WRITTEN,
						     memory_order_acquire, memory_order_relaxed))
		return false;
	atomic_thread_fence(
		memory_order_release); /* odd before the words; pairs with hints_find() */
	return true;
}

static void end_write(struct hint_set *set, uint64_t head)
{
	head = (head & ~SEQUENCE) | ((head + 2) & SEQUENCE);
	atomic_store_explicit(&set->head, head, memory_order_release); /* pairs with hints_find() */
}

void hints_used(struct hints *h, uint64_t hash, const struct hint *hint)
{
	struct hint_set *set = hints_set_of(h, hash);
	uint64_t head = atomic_load_explicit(&set->head, memory_order_relaxed);
	uint64_t mark = 1ull << (MARK + hint->way);

	if (head & (mark | BEING_WRITTEN))
		return; /* the usual case writes nothing */
	/* relaxed: a mark says nothing of the words; one that hits another hint does no harm */
	atomic_compare_exchange_strong_explicit(&set->head, &head, head | mark,
						memory_order_relaxed, memory_order_relaxed);
}

void hints_forget(struct hints *h, uint64_t hash, const struct hint *hint)
{
	struct hint_set *set = hints_set_of(h, hash);
	uint64_t head;

	if (!begin_write(set, &head))
		return;
	if (atomic_load_explicit(&set->slot[hint->way], memory_order_relaxed) == hint->slot &&
	    atomic_load_explicit(&set->incarnation[hint->way], memory_order_relaxed) ==
		    hint->incarnation)
		atomic_store_explicit(&set->slot[hint->way], 0, memory_order_relaxed);
	end_write(set, head);
}

/* The place for a hint: its own, an empty one, or that of the one that gives way. */
static unsigned choose(struct hint_set *set, uint32_t fingerprint, uint64_t *head)
{
	unsigned hand = *head >> HAND & HAND_MASK, empty = HINT_WAYS;

	for (unsigned i = 0; i < HINT_WAYS; i++) {
		uint64_t slot = atomic_load_explicit(&set->slot[i], memory_order_relaxed);

		if (!slot)
			empty = i;
		else if (slot_fingerprint(slot) == fingerprint)
			return i;
	}
	if (empty < HINT_WAYS) {
		*head &= ~(1ull << (MARK + empty));
		return empty;
	}
	hand %= HINT_WAYS;
	for (; *head >> (MARK + hand) & 1; hand = (hand + 1) % HINT_WAYS)
		*head &= ~(1ull << (MARK + hand));
	*head &= ~(HAND_MASK << HAND);
	*head |= (uint64_t)((hand + 1) % HINT_WAYS) << HAND;
	return hand;
}

void hints_remember(struct hints *h, uint64_t hash, uint32_t age, uint64_t slot,
		    uint32_t incarnation)
{
	struct hint_set *set;
	uint64_t head;
	unsigned way;

	if (!h->set || age != hints_age(h))
		return;
	set = hints_set_of(h, hash);
	if (!begin_write(set, &head))
		return;
	if (age_of(head) != age) {
		for (unsigned i = 0; i < HINT_WAYS; i++)
			atomic_store_explicit(&set->slot[i], 0, memory_order_relaxed);
		head = (head & SEQUENCE) | (uint64_t)age << AGE;
	}
	way = choose(set, slot_fingerprint_of_hash(hash), &head);
	atomic_store_explicit(&set->slot[way], slot, memory_order_relaxed);
	atomic_store_explicit(&set->incarnation[way], incarnation, memory_order_relaxed);
	end_write(set, head);
}

uint64_t hints_count(const struct hints *h)
{
	uint64_t sample = h->sets < SAMPLE ? h->sets : SAMPLE, n = 0;

	if (!h->set)
		return 0;
	for (uint64_t i = 0; i < sample; i++) {
		const struct hint_set *set = &h->set[i]; /* of a hash: as good as any */

		if (age_of(atomic_load_explicit(&set->head, memory_order_relaxed)) != hints_age(h))
			continue;
		for (unsigned k = 0; k < HINT_WAYS; k++)
			n += atomic_load_explicit(&set->slot[k], memory_order_relaxed) != 0;
	}
	return n * (h->sets / sample);
}
