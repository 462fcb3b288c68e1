/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* root and extents: the two tables by which everything else is found. */
#include <stdlib.h>

#include "common/base/cleanup.h"
#include "tools/kv-cli/units.h"
#include "tools/kv-inspect/decode.h"
#include "tools/kv-inspect/reads.h"
#include "tools/kv-inspect/show.h"
#include "tools/kv-inspect/tool.h"

static const struct show_field root_lines[] = {
	{ "address", "root address", SHOW_PLAIN, "where the page of 4096 bytes stands" },
	{ "rkey", "root rkey", SHOW_PLAIN, "key for READs of it" },
	{ "magic", "magic", SHOW_PLAIN, "\"GKVROOT1\"" },
	{ "layout_version", "layout version", SHOW_PLAIN, "of the structures in memory" },
	{ "layout_version_ours", "  ours", SHOW_PLAIN, "of this program" },
	{ "layout_hash", "layout hash", SHOW_PLAIN, "over all sizes, offsets and constants" },
	{ "layout_hash_ours", "  ours", SHOW_PLAIN, "of this program" },
	{ "segment_buckets", "segment buckets", SHOW_PLAIN, "main buckets of a segment" },
	{ "server_incarnation", "server incarnation", SHOW_PLAIN, "new with each start" },
	{ "hash_seed", "hash seed", SHOW_PLAIN, "of the keys' XXH3" },
	{ "fault", "  page", SHOW_FAULT, "what is above, against this program and the connection" },
	{ "directory.extent", "directory extent", SHOW_PLAIN, "number in the extent table" },
	{ "directory.offset", "directory offset", SHOW_PLAIN, "bytes from the extent's start" },
	{ "directory.depth", "directory depth", SHOW_PLAIN, "2^depth entries" },
	{ "directory.incarnation", "directory incarnation", SHOW_PLAIN,
	  "counts directories of this server" },
	{ "directory.checksum", "directory checksum", SHOW_PLAIN, "of this descriptor" },
	{ "directory.fault", "  descriptor", SHOW_FAULT, "checksum, and whether it can be there" },
	{ "extent_table.address", "extent table address", SHOW_PLAIN, "32 bytes an entry" },
	{ "extent_table.rkey", "extent table rkey", SHOW_PLAIN, "key for READs of it" },
	{ "extent_table.entries", "extent table entries", SHOW_PLAIN, "room for so many" },
	{ "extent_table.checksum", "extent table checksum", SHOW_PLAIN, "of this descriptor" },
	{ "extent_table.fault", "  descriptor", SHOW_FAULT, "checksum, and whether it can be" },
	{ "epoch", "epoch", SHOW_PLAIN, "E: grows with each remote grace period" },
	{ "hint_floor", "hint floor", SHOW_PLAIN, "clients are to drop hints from before it" },
	{ "clock_ms", "clock", SHOW_PLAIN, "the server's, ms since 1970, at most 100 ms old" },
	{ "clock", "  as a date", SHOW_PLAIN, "UTC" },
	{ 0 },
};

struct root_look {
	struct root root;
	const struct extent *directory; /* NULL: there is none */
	struct extent room;
};

static int look_at_root(struct inspect *in, void *arg)
{
	struct root_look *l = arg;
	char text[JUDGE_TEXT];
	int rc = reads_root(in, &l->root);

	l->directory = NULL;
	if (rc)
		return rc;
	if (judge_root_extents(&l->root.extents, text))
		return INSPECT_AGAIN;
	world_set_root(in->r->world, &l->root);
	rc = reads_known(in, l->root.directory.extent, &l->room, &l->directory);
	if (rc)
		return rc;
	return judge_root_directory(&l->root.directory, l->directory, text) ? INSPECT_AGAIN : 0;
}

static json_t *directory_json(const struct root_directory *d, const char *fault)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "extent", decode_number(d->extent),
			 "offset", decode_hex(d->offset), "depth", decode_number(d->depth),
			 "incarnation", decode_number(d->incarnation), "checksum",
			 decode_word(d->checksum), "checksum_good", root_directory_sound(d),
			 "fault", decode_text(fault));
}

static json_t *table_json(const struct root_extents *x, const char *fault)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:b, s:o}", "address", decode_hex(x->addr), "rkey",
			 decode_hex(x->rkey), "entries", decode_number(x->entries), "checksum",
			 decode_word(x->checksum), "checksum_good", root_extents_sound(x), "fault",
			 decode_text(fault));
}

static json_t *root_json(const struct tool *t, const struct root_look *l, const char *fault,
			 json_t *directory, json_t *table)
{
	const struct world *w = t->in->r->world;
	const struct root *root = &l->root;
	/* relaxed: a private copy */
	uint64_t clock_ms = atomic_load_explicit(&root->clock_ms, memory_order_relaxed);
	char clock[UNITS_TIME_MAX];

	return json_pack(
		"{s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
		"s:s}",
		"address", decode_hex(w->root_addr), "rkey", decode_hex(w->root_rkey), "magic",
		decode_word(root->magic), "layout_version", decode_number(root->layout_version),
		"layout_version_ours", LAYOUT_VERSION, "layout_hash",
		decode_word(root->layout_hash), "layout_hash_ours", decode_word(layout_hash()),
		"segment_buckets", decode_number(root->segment_buckets), "server_incarnation",
		decode_word(root->server_incarnation), "hash_seed", decode_word(root->hash_seed),
		"fault", decode_text(fault), "directory", directory, "extent_table", table, "epoch",
		decode_number(atomic_load_explicit(&root->epoch, memory_order_relaxed)),
		"hint_floor",
		decode_number(atomic_load_explicit(&root->hint_floor, memory_order_relaxed)),
		"clock_ms", decode_number(clock_ms), "clock",
		clock_ms ? units_time(clock, clock_ms) : "not written yet");
}

int cmd_root(struct tool *t)
{
	char page[JUDGE_TEXT], place[JUDGE_TEXT], table[JUDGE_TEXT];
	const char *page_fault, *place_fault, *table_fault;
	struct root_look l;
	json_t *o;
	int rc = inspect_settle(t->in, look_at_root, &l);

	if (rc < 0)
		return tool_failed(t, rc);
	page_fault = judge_root(&l.root, t->in->incarnation, page);
	table_fault = judge_root_extents(&l.root.extents, table);
	place_fault = judge_root_directory(&l.root.directory, l.directory, place);
	o = root_json(t, &l, page_fault, directory_json(&l.root.directory, place_fault),
		      table_json(&l.root.extents, table_fault));
	if (!o)
		return tool_no_memory(t);
	if (!t->json)
		show_lines(o, root_lines);
	tool_set(t, "root", o);
	return page_fault || table_fault || place_fault ? TOOL_NO : TOOL_GOOD;
}

static const struct show_field extent_columns[] = {
	{ "number", ">extent", SHOW_PLAIN, "" },
	{ "kind", "kind", SHOW_PLAIN, "" },
	{ "address", ">address", SHOW_PLAIN, "" },
	{ "end", ">end", SHOW_PLAIN, "" },
	{ "bytes", ">size", SHOW_SIZE, "" },
	{ "rkey", ">rkey", SHOW_PLAIN, "" },
	{ "checksum", "checksum", SHOW_PLAIN, "" },
	{ "fault", "entry", SHOW_FAULT, "" },
	{ 0 },
};

/* Until all of them are sound. */
static int look_at_table(struct inspect *in, void *arg)
{
	struct table_look *l = arg;
	char text[JUDGE_TEXT];
	int rc = reads_table(in, l);

	for (uint32_t i = 0; i < l->count && rc == 0; i++)
		rc = judge_extent(&l->entry[i], text) ? INSPECT_AGAIN : 0;
	return rc;
}

static bool is_empty(const struct extent_entry *e)
{
	char text[JUDGE_TEXT];

	return !e->kind && !judge_extent(e, text);
}

int cmd_extents(struct tool *t)
{
	static const char *const kinds[] = { "index", "dir", "data" };
	autofree struct table_look *l = malloc(sizeof(*l));
	uint64_t bytes[EXTENT_DATA + 1] = { 0 };
	unsigned count[EXTENT_DATA + 1] = { 0 }, bad = 0;
	char text[JUDGE_TEXT], room[SHOW_MAX];
	json_t *rows = json_array(), *sums = json_array();
	int rc;

	if (!l)
		return tool_no_memory(t);
	rc = inspect_settle(t->in, look_at_table, l);
	if (rc < 0) {
		json_decref(rows);
		json_decref(sums);
		return tool_failed(t, rc);
	}
	for (uint32_t i = 0; i < l->count; i++) {
		const struct extent_entry *e = &l->entry[i];

		if (is_empty(e))
			continue;
		json_array_append_new(rows, decode_extent(i, e));
		if (judge_extent(e, text)) {
			bad++;
			continue;
		}
		bytes[e->kind] += e->length;
		count[e->kind]++;
	}
	for (unsigned k = EXTENT_INDEX; k <= EXTENT_DATA; k++)
		json_array_append_new(sums,
				      json_pack("{s:s, s:i, s:o}", "kind", kinds[k - 1], "extents",
						(int)count[k], "bytes", decode_number(bytes[k])));
	if (!t->json) {
		show_rows(rows, extent_columns);
		printf("\n");
		for (size_t i = 0; i < json_array_size(sums); i++) {
			const json_t *o = json_array_get(sums, i);

			printf("%-6s %4u extents  %10s\n", kinds[i], count[i + 1],
			       show_text(o, "bytes", SHOW_SIZE, room));
		}
	}
	tool_set(t, "extents", rows);
	tool_set(t, "kinds", sums);
	tool_set(t, "entries", json_integer(l->count));
	return bad ? TOOL_NO : TOOL_GOOD;
}
