/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Extents, READ from the extent table on demand. An entry is published before anything names it
 * and stays as it is for as long as anything names it. The server may give an extent up, but not
 * before no section and no hint can reach an address in it, and it never uses the number
 * again (server/memory/release.c). So one sound copy is good for good, over reconnects too; an
 * unsound one was torn while it was written.
 */
#include "client/src/know/reader.h"
#include "common/base/time.h"

#include <errno.h>

#define TABLE_ATTEMPTS 8u

static bool extent_possible(const struct extent_entry *e)
{
	return (e->kind == EXTENT_INDEX || e->kind == EXTENT_DIR || e->kind == EXTENT_DATA) &&
	       e->addr && e->length && e->length <= EXTENT_BYTES_MAX &&
	       e->addr + e->length > e->addr;
}

int reader_extent(struct reader *r, unsigned number, struct extent *out)
{
	struct world *w = r->world;
	const struct extent *known = world_find_extent(w, number);
	const struct extent_entry *e = r->scratch;

	if (known) {
		*out = *known;
		return 0;
	}
	if (number >= w->table_entries || number >= EXTENTS_MAX)
		return -ENOENT;
	for (unsigned i = 0; i < TABLE_ATTEMPTS; i++) {
		struct read_op op = reader_scratch_op(r, 0, w->table_addr + number * sizeof(*e),
						      w->table_rkey, sizeof(*e));
		int rc = reader_read(r, &op, 1);

		if (rc)
			return rc;
		if (extent_entry_sound(e)) {
			if (!extent_possible(e))
				return -ENOENT;
			*out = (struct extent){ e->addr, e->length, e->rkey, e->kind };
			world_set_extent(w, number, out);
			return 0;
		}
		time_yield(); /* in the end the server is asked */
	}
	return -ENOENT;
}

int segment_place(struct reader *r, uint64_t entry, uint64_t *addr, uint32_t *rkey)
{
	uint64_t start = (uint64_t)directory_entry_segment(entry) * SEGMENT_BYTES;
	struct extent x;
	int rc;

	if (!entry)
		return -ENOENT;
	rc = reader_extent(r, directory_entry_extent(entry), &x);
	if (rc)
		return rc;
	if (x.kind != EXTENT_INDEX || start + SEGMENT_BYTES > x.length)
		return -ENOENT;
	*addr = x.addr + start;
	*rkey = x.rkey;
	return 0;
}
