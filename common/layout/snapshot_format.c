/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/layout/snapshot_format.h"

#include <errno.h>
#include <stdbool.h>

#include "common/base/hash.h"
#include "common/layout/zeroes.h"

#define CHECKED_START 8u

uint64_t snapshot_chunk_checksum(const struct snapshot_chunk *c)
{
	return hash_bytes_seeded((const uint8_t *)c + CHECKED_START,
				 sizeof(*c) - CHECKED_START + c->bytes,
				 c->kind == SNAPSHOT_HEAD ? 0 : c->identity);
}

static int wrong(const char **why, const char *text)
{
	*why = text;
	return -EINVAL;
}

/* Whether so many items can be in a body of so many bytes. */
static bool items_fit(const struct snapshot_chunk *c)
{
	switch (c->kind) {
	case SNAPSHOT_HEAD:
		return c->items == 1 && c->bytes == sizeof(struct snapshot_head);
	case SNAPSHOT_FOOT:
		return c->items == 1 && c->bytes == sizeof(struct snapshot_foot);
	case SNAPSHOT_RECORDS:
		return c->items <= c->bytes / SNAPSHOT_RECORD_BYTES && c->bytes % 8 == 0;
	case SNAPSHOT_CLIENTS:
		return c->bytes == (uint64_t)c->items * sizeof(struct snapshot_client);
	}
	return false;
}

int snapshot_chunk_decode(const void *bytes, uint64_t len, uint64_t identity, uint32_t number,
			  const struct snapshot_chunk **out, const char **why)
{
	const struct snapshot_chunk *c = bytes;
	uint64_t whole;

	if (len < sizeof(*c))
		return wrong(why, "the file ends within the header of a chunk");
	if (c->magic != SNAPSHOT_MAGIC)
		return wrong(why, "a chunk does not begin with its magic");
	if (c->bytes > SNAPSHOT_CHUNK_MAX - sizeof(*c))
		return wrong(why, "a chunk is longer than any may be");
	if (c->bytes > len - sizeof(*c))
		return wrong(why, "the file ends within a chunk");
	if (c->checksum != snapshot_chunk_checksum(c))
		return wrong(why, "the checksum of a chunk is wrong");
	if (!c->identity || (identity && c->identity != identity))
		return wrong(why, "a chunk is of another snapshot");
	if (c->number != number || (c->kind == SNAPSHOT_HEAD) != !identity)
		return wrong(why, "a chunk is not the one that is due");
	if (!items_fit(c))
		return wrong(why, "a chunk is of no kind that there is, or its length is not that "
				  "of its items");
	whole = snapshot_chunk_bytes(c->bytes);
	if (whole > len)
		whole = len;
	if (!all_zeroes(c->zero, sizeof(c->zero)) ||
	    !all_zeroes((const uint8_t *)(c + 1) + c->bytes, whole - sizeof(*c) - c->bytes))
		return wrong(why, "what must be zero in a chunk is not");
	*out = c;
	return 0;
}

int snapshot_record_decode(const void *body, uint32_t len, uint32_t offset,
			   const struct snapshot_record **out, uint32_t *next, const char **why)
{
	const struct snapshot_record *r = (const void *)((const uint8_t *)body + offset);
	uint32_t length, used;

	if (offset % 8 || offset > len || len - offset < SNAPSHOT_RECORD_BYTES)
		return wrong(why, "a chunk ends within the fields of a record");
	if (r->key_len < KEY_MIN || r->key_len > KEY_MAX || r->value_len > VALUE_MAX)
		return wrong(why, "the key or value of a record is too long, or there is no key");
	length = snapshot_record_length(r->key_len, r->value_len);
	if (length > len - offset)
		return wrong(why, "a chunk ends within a record");
	used = r->key_len + r->value_len;
	if (r->zero || !all_zeroes(r->data + used, length - SNAPSHOT_RECORD_BYTES - used))
		return wrong(why, "what must be zero in a record is not");
	*out = r;
	*next = offset + length;
	return 0;
}

int snapshot_client_decode(const void *body, uint32_t len, uint32_t offset,
			   const struct snapshot_client **out, uint32_t *next, const char **why)
{
	const struct snapshot_client *c = (const void *)((const uint8_t *)body + offset);

	if (offset % 8 || offset > len || len - offset < sizeof(*c))
		return wrong(why, "a chunk ends within a client's reply");
	if (!(c->client[0] | c->client[1]))
		return wrong(why, "a client has no id");
	if (!all_zeroes(c->zero, sizeof(c->zero)))
		return wrong(why, "what must be zero in a client's reply is not");
	*out = c;
	*next = offset + (uint32_t)sizeof(*c);
	return 0;
}
