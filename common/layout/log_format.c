/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/layout/log_format.h"

#include <errno.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/layout/zeroes.h"

#define CHECKED_START 8u /* what stands behind the checksum, in each of the three */

static uint64_t header_checksum(const void *header, uint32_t bytes, uint64_t seed)
{
	return hash_bytes_seeded((const uint8_t *)header + CHECKED_START, bytes - CHECKED_START,
				 seed);
}

uint64_t log_segment_checksum(const struct log_segment_header *h)
{
	return header_checksum(h, sizeof(*h), 0);
}

uint64_t log_batch_checksum(const struct log_batch_header *h, uint64_t identity)
{
	return header_checksum(h, sizeof(*h), identity);
}

uint64_t log_record_checksum(const struct log_record *r, uint64_t identity)
{
	return header_checksum(r, LOG_RECORD_BYTES, r->body + identity);
}

static int wrong(const char **why, const char *text)
{
	*why = text;
	return -EINVAL;
}

int log_segment_decode(const void *bytes, uint64_t len, const struct log_segment_header **out,
		       const char **why)
{
	const struct log_segment_header *h = bytes;
	const uint64_t block = len < LOG_BLOCK ? len : LOG_BLOCK;

	if (len < sizeof(*h))
		return wrong(why, "the file ends within the header of its segment");
	if (h->magic != LOG_SEGMENT_MAGIC)
		return wrong(why, "a segment's header does not begin with its magic");
	if (h->checksum != log_segment_checksum(h))
		return wrong(why, "the checksum of a segment's header is wrong");
	if (!h->identity || !h->bytes || h->bytes % LOG_BLOCK || h->durable > h->first ||
	    h->first % 8)
		return wrong(why, "fields of a segment's header are out of range");
	if (!all_zeroes(h->zero, sizeof(h->zero)) || !all_zeroes(h + 1, block - sizeof(*h)))
		return wrong(why, "what must be zero in a segment's header is not");
	*out = h;
	return 0;
}

int log_batch_decode(const void *bytes, uint64_t len, uint64_t identity,
		     const struct log_batch_header **out, const char **why)
{
	const struct log_batch_header *h = bytes;

	if (len < sizeof(*h))
		return wrong(why, "the file ends within the header of a batch");
	if (h->magic != LOG_BATCH_MAGIC)
		return wrong(why, "a batch's header does not begin with its magic");
	if (h->checksum != log_batch_checksum(h, identity))
		return wrong(why, "the checksum of a batch's header is wrong");
	if (!h->records || h->bytes > LOG_BATCH_RECORDS_MAX || h->bytes % 8 ||
	    h->bytes / LOG_RECORD_BYTES < h->records || h->durable > h->position ||
	    h->position % 8 || h->position + h->bytes < h->position)
		return wrong(why, "fields of a batch's header are out of range");
	if (!all_zeroes(h->zero, sizeof(h->zero)))
		return wrong(why, "what must be zero in a batch's header is not");
	*out = h;
	return 0;
}

/* Which key and value a record of each kind may have. */
static bool lengths_fit(const struct log_record *r)
{
	switch (r->kind) {
	case LOG_PUT:
		return r->key_len >= KEY_MIN && r->key_len <= KEY_MAX && r->value_len <= VALUE_MAX;
	case LOG_DEL:
		return r->key_len >= KEY_MIN && r->key_len <= KEY_MAX && !r->value_len;
	case LOG_CLIENT:
	case LOG_FORGET:
		return !r->key_len && !r->value_len;
	}
	return false;
}

int log_record_shape(const void *bytes, uint64_t len, uint64_t position,
		     const struct log_record **out, const char **why)
{
	const struct log_record *r = bytes;
	uint32_t used;

	if (len < LOG_RECORD_BYTES)
		return wrong(why, "the batch ends within the fields of a record");
	if (!lengths_fit(r))
		return wrong(why, "a record is of no kind that there is, or its key or value is "
				  "too long for its kind");
	if (r->length != log_record_length(r->key_len, r->value_len))
		return wrong(why, "a record's length is not that of its key and value");
	if (r->length > len)
		return wrong(why, "a record is longer than what is left of its batch");
	if (r->position != position)
		return wrong(why, "a record names another position than its own");
	used = r->key_len + r->value_len;
	if (r->zero || r->zero_too ||
	    !all_zeroes(r->data + used, r->length - LOG_RECORD_BYTES - used))
		return wrong(why, "what must be zero in a record is not");
	if (r->body != hash_bytes(r->data, used))
		return wrong(why, "the checksum of a record's key and value is wrong");
	*out = r;
	return 0;
}

int log_record_decode(const void *bytes, uint64_t len, uint64_t identity, uint64_t position,
		      const struct log_record **out, const char **why)
{
	if (len < LOG_RECORD_BYTES)
		return wrong(why, "the batch ends within the fields of a record");
	if (((const struct log_record *)bytes)->checksum != log_record_checksum(bytes, identity))
		return wrong(why, "the checksum of a record is wrong");
	return log_record_shape(bytes, len, position, out, why);
}
