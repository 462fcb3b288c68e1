/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A ring whose WRITEs land in pieces and in any order, over many laps; but those of one queue pair
 * to the same bytes land in theirs. Values are unkind: each has,
 * wherever a header may be looked for, one that an earlier or a later lap could have there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "server/replica/ring.h"
#include "tests/lib/unit.h"

#define UNITS_MAX  24u
#define BODY_MAX   (5 * RING_UNIT)
#define BATCHES	   40000u
#define PIECE	   64u /* bytes that land together */
#define PIECES_MAX 256u
#define SENT_MAX   64u
#define STILL_MAX  100000u

UNIT_GROUP(unit_seed, NULL);

/* What was posted and has not landed. */
struct piece {
	uint64_t at;
	uint8_t bytes[PIECE];
};

struct wire {
	struct ring_sender sender;
	struct ring_receiver receiver;
	uint8_t ring[UNITS_MAX * RING_UNIT];
	uint8_t copy[BODY_MAX];
	struct piece piece[PIECES_MAX];
	unsigned pieces;
	/* What was sent and not received: the oldest first. */
	struct {
		uint64_t body;
		struct ring_say say;
	} sent[SENT_MAX];
	unsigned sent_count;
	uint64_t position, received;
};

static struct wire *open_wire(unsigned units)
{
	struct wire *w = calloc(1, sizeof(*w));
	const uint64_t bytes = units * RING_UNIT, key = unit_random(&unit_state) | 1;

	assert_non_null(w);
	w->sender =
		(struct ring_sender){ .ring_bytes = bytes, .key = key, .ring_term = 7, .end = 800 };
	w->receiver = (struct ring_receiver){
		.ring = w->ring, .ring_bytes = bytes, .key = key, .ring_term = 7, .copy = w->copy
	};
	for (unsigned i = 0; i < sizeof(w->ring); i++)
		w->ring[i] = (uint8_t)unit_random(&unit_state);
	return w;
}

static void post(struct wire *w, uint64_t at, const void *bytes, uint64_t len)
{
	for (uint64_t i = 0; i < len; i += PIECE) {
		struct piece *p = &w->piece[w->pieces++];

		assert_true(w->pieces <= PIECES_MAX);
		p->at = at + i;
		memcpy(p->bytes, (const uint8_t *)bytes + i, PIECE);
	}
}

/* What a client would have to send, did it know places and terms, but not the key. */
static void forge(const struct wire *w, uint64_t place, uint8_t *at)
{
	const uint64_t lap = w->sender.ring_bytes;
	struct ring_batch b = { .magic = RING_MAGIC,
				.place = place + lap * unit_below(3),
				.position = w->position,
				.term = 7,
				.ring_term = 7,
				.kind = RING_TELL };

	b.checksum = ring_batch_checksum(&b, 0);
	memcpy(at, &b, sizeof(b));
}

/* Send one batch, if there is room. */
static void send_one(struct wire *w)
{
	const unsigned units = (unsigned)unit_below(5);
	uint8_t body[BODY_MAX];
	struct ring_say say = { .position = w->position,
				.committed = w->position,
				.term = 6 + unit_below(2),
				.clock_ms = unit_below(1000),
				.bytes = units * RING_UNIT,
				.records = units };
	const struct ring_sender before = w->sender;
	struct ring_batch out[2];
	unsigned count = ring_send(&w->sender, &say, out);

	if (!count) {
		assert_memory_equal(&before, &w->sender, sizeof(before));
		return;
	}
	for (unsigned i = 0; i < units; i++) {
		if (unit_below(4))
			forge(w, out[count - 1].place + (i + 1) * RING_UNIT, body + i * RING_UNIT);
		else
			memset(body + i * RING_UNIT, (int)unit_below(256), RING_UNIT);
	}
	say.body = units ? hash_bytes(body, say.bytes) : 0;
	w->sender = before;
	assert_int_equal(ring_send(&w->sender, &say, out), count);
	for (unsigned i = 0; i < count; i++)
		post(w, out[i].place % w->sender.ring_bytes, &out[i], sizeof(out[i]));
	post(w, out[count - 1].place % w->sender.ring_bytes + sizeof(*out), body, say.bytes);
	assert_true(w->sent_count < SENT_MAX);
	w->sent[w->sent_count].say = say;
	w->sent[w->sent_count++].body = say.body;
	w->position += say.bytes;
}

/* Any piece, but the oldest one of its bytes. */
static void land(struct wire *w)
{
	const uint64_t at = w->piece[unit_below(w->pieces)].at;
	struct piece *p = w->piece;

	while (p->at != at)
		p++;
	memcpy(w->ring + at, p->bytes, PIECE);
	w->pieces--;
	memmove(p, p + 1, (size_t)(w->piece + w->pieces - p) * sizeof(*p));
}

/* Take what is there: it must be the next that was sent, and as it was sent. */
static void receive(struct wire *w)
{
	while (ring_receive(&w->receiver)) {
		const struct ring_batch *b = &w->receiver.batch;
		const struct ring_say *say = &w->sent[0].say;

		assert_true(w->sent_count > 0);
		assert_int_equal(b->position, say->position);
		assert_int_equal(b->committed, say->committed);
		assert_int_equal(b->term, say->term);
		assert_int_equal(b->clock_ms, say->clock_ms);
		assert_int_equal(b->end, 800);
		assert_int_equal(b->bytes, say->bytes);
		assert_int_equal(b->records, say->records);
		if (b->bytes)
			assert_int_equal(hash_bytes(w->copy, b->bytes), w->sent[0].body);
		memmove(w->sent, w->sent + 1, --w->sent_count * sizeof(*w->sent));
		w->received++;
	}
}

static void run(unsigned units)
{
	struct wire *w = open_wire(units);

	for (unsigned still = 0; w->received < BATCHES; still++) {
		const uint64_t before = w->received;

		assert_true(still < STILL_MAX); /* nothing comes any more */
		switch (unit_below(4)) {
		case 0:
			if (w->sent_count < SENT_MAX && w->pieces < PIECES_MAX / 2)
				send_one(w);
			break;
		case 1:
			w->sender.taken = w->receiver.taken; /* it is told */
			break;
		default:
			for (uint64_t i = unit_below(8); i && w->pieces; i--)
				land(w);
		}
		receive(w);
		if (w->received != before)
			still = 0;
	}
	free(w);
}

UNIT_TEST(small_ring)
{
	run(10);
}

UNIT_TEST(larger_ring)
{
	run(UNITS_MAX);
}

/* All that has completed is found by one who takes over, and nothing else. */
UNIT_TEST(taken_over)
{
	for (unsigned round = 0; round < 2000; round++) {
		struct wire *w = open_wire(UNITS_MAX);

		for (unsigned i = 0; i < 100; i++) {
			if (w->sent_count < SENT_MAX && w->pieces < PIECES_MAX / 2)
				send_one(w);
			w->sender.taken = w->receiver.taken;
			while (w->pieces)
				land(w);
			if (unit_below(8) == 0)
				receive(w);
		}
		receive(w);
		assert_int_equal(w->sent_count, 0);
		free(w);
	}
}

/* Whatever bit of it is another one, a batch is not taken. */
UNIT_TEST(every_bit)
{
	struct wire *w = open_wire(8);
	uint8_t body[2 * RING_UNIT] = "records";
	const struct ring_say say = { .term = 7,
				      .body = hash_bytes(body, sizeof(body)),
				      .bytes = sizeof(body),
				      .records = 2 };
	const struct ring_receiver before = w->receiver;
	struct ring_batch out[2];

	assert_int_equal(ring_send(&w->sender, &say, out), 1);
	memcpy(w->ring, out, sizeof(*out));
	memcpy(w->ring + sizeof(*out), body, sizeof(body));
	for (unsigned bit = 0; bit < 8 * (sizeof(*out) + sizeof(body)); bit++) {
		w->ring[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(ring_receive(&w->receiver));
		assert_int_equal(w->receiver.taken, 0);
		w->receiver = before;
		w->ring[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_true(ring_receive(&w->receiver));
	free(w);
}

/* A ring of another term, or with another key. */
UNIT_TEST(not_ours)
{
	for (unsigned i = 0; i < 3; i++) {
		struct wire *w = open_wire(8);
		const struct ring_say say = { .term = 7 };
		struct ring_batch out[2];

		assert_int_equal(ring_send(&w->sender, &say, out), 1);
		memcpy(w->ring, out, sizeof(*out));
		w->receiver.key ^= i == 1;
		w->receiver.ring_term += i == 2;
		assert_int_equal(ring_receive(&w->receiver), i == 0);
		free(w);
	}
}
