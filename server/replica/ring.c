/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A ring between two machines. tests/model/ring.pml is its model.
 *
 * WRITEs land in any order and in pieces, and nobody tells the backup: it looks. What it must know
 * of the bytes at a place, it learns from the bytes alone:
 * 1. They are a header of this ring, not what a client has put into a value: the checksum is seeded
 *    with the ring's key, which no client knows.
 * 2. It is of this lap: it has its place, which counts over all laps. Memory is never cleared.
 * 3. The records have come as well, each byte: the header has their checksum.
 * Header and records are copied out, and the copy is judged, so nothing changes between the two
 * looks. What fails is looked at again, later: a batch that is not whole yet, and one that never
 * came, look alike. No memory order is asked of the device, or of the processor: a checksum that is
 * right says that all bytes were read as they were written.
 *
 * A place is written again only when the backup has said that it has taken what was there: `taken`
 * grows after the copy was judged to be right. So what has completed at a backup and was not taken
 * stays, whole, for as long as the ring does, and who takes over finds it: of all batches that have
 * completed, those below `taken` are the backup's already, and those from there on stand in the
 * ring, one after the other.
 *
 * A batch may be taken before its WRITE has completed, or even before all of it has landed: where
 * the bytes of an earlier lap are the same. The WRITE of the next lap cannot be overtaken by it:
 * both are of one RC queue pair, whose WRITEs take effect in order (InfiniBand specification,
 * volume 1, 9.5). So a ring has one queue pair in its life.
 *
 * A header always fits: places are multiples of RING_UNIT, its length.
 */
#include "server/replica/ring.h"

#include <assert.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/mutant.h"

static uint64_t left_at(uint64_t place, uint64_t ring_bytes)
{
	return ring_bytes - place % ring_bytes;
}

static struct ring_batch header(const struct ring_sender *s, const struct ring_say *say,
				enum ring_kind kind)
{
	struct ring_batch b = {
		.magic = RING_MAGIC,
		.place = s->place,
		.position = say->position,
		.committed = say->committed,
		.term = say->term,
		.ring_term = s->ring_term,
		.end = s->end,
		.clock_ms = say->clock_ms,
		.kind = kind,
	};

	if (kind == RING_RECORDS) {
		b.body = say->body;
		b.bytes = say->bytes;
		b.records = say->records;
	}
	b.checksum = ring_batch_checksum(&b, s->key);
	return b;
}

unsigned ring_send(struct ring_sender *s, const struct ring_say *say, struct ring_batch out[2])
{
	const uint64_t bytes = ring_batch_bytes(say->bytes),
		       left = left_at(s->place, s->ring_bytes);
	const uint64_t skip = bytes > left ? left : 0;
	unsigned count = 0;

	assert(s->ring_bytes % RING_UNIT == 0 && skip + bytes <= s->ring_bytes);
	if (s->place + skip + bytes - s->taken > s->ring_bytes && !MUTANT(ring_no_flow))
		return 0;
	if (skip) {
		out[count++] = header(s, say, RING_SKIP);
		s->place += skip;
	}
	out[count++] = header(s, say, say->bytes ? RING_RECORDS : RING_TELL);
	s->place += bytes;
	return count;
}

/* The header at the next place, judged. NULL: it has not come. */
static const struct ring_batch *look(struct ring_receiver *r)
{
	const uint8_t *at = r->ring + r->place % r->ring_bytes;
	const struct ring_batch *b;
	const char *why;

	memcpy(&r->batch, at, sizeof(r->batch));
	if (ring_batch_decode(&r->batch, left_at(r->place, r->ring_bytes), r->key, r->place, &b,
			      &why))
		return NULL;
	return b->ring_term == r->ring_term ? b : NULL;
}

/* Whether its records have come: then they stand in r->copy. */
static bool copy_out(struct ring_receiver *r, const struct ring_batch *b)
{
	if (b->kind != RING_RECORDS)
		return true;
	if (MUTANT(ring_free_early))
		r->taken = r->place + ring_batch_bytes(b->bytes);
	memcpy(r->copy, r->ring + r->place % r->ring_bytes + sizeof(*b), b->bytes);
	return hash_bytes(r->copy, b->bytes) == b->body || MUTANT(ring_head_only);
}

bool ring_receive(struct ring_receiver *r)
{
	const struct ring_batch *b = look(r);

	if (b && b->kind == RING_SKIP) {
		r->place += left_at(r->place, r->ring_bytes);
		r->taken = r->place;
		b = look(r);
	}
	/* A skip never follows another one: the ring's beginning holds any batch. */
	if (!b || b->kind == RING_SKIP || !copy_out(r, b))
		return false;
	r->place += ring_batch_bytes(b->bytes);
	r->taken = r->place;
	return true;
}
