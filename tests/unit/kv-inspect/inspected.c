/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/kv-inspect/inspected.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/layout/slot.h"

static int begin(void *ctx)
{
	struct inspected *i = ctx;

	assert_false(i->open);
	if (i->gone_after && i->sections >= i->gone_after)
		return -ECONNREFUSED;
	i->open = true;
	i->sections++;
	return 0;
}

static void end(void *ctx)
{
	struct inspected *i = ctx;

	assert_true(i->open);
	i->open = false;
}

static void pause_between(void *ctx, unsigned ms)
{
	struct inspected *i = ctx;

	assert_false(i->open);
	i->pauses++;
	if (!i->still)
		i->f->root->clock_ms += ms;
	if (i->at_pause)
		i->at_pause(i);
}

static bool stopped(void *ctx)
{
	return ((struct inspected *)ctx)->stop;
}

static const struct inspect_ops ops = {
	.begin = begin,
	.end = end,
	.pause = pause_between,
	.stopped = stopped,
};

/* No READ without a section. */
static void in_section(struct fake *f, const struct read_op *op, unsigned count)
{
	(void)op;
	(void)count;
	assert_true(((struct inspected *)f->arg)->open);
}

const char *inspected_key(unsigned n)
{
	static char key[32];

	snprintf(key, sizeof(key), "key %u", n);
	return key;
}

int inspected_set_up(void **state)
{
	struct inspected *i = calloc(1, sizeof(*i));
	struct fake *f = fake_create(INSPECTED_DEPTH);

	assert_non_null(i);
	i->f = f;
	i->in = (struct inspect){ .r = &f->reader, .ops = &ops, .ctx = i };
	f->arg = i;
	f->before = in_section;
	f->root->epoch = 5;
	f->root->clock_ms = 1000000;
	for (unsigned n = 0; n < 1u << INSPECTED_DEPTH; n++) {
		struct segment *s = fake_segment_of(f, f->dir->entry[n]);

		for (unsigned k = 0; k < SEGMENT_OVERFLOW; k++)
			s->overflow[k].header = 0; /* no chain leads there yet */
	}
	for (unsigned n = 0; n < INSPECTED_RECORDS; n++)
		fake_put(f, inspected_key(n), "the value of a record");
	*state = i;
	return 0;
}

int inspected_tear_down(void **state)
{
	struct inspected *i = *state;

	check_end(&i->check);
	fake_destroy(i->f);
	free(i);
	return 0;
}

size_t inspected_run(struct inspected *i)
{
	struct reader *r = &i->f->reader;
	struct world *fresh =
		world_new(r->world->incarnation, r->world->root_addr, r->world->root_rkey);

	check_end(&i->check);
	i->check = (struct check){ .in = &i->in };
	i->in.waited_ms = 0;
	i->sections = i->pauses = 0;
	reader_drop(r); /* what was learnt of the store */
	r->world = fresh;
	i->rc = check_run(&i->check);
	assert_false(i->open);
	return i->check.violations.count;
}

static void print(const struct findings *l, const char *what)
{
	for (size_t n = 0; n < l->count; n++)
		print_message("%s: %s: %s\n", what, finding_name(l->list[n].kind), l->list[n].text);
}

bool inspected_has(const struct inspected *i, enum finding_kind kind, const char *words)
{
	const struct findings *l = &i->check.violations;

	for (size_t n = 0; n < l->count; n++) {
		if (l->list[n].kind == kind && strstr(l->list[n].text, words))
			return true;
	}
	return false;
}

void inspected_only(struct inspected *i, enum finding_kind kind, const char *words)
{
	inspected_run(i);
	assert_int_equal(i->rc, 0);
	if (i->check.violations.count != 1 || !inspected_has(i, kind, words)) {
		print(&i->check.violations, "violation");
		print(&i->check.open, "open");
		fail_msg("wanted is one %s with '%s'", finding_name(kind), words);
	}
}

void inspected_clean(struct inspected *i)
{
	inspected_run(i);
	assert_int_equal(i->rc, 0);
	print(&i->check.violations, "violation");
	assert_int_equal(i->check.violations.count, 0);
	assert_true(i->check.walked_all);
	assert_int_equal(i->check.totals.all.records, INSPECTED_RECORDS);
}

_Atomic uint64_t *inspected_slot(struct inspected *i, const char *key)
{
	uint64_t hash = fake_hash(i->f, key);
	struct bucket *b = fake_bucket(i->f, key);

	for (unsigned n = 0; n < BUCKET_SLOTS; n++) {
		if (b->slot[n] && slot_fingerprint(b->slot[n]) == slot_fingerprint_of_hash(hash))
			return &b->slot[n];
	}
	fail_msg("%s is not there", key);
	return NULL;
}

const char *inspected_neighbour(struct inspected *i, const char *key)
{
	uint64_t hash = fake_hash(i->f, key);

	for (unsigned n = 0; n < INSPECTED_RECORDS; n++) {
		uint64_t other = fake_hash(i->f, inspected_key(n));

		if (hash_prefix(hash, INSPECTED_DEPTH) == hash_prefix(other, INSPECTED_DEPTH) &&
		    hash_bucket(hash) != hash_bucket(other))
			return inspected_key(n);
	}
	fail_msg("there is none");
	return NULL;
}

struct block *inspected_block(struct inspected *i, const char *key)
{
	uint64_t slot = *inspected_slot(i, key);

	return (struct block *)(i->f->extent[slot_extent(slot)] + slot_offset(slot));
}

void inspected_seal(struct block *b)
{
	b->checksum = block_checksum(b, block_body_hash(b));
}

struct bucket *inspected_chain(struct inspected *i, const char *key, unsigned n)
{
	uint64_t hash = fake_hash(i->f, key);
	struct bucket *b = fake_bucket(i->f, key);
	_Atomic uint64_t *slot = inspected_slot(i, key);
	uint64_t entry = i->f->dir->entry[hash_prefix(hash, i->f->dir->depth)];
	struct bucket *next = &fake_segment_of(i->f, entry)->overflow[n - 1];

	next->header = b->header;
	next->slot[0] = *slot;
	*slot = 0;
	b->header = bucket_header_make(bucket_header_incarnation(b->header),
				       bucket_header_prefix(b->header),
				       bucket_header_depth(b->header), false, n);
	return next;
}
