/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* directory: its entries, of which those that name one segment are one row. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "tools/kv-inspect/decode.h"
#include "tools/kv-inspect/operands.h"
#include "tools/kv-inspect/reads.h"
#include "tools/kv-inspect/show.h"
#include "tools/kv-inspect/tool.h"

static const struct show_field columns[] = {
	{ "prefix", "prefix", SHOW_PLAIN, "" },
	{ "entries", ">entries", SHOW_PLAIN, "" },
	{ "local_depth", ">local depth", SHOW_PLAIN, "" },
	{ "incarnation", ">incarnation", SHOW_PLAIN, "" },
	{ "extent", ">extent", SHOW_PLAIN, "" },
	{ "segment", ">segment", SHOW_PLAIN, "" },
	{ "address", ">address", SHOW_PLAIN, "" },
	{ "fault", "entry", SHOW_FAULT, "" },
	{ 0 },
};

static const struct show_field sum_columns[] = {
	{ "local_depth", ">local depth", SHOW_PLAIN, "" },
	{ "segments", ">segments", SHOW_PLAIN, "" },
	{ "entries", ">entries", SHOW_PLAIN, "" },
	{ 0 },
};

static const struct show_field lines[] = {
	{ "address", "address", SHOW_PLAIN, "where the directory stands" },
	{ "extent", "extent", SHOW_PLAIN, "number in the extent table" },
	{ "offset", "offset", SHOW_PLAIN, "bytes from the extent's start" },
	{ "depth", "depth", SHOW_PLAIN, "2^depth entries" },
	{ "incarnation", "incarnation", SHOW_PLAIN, "counts directories of this server" },
	{ "checksum", "checksum", SHOW_PLAIN, "of its header" },
	{ "fault", "header", SHOW_FAULT, "against itself and root" },
	{ 0 },
};

struct listing {
	struct tool *t;
	const struct dir_cache *d;
	json_t *rows;
	uint64_t left_out;
	unsigned bad;
	uint64_t segments[DEPTH_MAX + 1], entries[DEPTH_MAX + 1];
};

int parse_directory(struct tool *t, struct error *err)
{
	struct operand_prefix prefix;

	return t->operands ? operand_prefix(t->operand[0], &prefix, err) : 0;
}

/* Where to look for extents that the reader does not know yet. */
struct known_look {
	unsigned number;
	struct extent room;
	const struct extent *x;
};

static int look_at_extent(struct inspect *in, void *arg)
{
	struct known_look *k = arg;

	return reads_known(in, k->number, &k->room, &k->x);
}

static int list_run(struct listing *l, uint64_t first, uint64_t count, unsigned shown)
{
	uint64_t entry = judge_entry_at(l->d, first);
	struct known_look k = { .number = directory_entry_extent(entry) };
	unsigned depth = directory_entry_depth(entry);
	char text[JUDGE_TEXT], prefix[DECODE_PREFIX];
	const char *fault;
	int rc = inspect_section(l->t->in, look_at_extent, &k);
	json_t *o;

	if (rc)
		return rc;
	fault = judge_run(l->d, first, count, k.x, text);
	l->bad += fault != NULL;
	if (depth <= DEPTH_MAX) {
		l->segments[depth]++;
		l->entries[depth] += count;
	}
	if (l->t->rows && json_array_size(l->rows) >= l->t->rows) {
		l->left_out++;
		return 0;
	}
	o = decode_entry(entry);
	if (!o)
		return -ENOMEM;
	decode_prefix(prefix, (uint32_t)(first >> (l->d->depth - shown)), shown);
	json_object_set_new(o, "prefix", json_string(prefix));
	json_object_set_new(o, "first", decode_number(first));
	json_object_set_new(o, "entries", decode_number(count));
	json_object_set_new(o, "address",
			    k.x ? decode_hex(k.x->addr + (uint64_t)directory_entry_segment(entry) *
								 SEGMENT_BYTES)
				: json_null());
	json_object_set_new(o, "fault", decode_text(fault));
	return json_array_append_new(l->rows, o) ? -ENOMEM : 0;
}

/* Of entries that have local depth @depth, the bits that their prefix is shown with. */
static unsigned shown_bits(const struct listing *l, uint64_t first, uint64_t count)
{
	unsigned depth = directory_entry_depth(judge_entry_at(l->d, first));
	uint64_t span = depth <= l->d->depth ? 1ull << (l->d->depth - depth) : 0;

	return span && first % span == 0 && count == span ? depth : l->d->depth;
}

/* Runs that overlap the entries from @from to @to. */
static int list(struct listing *l, uint64_t from, uint64_t to)
{
	uint64_t first = from, count;
	int rc = 0;

	while (first && judge_entry_at(l->d, first - 1) == judge_entry_at(l->d, first))
		first--;
	for (; first <= to && rc == 0; first += count) {
		count = judge_run_length(l->d, first);
		rc = list_run(l, first, count, shown_bits(l, first, count));
	}
	return rc;
}

static json_t *sums(const struct listing *l)
{
	json_t *array = json_array();

	for (unsigned i = 0; i <= DEPTH_MAX; i++) {
		if (l->segments[i])
			json_array_append_new(array,
					      json_pack("{s:i, s:o, s:o}", "local_depth", (int)i,
							"segments", decode_number(l->segments[i]),
							"entries", decode_number(l->entries[i])));
	}
	return array;
}

static json_t *directory_json(const struct directory_look *d)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "address",
			 d->addr ? decode_hex(d->addr) : json_null(), "extent",
			 decode_number(d->at.extent), "offset", decode_hex(d->at.offset), "depth",
			 decode_number(d->at.depth), "incarnation",
			 decode_number(d->at.incarnation), "checksum",
			 decode_word(d->header.checksum), "fault", decode_text(d->fault));
}

/* The entries of @prefix; all of one, where it is deeper than the directory. */
static int list_prefix(struct listing *l, struct operand_prefix prefix)
{
	unsigned depth = l->d->depth;
	uint64_t first = hash_prefix(operand_first(prefix), depth);
	uint64_t count = prefix.depth < depth ? 1ull << (depth - prefix.depth) : 1;

	return list(l, first, first + count - 1);
}

int cmd_directory(struct tool *t)
{
	struct directory_look d = { 0 };
	struct listing l = { .t = t, .rows = json_array() };
	struct operand_prefix prefix = { 0 };
	json_t *array;
	int rc = inspect_settle(t->in, reads_directory, &d);

	if (t->operands)
		operand_prefix(t->operand[0], &prefix, NULL);
	tool_set(t, "directory", directory_json(&d));
	l.d = d.entries;
	if (rc == 0)
		rc = list_prefix(&l, prefix);
	dir_put(d.entries);
	if (rc < 0) {
		json_decref(l.rows);
		return tool_failed(t, rc);
	}
	array = sums(&l);
	if (!t->json) {
		show_lines(json_object_get(t->doc, "directory"), lines);
		printf("\n");
		show_rows(l.rows, columns);
		tool_left_out(t, l.left_out);
		printf("\n");
		show_rows(array, sum_columns);
	}
	tool_set(t, "entries", l.rows);
	tool_set(t, "left_out", decode_number(l.left_out));
	tool_set(t, "by_depth", array);
	return d.fault || l.bad ? TOOL_NO : TOOL_GOOD;
}
