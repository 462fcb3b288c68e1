/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * check: the whole store, from the root to every block.
 *
 * WHAT IS CHECKED
 * - root: magic, layout, the server's incarnation, both descriptors with their checksums and
 *   places; the epoch does not go backwards while we look, the hint floor is not above it;
 * - extent table: each entry's checksum, kind and size; no two extents overlap;
 * - directory: its header against itself and root; each entry: not empty, its local depth at most
 *   the directory's, as many equal entries as that wants, at the right place; a segment that is
 *   inside an INDEX extent and that no other prefix has;
 * - segments: each bucket's header names the entry's incarnation, depth and prefix, and is not
 *   MOVED; a chain's links lead to overflow buckets of the segment, each of one chain; those that
 *   no chain leads to are empty (their records would be lost to all readers);
 * - slots: each leads to a place where a block can be: DATA, inside extent and slab;
 * - blocks: LIVE, lengths inside what the slot READs, checksum, the hash is the key's, version and
 *   incarnation count from 1, no flags; fingerprint, bucket and segment are those of the hash, the
 *   size code that of the length; no key twice.
 * Overlapping blocks need no check of their own: two that verify would have to be parts of one
 * another, checksums included.
 *
 * THE SERVER GOES ON MEANWHILE. What is found is of two kinds (`certain`):
 * - Nothing that a writer does explains it. A block that was reached through a slot in a section is
 *   not reused before the section ends (inspect.c, 1). Whether it is still there a moment later
 *   says nothing: a broken grace period shows for a moment only. It is a violation when it is seen.
 * - It may be the middle of a write, a split or a merge: a block is OBSOLETE before its slot has
 *   the new one; an overflow bucket has its header before it is linked; segments and directory
 *   entries are replaced one by one; a key that is deleted and written again meanwhile is met
 *   twice. These are looked at again, with pauses that grow, until all that is left was the same
 *   (kind, address, word) in every look for CHECK_PATIENCE_MS. That is a violation. What comes
 *   and goes is explained. What is new in the last looks, of a store that is being written to in
 *   the same places all the time, stays open: it is said, and is no violation.
 * A writer that was stopped in the middle ends nothing. So the server's own clock has to have gone
 * on for half of that time: its clock thread writes it every 100 ms. Where it stands still what
 * is left stays open, too.
 *
 * Looked at again is a range of hashes: that of the segment in which it was found, whichever
 * segments have it by then.
 *
 * COUNTS are those of the first look at each place. A record that moves with a split or a merge
 * while we walk is counted once or not at all, as hashes below the walk are not counted again.
 *
 * Progress: LOOKS_AGAIN rounds, each over what the one before has left open.
 */
#include "tools/kv-inspect/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const unsigned pauses_ms[] = { 2, 10, 40, 100, 250, 500, 800, 800, 800, 800, 800 };

#define LOOKS_AGAIN (sizeof(pauses_ms) / sizeof(pauses_ms[0]))

void check_found(struct check *c, struct finding *f, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, args);
	va_end(args);
	f->since_ms = c->in->waited_ms;
	f->since_clock_ms = c->clock_ms;
	if (!f->certain)
		findings_add(&c->open, f);
	else if (!findings_has(&c->violations, f))
		findings_add(&c->violations, f);
}

/* It has been the same for as long as any writer may take. */
static bool settled(const struct check *c, const struct finding *f)
{
	return c->in->waited_ms - f->since_ms >= CHECK_PATIENCE_MS &&
	       c->clock_ms >= f->since_clock_ms &&
	       c->clock_ms - f->since_clock_ms >= CHECK_PATIENCE_MS / 2;
}

static bool all_settled(const struct check *c)
{
	for (size_t i = 0; i < c->open.count; i++) {
		if (!settled(c, &c->open.list[i]))
			return false;
	}
	return true;
}

/* Those that were there before are as old as they were. */
static void compare(struct check *c, const struct findings *before)
{
	uint64_t still = 0;

	for (size_t i = 0; i < c->open.count; i++) {
		struct finding *f = &c->open.list[i];
		const struct finding *old = findings_has(before, f);

		if (!old)
			continue;
		f->since_ms = old->since_ms;
		f->since_clock_ms = old->since_clock_ms;
		still++;
	}
	c->explained += before->count > still ? before->count - still : 0;
}

static bool any(const struct findings *l, enum finding_kind kind)
{
	for (size_t i = 0; i < l->count; i++) {
		if (l->list[i].kind == kind && !l->list[i].ranged)
			return true;
	}
	return false;
}

static bool any_ranged(const struct findings *l)
{
	for (size_t i = 0; i < l->count; i++) {
		if (l->list[i].ranged)
			return true;
	}
	return false;
}

/* They stand in the order of the walk: a range that was looked at is behind us. */
static int ranges_again(struct check *c, const struct findings *before)
{
	uint64_t next = 0;
	bool end = false;
	int rc = 0;

	for (size_t i = 0; i < before->count && rc == 0 && !end; i++) {
		const struct finding *f = &before->list[i];

		if (!f->ranged || f->last < next)
			continue;
		rc = check_segments(c, f->first > next ? f->first : next, f->last);
		end = f->last == UINT64_MAX;
		next = f->last + 1;
	}
	return rc;
}

/* From where the walk is. */
static int walk_on(struct check *c)
{
	if (c->walked_all || !c->directory.entries)
		return 0;
	return check_segments(c, c->walked_to, UINT64_MAX);
}

/* The root each time, for its clock. */
static int look_again(struct check *c)
{
	struct findings before = c->open;
	int rc;

	c->open = (struct findings){ 0 };
	rc = check_root(c);
	if (rc == 0 && c->usable && any(&before, FINDING_EXTENT))
		rc = check_extents(c);
	if (rc == 0 && c->usable &&
	    (any(&before, FINDING_DIRECTORY) || any(&before, FINDING_ENTRY) || any_ranged(&before)))
		rc = check_directory(c);
	if (rc == 0 && c->directory.entries)
		rc = ranges_again(c, &before);
	if (rc == 0)
		rc = walk_on(c);
	compare(c, &before);
	findings_free(&before);
	return rc;
}

static int look_first(struct check *c)
{
	int rc = check_root(c);

	if (rc == 0 && c->usable)
		rc = check_extents(c);
	if (rc == 0 && c->usable)
		rc = check_directory(c);
	return rc ? rc : walk_on(c);
}

/* What is left open and settled is a violation. */
static void judge_open(struct check *c)
{
	struct findings left = { 0 };

	for (size_t i = 0; i < c->open.count; i++) {
		const struct finding *f = &c->open.list[i];

		if (!c->interrupted && settled(c, f))
			findings_add(&c->violations, f);
		else
			findings_add(&left, f);
	}
	c->violations.more += c->open.more;
	findings_free(&c->open);
	c->open = left;
}

int check_run(struct check *c)
{
	int rc = look_first(c);

	c->clock_first_ms = c->clock_ms;
	for (unsigned i = 0; i < LOOKS_AGAIN && rc == 0 && !all_settled(c); i++) {
		c->interrupted |= c->in->ops->stopped(c->in->ctx);
		if (c->interrupted)
			break;
		inspect_pause(c->in, pauses_ms[i]);
		rc = look_again(c);
	}
	c->clock_still = c->open.count && c->clock_ms == c->clock_first_ms;
	judge_open(c);
	return rc;
}

void check_end(struct check *c)
{
	findings_free(&c->violations);
	findings_free(&c->open);
	dir_put(c->directory.entries);
	free(c->walk);
}
