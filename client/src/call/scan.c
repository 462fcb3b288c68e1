/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Scanning: every record, by one-sided reads.
 *
 * The walk goes over the space of hashes, not over the directory, since that may change meanwhile.
 * A range is what one segment covered when the scan came to it. Its buckets are taken in groups,
 * and a group is worked off in all segments that cover the range by then (more than one where
 * the segment was split) before the next group begins.
 *
 * The scan is turned inside out: gkv_scan_next() makes steps until something was found, and all
 * that the next step needs is in struct gkv_cursor. A step is made when all that was found before
 * is handed out, and is the first of these that applies:
 * - look up the keys that wait for it, as many as there is room for their records;
 * - where the group is finished in this segment, on to the next segment, group or range;
 * - a pass.
 *
 * A pass over a group, in one section: READ its buckets with their overflow, READ blocks of
 * positions not yet dealt with, as many as a batch takes. Then, with the section closed, copy what
 * was found into the scan's memory (scan_records.c). No section is open, and nothing in the handle
 * is the scan's, between two steps: so other calls on the handle, also with other scans, may come
 * in between, and memory of the server waits for no scan that is left lying.
 * Passes go on until every position of the group is dealt with. A position is dealt with when
 * - its block verified, and its record was kept, had been met or is of another range; or
 * - its block was replaced meanwhile, or has expired, and the key that stands in it was looked up
 *   like any get's: that finds the newer version or its absence.
 * A block that is neither is READ again with the next pass.
 *
 * Heads. Where only keys are wanted, or keys with a prefix, the head of a large block is READ: its
 * header and key, which block_verify_key() judges. Where the key has the prefix and values are
 * wanted, the next pass READs the whole block. A head that is too short for its key makes the next
 * ones longer. A position whose key lacks the prefix is dealt with, also where its block has been
 * replaced: no other key stood there throughout the scan. A key without a value is not looked up
 * where its block was replaced, since that would READ the value: the block is READ again, unless
 * that was in vain before.
 *
 * Guarantees
 * 1. A record that lives throughout the scan is handed out exactly once. Its key stays in one
 *    position of its segment, and after a split or a merge in one of a segment that covers its
 *    hash, with the same bucket number. So while its group is worked off in the range, every way
 *    to the group's end leads through a segment that then holds it, and through its position.
 * 2. At most once. Keys met in a group are remembered, and met again by segments that a split made,
 *    or by a position that moved with them, they count for nothing. When the group is finished in
 *    a segment, the walk goes on behind that segment's last hash and never back: what has a lesser
 *    hash is of no interest any more, though a merge may bring it before us again. It is refused
 *    by its hash (scan_keep()), so it need not be remembered.
 * 3. Errors lose nothing. A position is marked when its record has been kept, a key waits until it
 *    was looked up, a record until it is handed out; a step that fails is made again by the next
 *    call. So a lost connection is no more than another pass: to the same life of the server,
 *    whose segments, hash seed and positions are what they were.
 * 4. To another life nothing of it applies: -ESTALE, for good, as incarnations never come again.
 *    What was found but not handed out is not handed out any more.
 *
 * Memory: this struct, 110 KiB; the records of one step, 256 KiB or one larger record; keys met,
 * 4 KiB as a rule, and SCAN_SEEN_MAX of them at most (2 MiB, twice while the table is made again):
 * 2480 come from one segment, more only where it is split and merged under one group again and
 * again, with new keys each time.
 *
 * Progress: passes that deal with nothing are counted, SCAN_IDLE_PASSES of them end the call.
 */
#include "client/src/call/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/flight/async.h"
#include "client/src/link/handle.h"
#include "client/src/know/lookup.h"
#include "common/base/mutant.h"
#include "common/base/time.h"
#include "common/layout/block.h"

#define SCAN_BUSY_PASSES 16u /* from here on sleep in between */
#define SCAN_IDLE_PASSES 256u
#define WIDTH_FIRST	 8u
#define SLOTS_FEW	 16u
/* Where a value may be wanted: its key matches, and another READ follows. What is less than this
 * costs less than that. */
#define SPARED_LEAST 512u

static_assert(READER_BATCH <= SEGMENT_BUCKETS, "width");

int scan_same_life(struct gkv_cursor *s)
{
	const struct gkv_session *session = s->h->session;

	if (!s->incarnation || s->h->reader.world->incarnation == s->incarnation)
		return 0;
	return error_set(&s->h->error, -ESTALE,
			 "the server at %s:%s restarted during the scan (scan again)",
			 session_server(session)->host, session_server(session)->port);
}

int scan_ready(struct gkv_cursor *s)
{
	int rc = handle_ready(s->h);

	return rc ? rc : scan_same_life(s);
}

/* Must be in a section. Returns 0, SCAN_AGAIN or why not. */
static int fetch(struct gkv_cursor *s)
{
	struct reader *r = &s->h->reader;
	int rc = reader_prepare(r);

	if (rc == 0)
		rc = scan_fetch(&s->pass);
	if (rc == 0)
		s->now_ms = r->ops->clock_ms(r->ctx);
	return rc == -ECONNRESET ? SCAN_AGAIN : rc;
}

/* Returns 0, or -EPROTO: it has been in vain for too long. */
static int count_idle(struct gkv_cursor *s)
{
	if (++s->idle < SCAN_IDLE_PASSES)
		return 0;
	s->idle = 0;
	return error_set(&s->h->error, -EPROTO,
			 "bucket %u of the segment of hash %016llx could not be read in %u passes "
			 "(is the server sound?)",
			 s->pass.bucket, (unsigned long long)s->pass.at, SCAN_IDLE_PASSES);
}

/* Of a group: what will be READ soon will be good. In no section. */
static int await_lease(struct gkv *h)
{
	while (!world_is_fresh(h->reader.world)) {
		if (time_now_ns() >= handle_deadline(h))
			return error_set(
				&h->error, -ETIMEDOUT,
				"the server at %s:%s did not renew its group's lease within "
				"%u ms (do the others answer it?)",
				session_server(h->session)->host, session_server(h->session)->port,
				h->session->settings.timeout_ms);
		h->session->services->nudge(h->session, handle_deadline(h));
		time_sleep(NS_PER_MS);
		if (!handle_current(h))
			return SCAN_AGAIN;
	}
	return 0;
}

static int make_pass(struct gkv_cursor *s)
{
	int rc;

	if (s->idle > SCAN_BUSY_PASSES)
		time_sleep(NS_PER_MS);
	else if (s->idle)
		time_yield();
	if (s->h->async)
		async_aside(s->h->async);
	rc = scan_ready(s);
	if (rc == 0)
		rc = await_lease(s->h);
	if (rc)
		return rc == SCAN_AGAIN ? count_idle(s) : rc;
	section_open(s->h, SECTION_CALL);
	rc = fetch(s);
	section_close(s->h, SECTION_CALL);
	if (rc == 0 && !world_is_fresh(s->h->reader.world) && !MUTANT(read_deposed))
		rc = SCAN_AGAIN;
	if (rc < 0)
		return rc;
	if (rc)
		return count_idle(s);
	/* not before: the one that the handle knew may be gone */
	s->incarnation = s->h->reader.world->incarnation;
	if (!s->range_known) {
		s->range_last = s->pass.last;
		s->range_known = true;
	}
	rc = scan_judge(s);
	if (rc < 0)
		return rc;
	s->settled = !s->pass.left && !s->pass.bad;
	if (rc == 0 && !s->settled)
		return count_idle(s);
	s->idle = 0;
	return 0;
}

static unsigned next_width(const struct scan *pass)
{
	if (pass->found_count > READER_BATCH && pass->width > 1)
		return pass->width / 2;
	if (pass->found_count < SLOTS_FEW && pass->width < READER_BATCH)
		return pass->width * 2;
	return pass->width;
}

static void begin_group(struct gkv_cursor *s, unsigned bucket)
{
	struct scan *pass = &s->pass;

	seen_clear(&s->seen);
	if (pass->head)
		pass->head = pass->head_met > SCAN_HEAD ? pass->head_met : SCAN_HEAD;
	pass->head_met = 0;
	pass->at = s->range_first;
	pass->bucket = bucket;
	pass->width = s->width < SEGMENT_BUCKETS - bucket ? s->width : SEGMENT_BUCKETS - bucket;
}

static void begin_range(struct gkv_cursor *s, uint64_t first)
{
	s->range_first = first;
	s->range_last = UINT64_MAX;
	s->range_known = false;
	begin_group(s, 0);
}

/* The group is finished in the segment under way. */
static void go_on(struct gkv_cursor *s)
{
	struct scan *pass = &s->pass;

	s->settled = false;
	scan_unmark(pass);
	if (pass->last < s->range_last) {
		pass->at = pass->last + 1;
		seen_keep_above(&s->seen, pass->last);
		return;
	}
	s->width = next_width(pass);
	if (pass->bucket + pass->width < SEGMENT_BUCKETS)
		begin_group(s, pass->bucket + pass->width);
	else if (s->range_last < UINT64_MAX)
		begin_range(s, s->range_last + 1);
	else
		s->end = true;
}

/* All that was found is handed out. Returns 0, or why the step has to be made again. */
static int step(struct gkv_cursor *s)
{
	scan_clear(s);
	if (s->keys)
		return scan_look_up(s);
	if (s->settled)
		go_on(s);
	return s->end ? 0 : make_pass(s);
}

static int check_options(struct gkv *h, const struct gkv_scan_options *o)
{
	unsigned reserved = 0;

	for (size_t i = 0; i < sizeof(o->reserved) / sizeof(o->reserved[0]); i++)
		reserved |= o->reserved[i];
	if (o->flags & ~GKV_SCAN_KEYS || reserved)
		return error_set(&h->error, -EINVAL,
				 "a scan has no such flags 0x%x, or its reserved fields are not 0 "
				 "(zero the options first)",
				 o->flags);
	if (o->prefix_len > KEY_MAX || (o->prefix_len && !o->prefix))
		return error_set(&h->error, -EINVAL,
				 "the prefix is NULL or has %zu bytes (keys have at most %u)",
				 o->prefix_len, KEY_MAX);
	return 0;
}

static int scan_new(struct gkv *h, const struct gkv_scan_options *o, struct gkv_cursor **out)
{
	static const struct gkv_scan_options all;
	struct gkv_cursor *s;
	int rc;

	o = o ? o : &all;
	rc = check_options(h, o);
	if (rc)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(&h->error, -ENOMEM, "out of memory for a scan");
	s->h = h;
	s->keys_only = o->flags & GKV_SCAN_KEYS;
	s->prefix_len = (uint32_t)o->prefix_len;
	if (o->prefix_len)
		memcpy(s->prefix, o->prefix, o->prefix_len);
	s->pass.r = &h->reader;
	s->pass.head = s->keys_only || s->prefix_len ? SCAN_HEAD : 0;
	s->pass.spared = s->keys_only ? 1 : SPARED_LEAST;
	s->width = WIDTH_FIRST;
	begin_range(s, 0);
	*out = s;
	return 0;
}

int gkv_scan_open(struct gkv *h, const struct gkv_scan_options *options, struct gkv_cursor **out)
{
	int rc = handle_begin(h);

	if (rc)
		return rc;
	rc = out ? scan_new(h, options, out)
		 : error_set(&h->error, -EINVAL, "there is no place for the scan (NULL)");
	return handle_end(h, rc);
}

/* No call takes longer than it may, also where there is nothing to find. */
static int in_time(struct gkv *h)
{
	if (time_now_ns() < handle_deadline(h))
		return 0;
	return error_set(&h->error, -ETIMEDOUT,
			 "no record was found within %u ms (go on: the scan is where it was)",
			 h->session->settings.timeout_ms);
}

static int scan_next(struct gkv_cursor *s, struct gkv_record *out, size_t max)
{
	struct gkv *h = s->h;
	int rc;

	if (!out || !max)
		return error_set(&h->error, -EINVAL, "there is no room for records (NULL, or 0)");
	if (s->end && s->next == s->count && !s->keys)
		return 0;
	handle_deadline(h); /* from now */
	rc = scan_same_life(s);
	while (rc == 0) {
		rc = scan_take(s, out, max);
		if (rc || s->end)
			break;
		rc = step(s);
		if (rc == 0 && !s->count && !s->keys && !s->end)
			rc = in_time(h);
	}
	return rc;
}

int gkv_scan_next(struct gkv_cursor *s, struct gkv_record *out, size_t max)
{
	struct gkv *h = s ? s->h : NULL;
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, scan_next(s, out, max));
}

void gkv_scan_close(struct gkv_cursor *s)
{
	if (!s)
		return;
	seen_free(&s->seen);
	free(s->memory);
	free(s);
}

/* It may take long: meanwhile the housekeeper may have the handle, and nobody else. */
static int call_visitor(struct gkv *h, gkv_visit visit, void *arg, const struct gkv_record *rec)
{
	int rc;

	atomic_store_explicit(&h->call.visitor, handle_thread(), memory_order_relaxed);
	handle_end(h, 0);
	rc = visit(arg, rec->key, rec->key_len, rec->value, &rec->meta);
	while (h->call.owned && handle_own(h)) /* a thread too many is in a call */
		time_give_way();
	atomic_store_explicit(&h->call.visitor, 0, memory_order_relaxed);
	return rc;
}

static int visit_all(struct gkv_cursor *s, gkv_visit visit, void *arg)
{
	struct gkv *h = s->h;
	struct gkv_record rec;
	int rc;

	for (;;) {
		h->call.deadline_ns = 0; /* a scan may be long: the limit is that of each step */
		rc = scan_take(s, &rec, 1);
		if (rc == 0 && s->end)
			return 0;
		if (rc == 0)
			rc = step(s);
		if (rc < 0)
			return rc;
		if (rc == 0)
			continue;
		rc = call_visitor(h, visit, arg, &rec);
		if (rc)
			return rc;
	}
}

static int scan(struct gkv *h, const struct gkv_scan_options *options, gkv_visit visit, void *arg)
{
	struct gkv_cursor *s;
	int rc;

	if (!visit)
		return error_set(&h->error, -EINVAL, "there is nothing to visit with (NULL)");
	rc = scan_new(h, options, &s);
	if (rc)
		return rc;
	rc = visit_all(s, visit, arg);
	gkv_scan_close(s);
	return rc;
}

int gkv_scan(struct gkv *h, const struct gkv_scan_options *options, gkv_visit visit, void *arg)
{
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, scan(h, options, visit, arg));
}
