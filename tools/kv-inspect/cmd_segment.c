/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* segment and bucket: what stands in them. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/kv-inspect/decode.h"
#include "tools/kv-inspect/operands.h"
#include "tools/kv-inspect/reads.h"
#include "tools/kv-inspect/show.h"
#include "tools/kv-inspect/tool.h"

static const struct show_field entry_lines[] = {
	{ "hash", "hash", SHOW_PLAIN, "the segment is that of this one" },
	{ "prefix", "prefix", SHOW_PLAIN, "of all hashes that belong here" },
	{ "entry.word", "directory entry", SHOW_PLAIN, "the word" },
	{ "entry.extent", "extent", SHOW_PLAIN, "number in the extent table" },
	{ "entry.segment", "segment", SHOW_PLAIN, "its number in the extent" },
	{ "entry.local_depth", "local depth", SHOW_PLAIN, "bits of the prefix" },
	{ "entry.incarnation", "incarnation", SHOW_PLAIN, "lives of its address" },
	{ "address", "address", SHOW_PLAIN, "of its first bucket" },
	{ 0 },
};

static const struct show_field bucket_columns[] = {
	{ "bucket", ">bucket", SHOW_PLAIN, "" },
	{ "header.word", "header", SHOW_PLAIN, "" },
	{ "header.incarnation", ">incarnation", SHOW_PLAIN, "" },
	{ "header.prefix", "prefix", SHOW_PLAIN, "" },
	{ "header.moved", "moved", SHOW_IF, "" },
	{ "used", ">slots", SHOW_PLAIN, "" },
	{ "next", ">next", SHOW_PLAIN, "" },
	{ "fault", "header", SHOW_FAULT, "" },
	{ 0 },
};

static const struct show_field slot_columns[] = {
	{ "slot", ">slot", SHOW_PLAIN, "" },
	{ "word", "word", SHOW_PLAIN, "" },
	{ "fingerprint", ">fingerprint", SHOW_PLAIN, "" },
	{ "size_code", ">code", SHOW_PLAIN, "" },
	{ "read_bytes", ">bytes", SHOW_PLAIN, "" },
	{ "extent", ">extent", SHOW_PLAIN, "" },
	{ "offset", ">offset", SHOW_PLAIN, "" },
	{ "address", ">address", SHOW_PLAIN, "" },
	{ "fault", "place", SHOW_FAULT, "" },
	{ 0 },
};

int parse_segment(struct tool *t, struct error *err)
{
	uint64_t hash;
	unsigned depth;
	bool exact;

	return operand_segment(t->operand[0], &hash, &depth, &exact, err);
}

int parse_bucket(struct tool *t, struct error *err)
{
	unsigned depth, number;
	uint64_t hash;

	return operand_bucket(t->operand[0], &hash, &depth, &number, err);
}

/* Which overflow buckets a chain of the segment leads to, a bit each. */
static uint32_t linked(const struct segment_look *s)
{
	uint32_t seen = 0;

	for (unsigned i = 0; i < SEGMENT_BUCKETS; i++) {
		unsigned next = bucket_header_overflow(reads_header(&s->bucket[i]));

		while (next && next <= SEGMENT_OVERFLOW && !(seen >> (next - 1) & 1)) {
			seen |= 1u << (next - 1);
			next = bucket_header_overflow(
				reads_header(&s->bucket[SEGMENT_BUCKETS + next - 1]));
		}
	}
	return seen;
}

static json_t *bucket_json(const struct segment_look *s, unsigned i, const char *fault)
{
	const struct bucket *b = &s->bucket[i];
	uint64_t header = reads_header(b);
	unsigned next = bucket_header_overflow(header);

	return json_pack("{s:i, s:o, s:o, s:i, s:o, s:o}", "bucket", (int)i, "address",
			 decode_hex(s->addr + (uint64_t)i * BUCKET_BYTES), "header",
			 decode_header(header), "used", (int)reads_used(b), "next",
			 next ? json_integer(SEGMENT_BUCKETS + next - 1) : json_null(), "fault",
			 decode_text(fault));
}

/* An overflow bucket that no chain leads to is to be empty. */
static const char *judge_bucket(const struct segment_look *s, unsigned i, uint32_t reached,
				char text[JUDGE_TEXT])
{
	uint64_t header = reads_header(&s->bucket[i]);

	if (i < SEGMENT_BUCKETS || reached >> (i - SEGMENT_BUCKETS) & 1)
		return judge_header(header, s->entry, s->hash, text);
	if (!header && !reads_used(&s->bucket[i]))
		return NULL;
	return "no chain leads to it, and it is not empty";
}

/* Segment, its bits known: a prefix with fewer covers more than one. Returns whether it is good. */
static bool one_segment(struct tool *t, const struct segment_look *s, unsigned depth)
{
	unsigned has = directory_entry_depth(s->entry);
	char why[160];

	if (!s->placed || depth >= has)
		return true;
	snprintf(why, sizeof(why),
		 "the prefix has %u bits, the segment there has %u (give more; directory %s lists "
		 "them)",
		 depth, has, t->operand[0]);
	program_failed(t->program, t->operand[0], why);
	return false;
}

static json_t *look_json(const struct segment_look *s)
{
	char prefix[DECODE_PREFIX];
	unsigned depth = directory_entry_depth(s->entry);

	decode_prefix(prefix, depth <= DEPTH_MAX ? hash_prefix(s->hash, depth) : 0, depth);
	return json_pack("{s:o, s:s, s:o, s:o, s:b, s:b}", "hash", decode_word(s->hash), "prefix",
			 prefix, "entry", decode_entry(s->entry), "address",
			 s->placed ? decode_hex(s->addr) : json_null(), "placed", s->placed, "fits",
			 s->fits);
}

struct fill {
	unsigned main, overflow; /* slots used */
	unsigned linked; /* overflow buckets */
	unsigned least, most, longest; /* slots of a chain; buckets of one */
	unsigned bad;
};

/* One chain's buckets and slots. */
static void measure_chain(const struct segment_look *s, unsigned i, struct fill *f)
{
	unsigned buckets = 1, slots = reads_used(&s->bucket[i]);
	unsigned next = bucket_header_overflow(reads_header(&s->bucket[i]));

	while (next && next <= SEGMENT_OVERFLOW && buckets <= SEGMENT_OVERFLOW) {
		const struct bucket *b = &s->bucket[SEGMENT_BUCKETS + next - 1];

		slots += reads_used(b);
		buckets++;
		next = bucket_header_overflow(reads_header(b));
	}
	if (slots < f->least)
		f->least = slots;
	if (slots > f->most)
		f->most = slots;
	if (buckets > f->longest)
		f->longest = buckets;
}

static json_t *segment_rows(const struct segment_look *s, struct fill *f)
{
	uint32_t reached = linked(s);
	json_t *rows = json_array();
	char text[JUDGE_TEXT];

	*f = (struct fill){ .least = UINT32_MAX, .linked = (unsigned)__builtin_popcount(reached) };
	for (unsigned i = 0; i < SEGMENT_ALL; i++) {
		bool is_linked = i >= SEGMENT_BUCKETS && reached >> (i - SEGMENT_BUCKETS) & 1;
		const char *fault = judge_bucket(s, i, reached, text);

		f->bad += fault != NULL;
		if (i < SEGMENT_BUCKETS) {
			f->main += reads_used(&s->bucket[i]);
			measure_chain(s, i, f);
		} else if (is_linked) {
			f->overflow += reads_used(&s->bucket[i]);
		}
		if (i < SEGMENT_BUCKETS || is_linked || fault)
			json_array_append_new(rows, bucket_json(s, i, fault));
	}
	return rows;
}

static const char nowhere[] = "the directory's entry leads to no place that a segment can have";

int cmd_segment(struct tool *t)
{
	struct segment_look s = { 0 };
	unsigned depth = 0;
	struct fill f;
	json_t *rows;
	bool exact;
	int rc;

	operand_segment(t->operand[0], &s.hash, &depth, &exact, NULL);
	rc = inspect_settle(t->in, reads_segment, &s);
	if (rc < 0)
		return tool_failed(t, rc);
	if (!one_segment(t, &s, depth))
		return TOOL_USAGE;
	tool_set(t, "segment", look_json(&s));
	if (!t->json)
		show_lines(json_object_get(t->doc, "segment"), entry_lines);
	if (!s.placed) {
		if (!t->json)
			printf("\n%s\n", nowhere);
		return TOOL_NO;
	}
	rows = segment_rows(&s, &f);
	tool_set(t, "buckets", rows);
	tool_set(t, "fill",
		 json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f}", "slots",
			   (int)(SEGMENT_BUCKETS * BUCKET_SLOTS), "used", (int)f.main,
			   "overflow_buckets", (int)f.linked, "overflow_buckets_max",
			   (int)SEGMENT_OVERFLOW, "overflow_used", (int)f.overflow, "chain_least",
			   (int)f.least, "chain_most", (int)f.most, "longest_chain_buckets",
			   (int)f.longest, "fill_percent",
			   100.0 * (f.main + f.overflow) / (SEGMENT_BUCKETS * BUCKET_SLOTS)));
	if (!t->json) {
		printf("\n");
		show_rows(rows, bucket_columns);
		printf("\n%u of %u main slots used, %u in %u of %u overflow buckets: %.1f %% full\n"
		       "chains of %u to %u records, the longest of %u bucket%s\n",
		       f.main, SEGMENT_BUCKETS * BUCKET_SLOTS, f.overflow, f.linked,
		       SEGMENT_OVERFLOW,
		       100.0 * (f.main + f.overflow) / (SEGMENT_BUCKETS * BUCKET_SLOTS), f.least,
		       f.most, f.longest, f.longest == 1 ? "" : "s");
	}
	return f.bad ? TOOL_NO : TOOL_GOOD;
}

/* A bucket with the places of its slots. */
struct bucket_look {
	struct segment_look s;
	unsigned number;
	struct placed place[BUCKET_SLOTS];
};

static int look_at_bucket(struct inspect *in, void *arg)
{
	struct bucket_look *l = arg;
	int rc = reads_segment(in, &l->s);

	if (rc < 0 || !l->s.placed)
		return rc;
	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		uint64_t slot = reads_slot(&l->s.bucket[l->number], i);
		int failed = slot ? reads_place(in, slot, &l->place[i]) : 0;

		if (failed)
			return failed;
	}
	return rc;
}

/* Returns how many of its slots lead nowhere. */
static unsigned slot_rows(const struct bucket_look *l, json_t *rows)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		uint64_t slot = reads_slot(&l->s.bucket[l->number], i);
		json_t *o;

		if (!slot)
			continue;
		o = decode_slot(slot, &l->place[i]);
		json_object_set_new(o, "slot", json_integer(i));
		json_array_append_new(rows, o);
		bad += l->place[i].fault != NULL;
	}
	return bad;
}

int cmd_bucket(struct tool *t)
{
	struct bucket_look l = { 0 };
	unsigned depth = 0, bad;
	char text[JUDGE_TEXT];
	const char *fault;
	json_t *rows, *o;
	int rc;

	operand_bucket(t->operand[0], &l.s.hash, &depth, &l.number, NULL);
	rc = inspect_settle(t->in, look_at_bucket, &l);
	if (rc < 0)
		return tool_failed(t, rc);
	if (!one_segment(t, &l.s, depth))
		return TOOL_USAGE;
	tool_set(t, "segment", look_json(&l.s));
	if (!t->json)
		show_lines(json_object_get(t->doc, "segment"), entry_lines);
	if (!l.s.placed) {
		if (!t->json)
			printf("\n%s\n", nowhere);
		return TOOL_NO;
	}
	fault = judge_bucket(&l.s, l.number, linked(&l.s), text);
	o = json_array();
	json_array_append_new(o, bucket_json(&l.s, l.number, fault));
	tool_set(t, "bucket", json_incref(json_array_get(o, 0)));
	rows = json_array();
	bad = slot_rows(&l, rows);
	tool_set(t, "slots", rows);
	if (!t->json) {
		printf("\n");
		show_rows(o, bucket_columns);
		printf("\n");
		show_rows(rows, slot_columns);
		printf("\n%zu of %u slots used\n", json_array_size(rows), BUCKET_SLOTS);
	}
	json_decref(o);
	return fault || bad ? TOOL_NO : TOOL_GOOD;
}
