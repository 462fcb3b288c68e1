/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Scanning: every record, by one-sided reads.
 *
 * The walk goes over the space of hashes, not over the directory, since that may grow meanwhile.
 * A range is what one segment covered when the scan came to it. Its buckets are taken in groups,
 * and a group is worked off in all segments that cover the range by then (more than one where
 * the segment was split) before the next group begins.
 *
 * A pass over a group, in one section: READ its buckets with their overflow, READ blocks of
 * positions not yet dealt with, as many as a batch takes. Then, with the section closed, visit.
 * Passes go on until every position of the group is dealt with. A position is dealt with when
 * - its block verified and was visited (or had been), or
 * - its block was replaced meanwhile, or has expired, and the key that stands in it was looked up
 *   like any get's: that finds the newer version or its absence.
 * A block that is neither is READ again with the next pass.
 *
 * Exactly once, for a record that lives throughout: its key stays in one position of its segment,
 * and after a split in one of a segment that covers the same hashes with the same bucket number. So
 * it is met while its group is worked off, in the segment that then holds it. Keys visited in a
 * group are remembered until the group is finished, so it is not visited again after a split.
 *
 * Progress: passes that deal with nothing are counted, SCAN_IDLE_PASSES of them end the scan.
 */
#include "client/src/scan.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/src/get.h"
#include "common/layout/block.h"

#define SCAN_BUSY_PASSES 16u /* from here on sleep in between */
#define SCAN_IDLE_PASSES 256u
#define WIDTH_FIRST	 8u
#define SLOTS_FEW	 16u

struct walk {
	struct scan scan;
	struct gkv *h;
	gkv_visit visit;
	void *arg;
	uint64_t incarnation; /* of the server that the scan began on; 0: not yet */
	uint64_t now_ms; /* estimate of the server's clock at the last pass */
	struct seen seen;
	uint64_t range_first, range_last; /* hashes */
	bool range_known; /* range_last is set, by the range's first pass */
	bool progress; /* the last pass dealt with something */
	bool end; /* the visitor, or an error, ends the scan */
	unsigned keys;
	struct scan_key key[READER_BATCH];
	unsigned key_position[READER_BATCH];
};

static int visit_once(struct walk *w, uint64_t hash, const void *key, uint32_t key_len,
		      const void *value, const struct gkv_meta *meta)
{
	int rc;

	if (hash < w->range_first || hash > w->range_last)
		return 0; /* another range's */
	rc = seen_add(&w->seen, hash, key, key_len);
	if (rc < 0)
		return error_set(&w->h->error, rc, "out of memory for a scan");
	return rc ? w->visit(w->arg, key, key_len, value, meta) : 0;
}

/* A block that does not verify: can its key be read? Its state is not under the checksum. */
static bool key_readable(struct block *b, uint32_t len)
{
	uint64_t state = atomic_load_explicit(&b->state, memory_order_relaxed); /* private copy */

	if (block_state_of(state) != BLOCK_OBSOLETE)
		return false;
	atomic_store_explicit(&b->state,
			      block_state_make(block_state_incarnation(state), BLOCK_LIVE),
			      memory_order_relaxed);
	return block_verify_any(b, len) == BLOCK_OK;
}

static void look_up_later(struct walk *w, const struct block *b, unsigned position)
{
	struct scan_key *k = &w->key[w->keys];

	k->len = b->key_len;
	memcpy(k->bytes, b->data, b->key_len);
	w->key_position[w->keys++] = position;
}

/* Visit what was fetched. Returns 0, the visitor's value or a negative errno. */
static int visit_fetched(struct walk *w)
{
	struct scan *s = &w->scan;
	int rc = 0;

	w->keys = 0;
	for (unsigned i = 0; i < s->count && rc == 0; i++) {
		const struct scan_block *f = &s->fetched[i];
		struct block *b = f->block;
		enum block_verdict verdict = block_verify_any(b, f->len);
		struct gkv_meta meta;

		if (verdict == BLOCK_GONE) {
			w->h->reader.stats.retry_obsolete++;
			if (key_readable(b, f->len))
				look_up_later(w, b, f->position);
			else
				s->bad++;
			continue;
		}
		if (verdict != BLOCK_OK) {
			w->h->reader.stats.retry_checksum++;
			s->bad++;
			continue;
		}
		if (b->expiry_ms && b->expiry_ms <= w->now_ms) {
			look_up_later(w, b, f->position); /* the server deletes it */
			continue;
		}
		meta = (struct gkv_meta){ b->version, b->expiry_ms, b->value_len };
		scan_mark(s, f->position);
		w->progress = true;
		rc = visit_once(w, b->key_hash, b->data, b->key_len, b->data + b->key_len, &meta);
	}
	return rc;
}

static int visit_looked_up(struct walk *w)
{
	int rc = 0;

	for (unsigned i = 0; i < w->keys && rc == 0; i++) {
		struct lookup l = { .key = w->key[i].bytes, .key_len = w->key[i].len };
		struct gkv_meta meta;

		rc = handle_lookup(w->h, &l, 1);
		if (rc)
			return rc;
		scan_mark(&w->scan, w->key_position[i]);
		w->progress = true;
		if (l.state != LOOKUP_FOUND)
			continue;
		meta = (struct gkv_meta){ l.version, l.expiry_ms, l.value_len };
		rc = visit_once(w, l.hash, l.key, l.key_len, l.value, &meta);
	}
	return rc;
}

/* The connection, to the server that the scan began on. */
static int walk_ready(struct walk *w)
{
	struct gkv *h = w->h;
	int rc;

	h->deadline_ns = 0; /* a scan may be long: the limit is that of each step */
	rc = handle_ready(h);
	if (rc)
		return rc;
	if (w->incarnation && h->reader.world->incarnation != w->incarnation)
		return error_set(
			&h->error, -ECONNRESET,
			"the server at %s:%s was started anew during the scan (scan again)",
			h->session->settings.host, h->session->settings.port);
	w->incarnation = h->reader.world->incarnation;
	return 0;
}

/* One pass. Returns 0: the group is finished in this segment; SCAN_AGAIN; or, with end, why. */
static int pass(struct walk *w)
{
	struct scan *s = &w->scan;
	int rc = walk_ready(w);

	w->progress = false;
	w->end = rc != 0;
	if (rc)
		return rc;
	section_open(w->h, SECTION_CALL);
	rc = reader_prepare(&w->h->reader);
	if (rc == 0)
		rc = scan_fetch(s);
	if (rc == 0)
		w->now_ms = w->h->reader.ops->clock_ms(w->h);
	section_close(w->h, SECTION_CALL);
	if (rc == -ECONNRESET || rc == SCAN_AGAIN)
		return SCAN_AGAIN;
	if (rc == 0 && !w->range_known) {
		w->range_last = s->last;
		w->range_known = true;
	}
	if (rc == 0)
		rc = visit_fetched(w);
	if (rc == 0)
		rc = visit_looked_up(w);
	w->end = rc != 0;
	return rc ? rc : s->left || s->bad ? SCAN_AGAIN : 0;
}

/* The group in the segment at scan.at, until it is finished. */
static int work_off(struct walk *w)
{
	const struct timespec pause = { 0, NS_PER_MS };
	unsigned idle = 0;
	int rc;

	do {
		rc = pass(w);
		if (rc != SCAN_AGAIN || w->end)
			return rc;
		idle = w->progress ? 0 : idle + 1;
		if (idle > SCAN_BUSY_PASSES)
			nanosleep(&pause, NULL);
		else if (idle)
			sched_yield();
	} while (idle < SCAN_IDLE_PASSES);
	w->end = true;
	return error_set(&w->h->error, -EPROTO,
			 "bucket %u of the segment of hash %016llx could not be read in %u passes "
			 "(is the server sound?)",
			 w->scan.bucket, (unsigned long long)w->scan.at, SCAN_IDLE_PASSES);
}

/* The group in all segments that cover the range. */
static int work_off_range(struct walk *w)
{
	struct scan *s = &w->scan;
	int rc;

	seen_clear(&w->seen);
	s->at = w->range_first;
	for (;;) {
		memset(s->done, 0, sizeof(s->done));
		rc = work_off(w);
		if (w->end)
			return rc;
		if (s->last >= w->range_last)
			return 0;
		s->at = s->last + 1;
	}
}

static unsigned next_width(const struct scan *s)
{
	if (s->found_count > READER_BATCH && s->width > 1)
		return s->width / 2;
	if (s->found_count < SLOTS_FEW && s->width < READER_BATCH)
		return s->width * 2;
	return s->width;
}

static int walk_all(struct walk *w)
{
	struct scan *s = &w->scan;
	unsigned width = WIDTH_FIRST;
	int rc;

	for (;;) {
		w->range_last = UINT64_MAX;
		w->range_known = false;
		for (s->bucket = 0; s->bucket < SEGMENT_BUCKETS; s->bucket += s->width) {
			s->width = width < SEGMENT_BUCKETS - s->bucket
					   ? width
					   : SEGMENT_BUCKETS - s->bucket;
			rc = work_off_range(w);
			if (w->end)
				return rc;
			width = next_width(s);
		}
		if (w->range_last == UINT64_MAX)
			return 0;
		w->range_first = w->range_last + 1;
	}
}

static int scan(struct gkv *h, gkv_visit visit, void *arg)
{
	struct walk *w;
	int rc;

	if (!visit)
		return error_set(&h->error, -EINVAL, "there is nothing to visit with (NULL)");
	w = calloc(1, sizeof(*w));
	if (!w)
		return error_set(&h->error, -ENOMEM, "out of memory for a scan");
	w->h = h;
	w->scan.r = &h->reader;
	w->visit = visit;
	w->arg = arg;
	rc = walk_all(w);
	seen_free(&w->seen);
	free(w);
	return rc;
}

int gkv_scan(struct gkv *h, gkv_visit visit, void *arg)
{
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, scan(h, visit, arg));
}
