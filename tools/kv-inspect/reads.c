/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-inspect/reads.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "client/src/know/lookup.h"
#include "common/layout/slot.h"

int reads_arena(struct inspect *in, uint64_t remote, uint32_t rkey, uint32_t len, const void **out)
{
	struct reader *r = in->r;
	struct read_op op = { .remote = remote, .rkey = rkey, .len = len };
	int rc;

	if (len > r->fetch.arena_len) {
		rc = fetch_grow(&r->fetch, len);
		if (rc)
			return rc;
	}
	op.local = r->fetch.arena;
	op.lkey = r->fetch.arena_lkey;
	*out = r->fetch.arena;
	return reader_read(r, &op, 1);
}

int reads_bytes(struct inspect *in, uint64_t remote, uint32_t rkey, void *to, uint64_t len)
{
	uint64_t piece = in->r->fetch.arena_len & ~(uint64_t)63;
	const void *from;

	for (uint64_t done = 0; done < len; done += piece) {
		uint32_t n = (uint32_t)(len - done < piece ? len - done : piece);
		int rc = reads_arena(in, remote + done, rkey, n, &from);

		if (rc)
			return rc;
		memcpy((uint8_t *)to + done, from, n);
	}
	return 0;
}

int reads_root(struct inspect *in, struct root *out)
{
	const struct world *w = in->r->world;

	return reads_bytes(in, w->root_addr, w->root_rkey, out, sizeof(*out));
}

static int look_at_root(struct inspect *in, void *arg)
{
	struct root *root = arg;
	int rc = reads_root(in, root);

	if (rc)
		return rc;
	return root_extents_sound(&root->extents) ? 0 : INSPECT_AGAIN;
}

int reads_table(struct inspect *in, void *table_look)
{
	struct table_look *l = table_look;
	const struct world *w = in->r->world;

	l->count = w->table_entries;
	return reads_bytes(in, w->table_addr, w->table_rkey, l->entry,
			   l->count * sizeof(l->entry[0]));
}

int reads_prepare(struct inspect *in, struct root *out)
{
	char text[JUDGE_TEXT];
	const char *fault;
	int rc = inspect_settle(in, look_at_root, out);

	if (rc < 0)
		return rc;
	fault = judge_root(out, in->incarnation, text);
	if (fault)
		return inspect_failed(in, -EPROTO, "the server's root: %s (look at it with root)",
				      fault);
	fault = judge_root_extents(&out->extents, text);
	if (fault)
		return inspect_failed(in, -EPROTO,
				      "the root's place of the extent table: %s (look at it with "
				      "root)",
				      fault);
	world_set_root(in->r->world, out);
	return 0;
}

int reads_extent(struct inspect *in, unsigned number, struct extent_entry *out)
{
	const struct world *w = in->r->world;

	if (number >= w->table_entries || number >= EXTENTS_MAX) {
		*out = (struct extent_entry){ 0 };
		return 0;
	}
	return reads_bytes(in, w->table_addr + number * sizeof(*out), w->table_rkey, out,
			   sizeof(*out));
}

int reads_known(struct inspect *in, unsigned number, struct extent *room, const struct extent **x)
{
	int rc = reader_extent(in->r, number, room);

	*x = rc ? NULL : room;
	return rc == -ENOENT ? 0 : rc;
}

static void forget(struct directory_look *d)
{
	dir_put(d->entries);
	d->entries = NULL;
	d->addr = 0;
	d->fault = NULL;
	memset(&d->header, 0, sizeof(d->header));
}

int reads_directory(struct inspect *in, void *arg)
{
	struct directory_look *d = arg;
	const struct world *w = in->r->world;
	const struct extent *x;
	struct extent room;
	int rc;

	forget(d);
	rc = reads_bytes(in, w->root_addr + offsetof(struct root, directory), w->root_rkey, &d->at,
			 sizeof(d->at));
	if (rc == 0)
		rc = reads_known(in, d->at.extent, &room, &x);
	if (rc)
		return rc;
	d->fault = judge_root_directory(&d->at, x, d->text);
	if (d->fault)
		return INSPECT_AGAIN;
	d->addr = x->addr + d->at.offset;
	rc = reads_bytes(in, d->addr, x->rkey, &d->header, sizeof(d->header));
	if (rc)
		return rc;
	d->fault = judge_directory(&d->header, &d->at, w->incarnation, d->text);
	if (d->fault)
		return INSPECT_AGAIN;
	rc = directory_fetch(in->r, &d->at, &d->entries);
	if (rc != -EAGAIN)
		return rc;
	d->fault = "its header changed while it was read";
	return INSPECT_AGAIN;
}

void reads_use(struct inspect *in, const struct directory_look *d)
{
	struct reader *r = in->r;

	/* the caller's reference keeps it alive */
	atomic_fetch_add_explicit(&d->entries->refs, 1, memory_order_relaxed);
	dir_put(r->dir);
	r->dir = d->entries;
}

/* @count buckets in one chain. */
static int buckets(struct inspect *in, const struct segment_look *s, unsigned first, unsigned count,
		   struct bucket *to)
{
	struct reader *r = in->r;
	struct read_op op[READER_BATCH];
	int rc;

	for (unsigned i = 0; i < count; i++)
		op[i] = (struct read_op){
			.remote = s->addr + (first + i) * BUCKET_BYTES,
			.rkey = s->rkey,
			.len = BUCKET_BYTES,
			.local = &r->fetch.buckets[i],
			.lkey = r->fetch.buckets_lkey,
		};
	rc = reader_read(r, op, count);
	if (rc == 0)
		memcpy(to, r->fetch.buckets, count * BUCKET_BYTES);
	return rc;
}

static_assert(SEGMENT_BUCKETS <= READER_BATCH, "the main buckets are one chain");

int reads_segment(struct inspect *in, void *arg)
{
	struct segment_look *s = arg;
	struct reader *r = in->r;
	int rc = reader_prepare(r);

	if (rc)
		return rc;
	s->placed = s->fits = false;
	s->entry = directory_entry_of(r->dir, s->hash);
	rc = segment_place(r, s->entry, &s->addr, &s->rkey);
	if (rc && rc != -ENOENT)
		return rc;
	if (rc == 0) {
		s->placed = true;
		rc = buckets(in, s, 0, SEGMENT_BUCKETS, s->bucket);
		/* after the main ones: what they link to was initialised before */
		if (rc == 0)
			rc = buckets(in, s, SEGMENT_BUCKETS, SEGMENT_OVERFLOW,
				     s->bucket + SEGMENT_BUCKETS);
		if (rc)
			return rc;
		s->fits = true;
		for (unsigned i = 0; i < SEGMENT_BUCKETS; i++)
			s->fits &=
				bucket_header_fits(reads_header(&s->bucket[i]), s->entry, s->hash);
	}
	if (s->fits)
		return 0;
	rc = directory_refresh(r, s->hash);
	return rc ? rc : INSPECT_AGAIN;
}

int reads_place(struct inspect *in, uint64_t slot, struct placed *out)
{
	const struct extent *x;
	struct extent room;
	int rc = slot_place(in->r, slot, &out->addr, &out->rkey, &out->bytes);

	out->fault = NULL;
	if (rc != -ENOENT)
		return rc;
	rc = reads_known(in, slot_extent(slot), &room, &x);
	if (rc)
		return rc;
	out->fault = judge_slot(slot, x, out->text);
	if (!out->fault)
		out->fault = "it leads to no place that a block can have";
	return 0;
}

unsigned reads_used(const struct bucket *b)
{
	unsigned used = 0;

	for (unsigned i = 0; i < BUCKET_SLOTS; i++)
		used += reads_slot(b, i) != 0;
	return used;
}
