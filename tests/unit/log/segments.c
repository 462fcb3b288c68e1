/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/log/segments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"

#define KEY_LEN 8u

static uint32_t value_len(uint64_t number)
{
	return (uint32_t)(number * 37 % 900);
}

uint32_t seg_record_bytes(uint64_t number)
{
	return log_record_length(KEY_LEN, value_len(number));
}

void seg_record(struct log_record *r, uint64_t number, uint64_t position, uint64_t identity)
{
	uint32_t length = seg_record_bytes(number);

	memset(r, 0, length);
	r->length = length;
	r->key_len = KEY_LEN;
	r->kind = LOG_PUT;
	r->position = position;
	r->version = number + 1;
	r->sequence = number;
	r->value_len = value_len(number);
	memcpy(r->data, &number, KEY_LEN);
	for (uint32_t i = 0; i < r->value_len; i++)
		r->data[KEY_LEN + i] = (uint8_t)(number + i);
	r->body = hash_bytes(r->data, r->key_len + r->value_len);
	r->checksum = log_record_checksum(r, identity);
}

struct log_entry seg_entry(uint64_t number)
{
	static _Alignas(8) uint8_t bytes[2048];
	struct log_record *r = (void *)bytes;

	seg_record(r, number, 0, 1);
	return (struct log_entry){ .kind = LOG_PUT,
				   .version = r->version,
				   .sequence = r->sequence,
				   .key = r->data,
				   .value = r->data + r->key_len,
				   .key_len = r->key_len,
				   .value_len = r->value_len,
				   .body = r->body };
}

uint64_t seg_number(const struct log_record *r)
{
	uint64_t number;

	assert_int_equal(r->kind, LOG_PUT);
	assert_int_equal(r->key_len, KEY_LEN);
	memcpy(&number, r->data, KEY_LEN);
	assert_int_equal(r->sequence, number);
	assert_int_equal(r->value_len, value_len(number));
	for (uint32_t i = 0; i < r->value_len; i++)
		assert_int_equal(r->data[KEY_LEN + i], (uint8_t)(number + i));
	return number;
}

struct seg seg_begin(struct sim_disk *d, uint64_t first, uint64_t life, uint64_t durable)
{
	struct log_segment_header h = {
		.magic = LOG_SEGMENT_MAGIC,
		.identity = hash_bytes_seeded(&first, 8, life),
		.first = first,
		.durable = durable,
		.life = life,
		.store = SEG_STORE,
		.bytes = 1 << 20,
		.clock_ms = 1000 * life,
	};
	struct seg s = { .d = d,
			 .identity = h.identity,
			 .position = first,
			 .offset = LOG_BLOCK,
			 .clock_ms = h.clock_ms };
	static const uint8_t zero[LOG_BLOCK];

	h.checksum = log_segment_checksum(&h);
	sim_disk_io(d)->make_dir(d, "log");
	snprintf(s.name, sizeof(s.name), "log/%016" PRIx64 ".log", first);
	sim_disk_make(d, s.name);
	sim_disk_set(d, s.name, zero, sizeof(zero), 0);
	sim_disk_set(d, s.name, &h, sizeof(h), 0);
	return s;
}

void seg_batch(struct seg *s, unsigned records, uint64_t *number, uint64_t durable)
{
	struct log_batch_header h = {
		.magic = LOG_BATCH_MAGIC,
		.position = s->position,
		.durable = durable,
		.clock_ms = ++s->clock_ms,
		.records = records,
	};
	uint64_t room = log_batch_bytes((uint64_t)records * 1024);
	uint8_t *batch = calloc(1, room);

	assert_non_null(batch);
	for (unsigned i = 0; i < records; i++) {
		struct log_record *r = (void *)(batch + sizeof(h) + h.bytes);

		seg_record(r, *number, s->position, s->identity);
		s->position += r->length;
		h.bytes += r->length;
		++*number;
	}
	h.checksum = log_batch_checksum(&h, s->identity);
	memcpy(batch, &h, sizeof(h));
	sim_disk_set(s->d, s->name, batch, log_batch_bytes(h.bytes), s->offset);
	s->batch_at = s->offset;
	s->offset += log_batch_bytes(h.bytes);
	free(batch);
}

void seg_flip(struct sim_disk *d, const char *name, uint64_t offset)
{
	uint8_t byte;

	sim_disk_get(d, name, &byte, 1, offset);
	byte ^= 0x10;
	sim_disk_set(d, name, &byte, 1, offset);
}

static int take(void *ctx, const struct log_record *r)
{
	struct found *f = ctx;

	if (f->count && r->position != f->behind)
		return -ERANGE;
	assert_true(f->count < sizeof(f->number) / sizeof(*f->number));
	f->position[f->count] = r->position;
	f->number[f->count++] = seg_number(r);
	f->behind = r->position + r->length;
	return 0;
}

int found_read(struct found *out, struct sim_disk *d, uint64_t from, struct log_survey *survey,
	       struct error *err)
{
	const uint64_t store[2] = SEG_STORE;
	const struct log_reader reader = { .each = take, .ctx = out };
	struct log_survey own;
	struct log_survey *s = survey ? survey : &own;
	int rc = log_survey_make(s, sim_disk_io(d), store, err);

	out->count = 0;
	out->behind = from;
	if (rc)
		return rc;
	rc = log_read(s, sim_disk_io(d), from, s->end, &reader, err);
	if (rc || !survey)
		log_survey_free(s);
	return rc;
}
