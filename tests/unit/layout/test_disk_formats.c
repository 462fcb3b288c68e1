/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What a disk can give wrong to the decoders of log, meta and snapshots, and a peer to that of a
 * ring: turned bits, lost ends,
 * bytes of chance, and bytes of chance whose checksum is right. Every input lies in memory of
 * exactly its length, so that the address sanitizer sees what reads outside.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/layout/log_format.h"
#include "common/layout/meta_format.h"
#include "common/layout/ring_format.h"
#include "common/layout/snapshot_format.h"
#include "tests/lib/unit.h"

#define IDENTITY 0x1234567890abcdefull
#define POSITION 4096u
#define NUMBER	 3u
#define PLACE	 ((uint64_t)RING_UNIT * 77)
#define ROUNDS	 20000u

UNIT_GROUP(unit_seed, NULL);

/* A format: one that is right, how it is decoded, and how its checksums are made right again. */
struct format {
	const char *name;
	size_t (*make)(uint8_t *out);
	int (*decode)(const void *bytes, uint64_t len, const void **out, const char **why);
	void (*seal)(uint8_t *bytes, size_t len);
	void (*check)(const void *out, uint64_t len); /* of what was taken */
};

static size_t segment_make(uint8_t *out)
{
	struct log_segment_header h = { .magic = LOG_SEGMENT_MAGIC,
					.identity = IDENTITY,
					.first = POSITION,
					.durable = 8,
					.life = 2,
					.store = { 1, 2 },
					.bytes = LOG_SEGMENT_MIN,
					.clock_ms = 3 };

	h.checksum = log_segment_checksum(&h);
	memset(out, 0, LOG_BLOCK);
	memcpy(out, &h, sizeof(h));
	return LOG_BLOCK;
}

static int segment_decode(const void *bytes, uint64_t len, const void **out, const char **why)
{
	return log_segment_decode(bytes, len, (const struct log_segment_header **)out, why);
}

static void segment_seal(uint8_t *bytes, size_t len)
{
	struct log_segment_header *h = (void *)bytes;

	if (len >= sizeof(*h))
		h->checksum = log_segment_checksum(h);
}

static void segment_check(const void *out, uint64_t len)
{
	const struct log_segment_header *h = out;

	assert_true(len >= sizeof(*h));
	assert_true(h->identity && h->durable <= h->first);
}

static size_t batch_make(uint8_t *out)
{
	struct log_batch_header h = { .magic = LOG_BATCH_MAGIC,
				      .position = POSITION,
				      .durable = POSITION,
				      .clock_ms = 3,
				      .bytes = 2 * log_record_length(5, 6),
				      .records = 2 };

	h.checksum = log_batch_checksum(&h, IDENTITY);
	memcpy(out, &h, sizeof(h));
	return sizeof(h);
}

static int batch_decode(const void *bytes, uint64_t len, const void **out, const char **why)
{
	return log_batch_decode(bytes, len, IDENTITY, (const struct log_batch_header **)out, why);
}

static void batch_seal(uint8_t *bytes, size_t len)
{
	struct log_batch_header *h = (void *)bytes;

	if (len >= sizeof(*h))
		h->checksum = log_batch_checksum(h, IDENTITY);
}

static void batch_check(const void *out, uint64_t len)
{
	const struct log_batch_header *h = out;

	assert_true(len >= sizeof(*h));
	assert_true(h->records && h->bytes <= LOG_RECORD_MAX && h->durable <= h->position);
}

static size_t record_make(uint8_t *out)
{
	struct log_record *r = (void *)out;
	const uint32_t key = 11, value = 202;

	memset(out, 0, log_record_length(key, value));
	*r = (struct log_record){ .length = log_record_length(key, value),
				  .key_len = (uint16_t)key,
				  .kind = LOG_PUT,
				  .position = POSITION,
				  .version = 9,
				  .client = { 1, 2 },
				  .value_len = value };
	for (uint32_t i = 0; i < key + value; i++)
		r->data[i] = (uint8_t)(i * 7);
	r->body = hash_bytes(r->data, key + value);
	r->checksum = log_record_checksum(r, IDENTITY);
	return r->length;
}

static int record_decode(const void *bytes, uint64_t len, const void **out, const char **why)
{
	return log_record_decode(bytes, len, IDENTITY, POSITION, (const struct log_record **)out,
				 why);
}

static void record_seal(uint8_t *bytes, size_t len)
{
	struct log_record *r = (void *)bytes;

	if (len < sizeof(*r))
		return;
	if (r->key_len + (uint64_t)r->value_len <= len - sizeof(*r) && unit_below(4))
		r->body = hash_bytes(r->data, r->key_len + r->value_len);
	r->checksum = log_record_checksum(r, IDENTITY);
}

static void record_check(const void *out, uint64_t len)
{
	const struct log_record *r = out;

	assert_true(r->length <= len && r->length % 8 == 0);
	assert_true(sizeof(*r) + r->key_len + r->value_len <= r->length);
	assert_true(r->key_len <= KEY_MAX && r->value_len <= VALUE_MAX);
	assert_in_range(r->kind, LOG_PUT, LOG_FORGET);
	assert_int_equal(r->position, POSITION);
	assert_int_equal(r->body, hash_bytes(r->data, r->key_len + r->value_len));
}

static size_t meta_make(uint8_t *out)
{
	struct data_meta m = {
		.magic = META_MAGIC, .format = META_FORMAT, .store = { 1, 2 }, .life = 5
	};

	m.checksum = meta_checksum(&m);
	memcpy(out, &m, sizeof(m));
	return sizeof(m);
}

static int meta_decode_any(const void *bytes, uint64_t len, const void **out, const char **why)
{
	return meta_decode(bytes, len, (const struct data_meta **)out, why);
}

static void meta_seal(uint8_t *bytes, size_t len)
{
	struct data_meta *m = (void *)bytes;

	if (len >= sizeof(*m))
		m->checksum = meta_checksum(m);
}

static void meta_check(const void *out, uint64_t len)
{
	const struct data_meta *m = out;

	assert_int_equal(len, sizeof(*m));
	assert_true(m->life <= LIFE_MAX && m->format == META_FORMAT);
}

static size_t chunk_make(uint8_t *out)
{
	struct snapshot_chunk *c = (void *)out;
	struct snapshot_record *r = (void *)(c + 1);
	uint32_t bytes = 0;

	memset(out, 0, 2 * SNAPSHOT_BLOCK);
	for (unsigned i = 0; i < 3; i++) {
		*r = (struct snapshot_record){ .version = i + 1,
					       .value_len = 50 * i,
					       .key_len = 3 };
		memset(r->data, 'x', 3 + 50 * i);
		bytes += snapshot_record_length(3, 50 * i);
		r = (void *)((uint8_t *)(c + 1) + bytes);
	}
	*c = (struct snapshot_chunk){ .magic = SNAPSHOT_MAGIC,
				      .identity = IDENTITY,
				      .number = NUMBER,
				      .kind = SNAPSHOT_RECORDS,
				      .bytes = bytes,
				      .items = 3 };
	c->checksum = snapshot_chunk_checksum(c);
	return snapshot_chunk_bytes(bytes);
}

static int chunk_decode(const void *bytes, uint64_t len, const void **out, const char **why)
{
	return snapshot_chunk_decode(bytes, len, IDENTITY, NUMBER,
				     (const struct snapshot_chunk **)out, why);
}

static void chunk_seal(uint8_t *bytes, size_t len)
{
	struct snapshot_chunk *c = (void *)bytes;

	if (len >= sizeof(*c) && c->bytes <= len - sizeof(*c))
		c->checksum = snapshot_chunk_checksum(c);
}

/* What was taken may be walked to its end, whatever stands in it. */
static void chunk_check(const void *out, uint64_t len)
{
	const struct snapshot_chunk *c = out;
	const struct snapshot_record *r;
	const struct snapshot_client *k;
	const char *why;

	assert_true(c->bytes <= len - sizeof(*c));
	for (uint32_t at = 0, next; at < c->bytes; at = next) {
		if (snapshot_record_decode(c + 1, c->bytes, at, &r, &next, &why))
			break;
		assert_true(next > at && next <= c->bytes);
		assert_true(r->data + r->key_len + r->value_len <= (uint8_t *)(c + 1) + next);
	}
	for (uint32_t at = 0, next; at < c->bytes; at = next) {
		if (snapshot_client_decode(c + 1, c->bytes, at, &k, &next, &why))
			break;
		assert_true(next > at && next <= c->bytes);
	}
	for (unsigned i = 0; i < 8; i++) {
		uint32_t next;

		(void)!snapshot_record_decode(c + 1, c->bytes, (uint32_t)unit_random(&unit_state),
					      &r, &next, &why);
		(void)!snapshot_client_decode(c + 1, c->bytes, (uint32_t)unit_random(&unit_state),
					      &k, &next, &why);
	}
}

static size_t ring_make(uint8_t *out)
{
	struct ring_batch b = { .magic = RING_MAGIC,
				.place = PLACE,
				.position = POSITION,
				.committed = POSITION,
				.term = 3,
				.ring_term = 4,
				.kind = RING_TELL };

	b.checksum = ring_batch_checksum(&b, IDENTITY);
	memcpy(out, &b, sizeof(b));
	return sizeof(b);
}

static int ring_decode(const void *bytes, uint64_t len, const void **out, const char **why)
{
	return ring_batch_decode(bytes, len, IDENTITY, PLACE, (const struct ring_batch **)out, why);
}

static void ring_seal(uint8_t *bytes, size_t len)
{
	struct ring_batch *b = (void *)bytes;

	if (len < sizeof(*b))
		return;
	if (unit_below(2)) /* else hardly anything passes */
		memset(b->zero, 0, sizeof(b->zero));
	b->checksum = ring_batch_checksum(b, IDENTITY);
}

static void ring_check(const void *out, uint64_t len)
{
	const struct ring_batch *b = out;

	assert_true(ring_batch_bytes(b->bytes) <= len);
	assert_true(b->place == PLACE && b->term <= b->ring_term);
	assert_true(b->kind == RING_RECORDS ? b->bytes && b->records : !b->bytes && !b->records);
}

static const struct format formats[] = {
	{ "segment", segment_make, segment_decode, segment_seal, segment_check },
	{ "batch", batch_make, batch_decode, batch_seal, batch_check },
	{ "record", record_make, record_decode, record_seal, record_check },
	{ "meta", meta_make, meta_decode_any, meta_seal, meta_check },
	{ "chunk", chunk_make, chunk_decode, chunk_seal, chunk_check },
	{ "ring", ring_make, ring_decode, ring_seal, ring_check },
};

#define FORMATS	  (sizeof(formats) / sizeof(*formats))
#define BYTES_MAX (2 * SNAPSHOT_BLOCK)

/* From memory of exactly @len bytes. */
static int decode(const struct format *f, const uint8_t *bytes, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);
	const char *why = NULL;
	const void *out = NULL;
	int rc;

	assert_non_null(copy);
	if (len)
		memcpy(copy, bytes, len);
	rc = f->decode(copy, len, &out, &why);
	if (rc == 0) {
		assert_ptr_equal(out, copy);
		f->check(out, len);
	} else {
		assert_true(why && *why);
	}
	free(copy);
	return rc;
}

static _Alignas(8) uint8_t good[BYTES_MAX], bad[BYTES_MAX];

UNIT_TEST(no_turned_bit_is_taken)
{
	for (unsigned i = 0; i < FORMATS; i++) {
		size_t len = formats[i].make(good);

		assert_ok(decode(&formats[i], good, len));
		for (size_t bit = 0; bit < 8 * len; bit++) {
			good[bit / 8] ^= (uint8_t)(1u << bit % 8);
			assert_int_not_equal(decode(&formats[i], good, len), 0);
			good[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
}

/* What may be cut off is padding, which a reader need not have. */
static size_t needed(const struct format *f)
{
	if (f->make == segment_make)
		return sizeof(struct log_segment_header);
	if (f->make == chunk_make)
		return sizeof(struct snapshot_chunk) +
		       ((struct snapshot_chunk *)(void *)good)->bytes;
	return f->make(good);
}

UNIT_TEST(no_lost_end_is_taken)
{
	for (unsigned i = 0; i < FORMATS; i++) {
		size_t len = formats[i].make(good), need = needed(&formats[i]);

		for (size_t cut = 0; cut <= len; cut++)
			assert_int_equal(decode(&formats[i], good, cut) == 0, cut >= need);
	}
}

static void scramble(uint8_t *bytes, size_t len)
{
	for (uint64_t n = 1 + unit_below(6); n; n--) {
		size_t at = unit_below(unit_below(3) ? len < 128 ? len : 128 : len);

		bytes[at] = unit_below(2)   ? (uint8_t)unit_random(&unit_state)
			    : unit_below(2) ? 0xff
					    : bytes[at] ^ (uint8_t)(1u << unit_below(8));
	}
}

/* Fields of chance under a right checksum: taken or not, never outside. */
UNIT_TEST(sealed_chance)
{
	for (unsigned i = 0; i < FORMATS; i++) {
		unsigned taken = 0;

		for (unsigned round = 0; round < ROUNDS; round++) {
			size_t len = formats[i].make(bad);
			size_t cut = unit_below(4) ? len : unit_below(len + 1);

			scramble(bad, len);
			if (unit_below(8))
				formats[i].seal(bad, cut);
			taken += decode(&formats[i], bad, cut) == 0;
		}
		print_message("%s: %u of %u taken\n", formats[i].name, taken, ROUNDS);
		assert_true(taken > 0 && taken < ROUNDS);
	}
}

UNIT_TEST(chance)
{
	for (unsigned i = 0; i < FORMATS; i++) {
		for (unsigned round = 0; round < ROUNDS / 4; round++) {
			size_t len = unit_below(512);

			for (size_t b = 0; b < len; b++)
				bad[b] = (uint8_t)unit_random(&unit_state);
			assert_int_not_equal(decode(&formats[i], bad, len), 0);
		}
	}
}

/* A record of another segment, or from another place, is none. */
UNIT_TEST(of_another_segment)
{
	const struct log_record *r;
	const struct log_batch_header *b;
	const char *why;
	size_t len = record_make(good);

	assert_int_not_equal(log_record_decode(good, len, IDENTITY + 1, POSITION, &r, &why), 0);
	assert_int_not_equal(log_record_decode(good, len, IDENTITY, POSITION + 8, &r, &why), 0);
	len = batch_make(good);
	assert_int_not_equal(log_batch_decode(good, len, IDENTITY + 1, &b, &why), 0);
}
