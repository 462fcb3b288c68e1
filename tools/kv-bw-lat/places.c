/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Where the records of a size are, for READs past the library. */
#include <errno.h>
#include <inttypes.h>

#include "common/base/hash.h"
#include "common/layout/slot.h"
#include "tools/kv-bw-lat/perf.h"

/* Where the block of a key lies, by a hint of the session's. */
static bool find_place(struct perf *p, uint64_t i, struct raw_place *out)
{
	const struct reader *r = &p->loader->reader;
	uint64_t hash = hash_key(r->world->hash_seed, perf_key(p, i), p->keys.key_len);
	const struct extent *x;
	struct hint hint;

	if (!hints_find(r->hints, hash, hints_age(r->hints), &hint))
		return false;
	x = world_find_extent(r->world, slot_extent(hint.slot));
	if (!x)
		return false;
	*out = (struct raw_place){ x->addr + slot_offset(hint.slot), x->rkey };
	return true;
}

int perf_keys_find(struct perf *p)
{
	struct perf_keys *k = &p->keys;
	uint64_t missing = 0;

	for (uint64_t i = 0; i < k->count && !stop_wanted(); i++) {
		struct raw_place at = { 0 };
		int rc = 0;

		if (!find_place(p, i, &at))
			rc = gkv_exists(p->loader, perf_key(p, i), k->key_len, NULL);
		if (rc)
			return error_set(&p->error, rc, "reading the records once: %s",
					 gkv_error(p->loader));
		if (k->place && !at.addr && !find_place(p, i, &at)) {
			at = i ? k->place[i - 1] : at;
			missing++;
		}
		if (k->place)
			k->place[i] = at;
	}
	if (!k->place || stop_wanted() || (missing <= k->count / 2 && k->place[0].addr))
		return 0;
	return error_set(&p->error, -ENOENT,
			 "%" PRIu64 " of %" PRIu64 " records have no hint (give more --hints, or "
			 "fewer --keys: the server may run short of memory)",
			 missing, k->count);
}

/* Where the look-up of a key begins that has no hint. The handle's own directory is the newest. */
static int find_bucket(const struct perf *p, uint64_t i, struct reader *r)
{
	uint64_t hash = hash_key(r->world->hash_seed, perf_key(p, i), p->keys.key_len);
	struct raw_place *at = &p->keys.bucket[i];
	int rc = segment_place(r, directory_entry_of(r->dir, hash), &at->addr, &at->rkey);

	at->addr += hash_bucket(hash) * BUCKET_BYTES;
	return rc;
}

int perf_buckets_find(struct perf *p)
{
	struct gkv *h = p->handle[0].kv;
	int rc;

	if (!p->keys.bucket)
		return 0;
	rc = gkv_ping(h, NULL);
	if (rc == 0)
		rc = handle_begin(h);
	if (rc == 0) {
		rc = reader_prepare(&h->reader);
		for (uint64_t i = 0; i < p->keys.count && rc == 0; i++)
			rc = find_bucket(p, i, &h->reader);
		rc = handle_end(h, rc);
	}
	return rc ? error_set(&p->error, rc, "finding buckets: %s", gkv_strerror(rc)) : 0;
}
