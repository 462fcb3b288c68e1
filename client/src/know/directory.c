/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Root and directory.
 *
 * A cached directory may be stale in two ways, and both show, because a bucket's header names
 * its segment: an entry has changed (the segment was split), or the whole directory was replaced
 * by one of twice or half the size. directory_refresh() learns which with one chain of READs: the
 * entry, the header of the directory that it stands in, and root's descriptor. An entry counts only
 * where root still names the directory which is cached: its memory is in use then, hence was when
 * the entry was fetched. The header alone would not do: the READs of a chain may execute in any
 * order, so it may be fetched before the memory is reused and the entry after that, and no grace
 * period protects a directory that was learnt of in an earlier section.
 *
 * Nothing here is trusted: descriptor and header carry checksums, places are checked against
 * their extent, and a look-up checks what it finds against the entry once more.
 */
#include "client/src/know/reader.h"

#include <errno.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/time.h"

#define ROOT_ATTEMPTS	   8u
#define DIRECTORY_ATTEMPTS 64u
#define DIRECTORY_QUICK	   8u /* from here on with pauses of a millisecond in between */

static bool header_sound(const struct reader *r, const struct directory *d, uint32_t depth,
			 uint32_t incarnation)
{
	return d->magic == DIRECTORY_MAGIC && d->depth == depth && d->incarnation == incarnation &&
	       d->server_incarnation == r->world->incarnation &&
	       d->checksum == hash_bytes(d, offsetof(struct directory, checksum));
}

/* READ the entries in pieces, through the arena. */
static int fetch_entries(struct reader *r, struct dir_cache *d)
{
	uint64_t total = sizeof(d->entry[0]) << d->depth;
	uint64_t piece = r->fetch.arena_len & ~(uint64_t)7;

	for (uint64_t done = 0; done < total; done += piece) {
		uint64_t len = total - done < piece ? total - done : piece;
		struct read_op op = {
			.remote = d->addr + sizeof(struct directory) + done,
			.rkey = d->rkey,
			.len = (uint32_t)len,
			.local = r->fetch.arena,
			.lkey = r->fetch.arena_lkey,
		};
		int rc = reader_read(r, &op, 1);

		if (rc)
			return rc;
		memcpy((uint8_t *)d->entry + done, r->fetch.arena, len); /* not shared yet */
	}
	return 0;
}

int directory_fetch(struct reader *r, const struct root_directory *at, struct dir_cache **out)
{
	const struct directory *header = r->scratch;
	uint64_t bytes = sizeof(*header) + (sizeof(uint64_t) << (at->depth & 31));
	struct read_op op;
	struct dir_cache *d;
	struct extent x;
	int rc = reader_extent(r, at->extent, &x);

	if (rc && rc != -ENOENT)
		return rc;
	if (rc || x.kind != EXTENT_DIR || at->depth > DEPTH_MAX || at->offset % 64 ||
	    at->offset > x.length || bytes > x.length - at->offset)
		return error_set(r->err, -EPROTO,
				 "the server's root names a directory of depth %u at %llu in "
				 "extent %u, which cannot be (is the server sound?)",
				 at->depth, (unsigned long long)at->offset, at->extent);
	d = dir_new(at->depth);
	if (!d)
		return error_set(r->err, -ENOMEM, "out of memory for a directory of depth %u",
				 at->depth);
	d->incarnation = at->incarnation;
	d->addr = x.addr + at->offset;
	d->rkey = x.rkey;
	rc = fetch_entries(r, d);
	if (rc)
		goto err_free;
	/* The header last: while it names this directory, the entries were its own. */
	op = reader_scratch_op(r, 0, d->addr, d->rkey, sizeof(*header));
	rc = reader_read(r, &op, 1);
	if (rc)
		goto err_free;
	if (!header_sound(r, header, at->depth, at->incarnation)) {
		rc = -EAGAIN;
		goto err_free;
	}
	*out = d;
	return 0;

err_free:
	dir_put(d);
	return rc;
}

static void use_directory(struct reader *r, struct dir_cache *d)
{
	dir_put(r->dir);
	r->dir = d;
}

/* The server's thread may have been stopped in the middle of writing the descriptor. */
static void pause_between(unsigned attempt)
{
	if (attempt < DIRECTORY_QUICK)
		time_yield();
	else
		time_sleep(NS_PER_MS);
}

/* READ descriptor and directory until they agree. */
static int load_directory(struct reader *r)
{
	const struct world *w = r->world;
	struct root_directory at;
	struct dir_cache *d = NULL;
	int rc;

	for (unsigned i = 0; i < DIRECTORY_ATTEMPTS; i++) {
		struct read_op op =
			reader_scratch_op(r, 0, w->root_addr + offsetof(struct root, directory),
					  w->root_rkey, sizeof(at));

		rc = reader_read(r, &op, 1);
		if (rc)
			return rc;
		memcpy(&at, r->scratch, sizeof(at));
		rc = root_directory_sound(&at) ? directory_fetch(r, &at, &d) : -EAGAIN;
		if (rc == 0) {
			world_set_directory(r->world, d);
			use_directory(r, d);
			return 0;
		}
		if (rc != -EAGAIN)
			return rc;
		pause_between(i);
	}
	return error_set(r->err, -EPROTO,
			 "the server's directory could not be read in %u attempts: its descriptor "
			 "or header is unsound (is the server sound?)",
			 DIRECTORY_ATTEMPTS);
}

int directory_refresh(struct reader *r, uint64_t hash)
{
	const struct world *w = r->world;
	struct dir_cache *d = r->dir, *newest = world_directory(r->world);
	uint32_t index = hash_prefix(hash, d->depth);
	const struct directory *header;
	const struct root_directory *at;
	struct read_op op[3];
	uint64_t entry;
	int rc;

	if (newest && newest != d && newest->incarnation > d->incarnation) {
		use_directory(r, newest); /* another handle was here before */
		return 0;
	}
	dir_put(newest);
	op[0] = reader_scratch_op(r, 0,
				  d->addr + sizeof(struct directory) + index * sizeof(d->entry[0]),
				  d->rkey, sizeof(d->entry[0]));
	op[1] = reader_scratch_op(r, 64, d->addr, d->rkey, sizeof(*header));
	op[2] = reader_scratch_op(r, 128, w->root_addr + offsetof(struct root, directory),
				  w->root_rkey, sizeof(*at));
	rc = reader_read(r, op, 3);
	if (rc)
		return rc;
	memcpy(&entry, r->scratch, sizeof(entry));
	header = (const struct directory *)((uint8_t *)r->scratch + 64);
	at = (const struct root_directory *)((uint8_t *)r->scratch + 128);
	if (!root_directory_sound(at))
		return 0; /* just being written: the caller's next attempt asks again */
	if (at->incarnation != d->incarnation || !header_sound(r, header, d->depth, d->incarnation))
		return load_directory(r);
	/* relaxed: the word names itself, and what it leads to is checked against it */
	if (entry)
		atomic_store_explicit(&d->entry[index], entry, memory_order_relaxed);
	return 0;
}

static int root_refused(const struct reader *r, const struct root *root)
{
	if (root->magic != ROOT_MAGIC)
		return error_set(
			r->err, -EPROTO,
			"what was read at the root's address is no GraceKV root (0x%016llx)",
			(unsigned long long)root->magic);
	if (root->layout_version != LAYOUT_VERSION || root->layout_hash != layout_hash() ||
	    root->segment_buckets != SEGMENT_BUCKETS)
		return error_set(r->err, -EPROTONOSUPPORT,
				 "the server has memory layout %u (%016llx), this library %u "
				 "(%016llx): install the same GraceKV release on both",
				 root->layout_version, (unsigned long long)root->layout_hash,
				 LAYOUT_VERSION, (unsigned long long)layout_hash());
	if (root->server_incarnation != r->world->incarnation)
		return error_set(r->err, -EPROTO,
				 "the root is that of another life of the server (%016llx, "
				 "expected %016llx)",
				 (unsigned long long)root->server_incarnation,
				 (unsigned long long)r->world->incarnation);
	if (root->extents.entries == 0 || root->extents.entries > EXTENTS_MAX)
		return error_set(r->err, -EPROTO,
				 "the root names an extent table of %u entries, at most %u can be",
				 root->extents.entries, EXTENTS_MAX);
	return 0;
}

static int load_root(struct reader *r)
{
	const struct root *root = r->scratch;
	int rc;

	for (unsigned i = 0; i < ROOT_ATTEMPTS; i++) {
		struct read_op op = reader_scratch_op(r, 0, r->world->root_addr,
						      r->world->root_rkey, sizeof(*root));

		rc = reader_read(r, &op, 1);
		if (rc)
			return rc;
		if (root->magic != ROOT_MAGIC || root_extents_sound(&root->extents)) {
			rc = root_refused(r, root);
			if (rc == 0)
				world_set_root(r->world, root);
			return rc;
		}
		time_give_way();
	}
	return error_set(r->err, -EPROTO, "the server's root could not be read in %u attempts",
			 ROOT_ATTEMPTS);
}

int reader_prepare(struct reader *r)
{
	int rc;

	if (r->dir)
		return 0;
	if (!world_has_root(r->world)) {
		rc = load_root(r);
		if (rc)
			return rc;
	}
	r->dir = world_directory(r->world);
	return r->dir ? 0 : load_directory(r);
}

void reader_drop(struct reader *r)
{
	dir_put(r->dir);
	world_put(r->world);
	r->dir = NULL;
	r->world = NULL;
}
