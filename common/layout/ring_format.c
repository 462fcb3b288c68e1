/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/layout/ring_format.h"

#include <errno.h>
#include <stdbool.h>

#include "common/base/hash.h"
#include "common/base/mutant.h"
#include "common/layout/zeroes.h"

#define CHECKED_START 16u

static_assert(offsetof(struct ring_batch, place) == CHECKED_START, "all but magic and itself");

uint64_t ring_batch_checksum(const struct ring_batch *b, uint64_t key)
{
	return hash_bytes_seeded((const uint8_t *)b + CHECKED_START, sizeof(*b) - CHECKED_START,
				 MUTANT(ring_no_key) ? 0 : key);
}

static int wrong(const char **why, const char *text)
{
	*why = text;
	return -EINVAL;
}

/* Whether kind, bytes and records go together, and fit. */
static bool is_filled_well(const struct ring_batch *b, uint64_t len)
{
	switch (b->kind) {
	case RING_RECORDS:
		return b->records && b->bytes % 8 == 0 && b->bytes <= LOG_BATCH_RECORDS_MAX &&
		       b->records <= b->bytes / LOG_RECORD_BYTES &&
		       ring_batch_bytes(b->bytes) <= len;
	case RING_TELL:
	case RING_SKIP:
		return !b->records && !b->bytes && !b->body;
	}
	return false;
}

int ring_batch_decode(const void *bytes, uint64_t len, uint64_t key, uint64_t place,
		      const struct ring_batch **out, const char **why)
{
	const struct ring_batch *b = bytes;

	if (len < sizeof(*b))
		return wrong(why, "the ring ends within the header of a batch");
	if (b->magic != RING_MAGIC)
		return wrong(why, "there is no batch");
	if (b->checksum != ring_batch_checksum(b, key))
		return wrong(why, "the header of a batch is not what was sent");
	if (b->place != place && !MUTANT(ring_no_place))
		return wrong(why, "the batch is of another lap");
	if (!is_filled_well(b, len) || !all_zeroes(b->zero, sizeof(b->zero)))
		return wrong(why, "the batch is none that this version writes");
	if (b->term > b->ring_term || b->committed > b->position + b->bytes)
		return wrong(why, "the batch says what cannot be");
	*out = b;
	return 0;
}
