/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* check: what check_run() has found, for people and as JSON. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/kv-cli/text.h"
#include "tools/kv-inspect/check.h"
#include "tools/kv-inspect/decode.h"
#include "tools/kv-inspect/show.h"
#include "tools/kv-inspect/tool.h"
#include "tools/lib/progress.h"
#include "tools/lib/stop.h"

static const struct show_field depth_columns[] = {
	{ "local_depth", ">local depth", SHOW_PLAIN, "" },
	{ "segments", ">segments", SHOW_PLAIN, "" },
	{ "slots", ">slots", SHOW_PLAIN, "" },
	{ "used", ">used", SHOW_PLAIN, "" },
	{ "fill_percent", ">% full", SHOW_PLAIN, "" },
	{ "overflow_buckets", ">overflow buckets", SHOW_PLAIN, "" },
	{ "records", ">records", SHOW_PLAIN, "" },
	{ 0 },
};

static void progress(uint64_t done, uint64_t all)
{
	static uint64_t shown = UINT64_MAX;
	uint64_t percent = 100 * done / all;

	if (percent != shown)
		progress_show("checking segments", done, all);
	shown = percent;
}

static json_t *depth_rows(const struct check_totals *t)
{
	json_t *rows = json_array();

	for (unsigned i = 0; i <= DEPTH_MAX; i++) {
		const struct check_depth *d = &t->by_depth[i];

		if (!d->segments)
			continue;
		json_array_append_new(
			rows, json_pack("{s:i, s:o, s:o, s:o, s:f, s:o, s:o}", "local_depth",
					(int)i, "segments", decode_number(d->segments), "slots",
					decode_number(d->slots), "used", decode_number(d->used),
					"fill_percent",
					d->slots ? 100.0 * (double)d->used / (double)d->slots : 0.0,
					"overflow_buckets", decode_number(d->overflow), "records",
					decode_number(d->records)));
	}
	return rows;
}

static json_t *finding_rows(const struct findings *l, uint64_t max)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < l->count && (!max || i < max); i++) {
		const struct finding *f = &l->list[i];

		json_array_append_new(rows,
				      json_pack("{s:s, s:o, s:o, s:b, s:s}", "kind",
						finding_name(f->kind), "address",
						decode_hex(f->place), "word", decode_word(f->word),
						"certain", f->certain, "words", f->text));
	}
	return rows;
}

static json_t *kind_rows(const struct check_totals *t)
{
	json_t *rows = json_array();

	for (unsigned k = EXTENT_INDEX; k <= EXTENT_DATA; k++)
		json_array_append_new(rows, json_pack("{s:s, s:o, s:o}", "kind", decode_kind(k),
						      "extents", decode_number(t->extents[k]),
						      "bytes", decode_number(t->extent_bytes[k])));
	return rows;
}

static uint64_t sum_of(const struct check_totals *t, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i <= DEPTH_MAX; i++)
		sum += *(const uint64_t *)((const char *)&t->by_depth[i] + offset);
	return sum;
}

static json_t *totals_json(const struct check_totals *t)
{
	return json_pack(
		"{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o}",
		"directory_depth", (int)t->depth, "directory_entries", decode_number(t->entries),
		"segments", decode_number(sum_of(t, offsetof(struct check_depth, segments))),
		"slots", decode_number(sum_of(t, offsetof(struct check_depth, slots))), "used",
		decode_number(sum_of(t, offsetof(struct check_depth, used))), "overflow_buckets",
		decode_number(sum_of(t, offsetof(struct check_depth, overflow))), "records",
		decode_number(t->all.records), "record_bytes", decode_number(t->all.bytes),
		"records_expiring", decode_number(t->all.expiring), "records_expired",
		decode_number(t->all.expired), "longest_chain_buckets", (int)t->longest_chain,
		"read_bytes", decode_number(t->all.block_bytes), "by_kind", kind_rows(t));
}

static void print_totals(const struct check *c)
{
	const struct check_totals *t = &c->totals;
	char bytes[TEXT_SIZE_MAX];

	printf("server     incarnation 0x%016" PRIx64 ", epoch %" PRIu64 " to %" PRIu64 "\n",
	       c->root.server_incarnation, c->epoch_first, c->epoch_last);
	for (unsigned k = EXTENT_INDEX; k <= EXTENT_DATA; k++)
		printf("%s%s %" PRIu64 " (%s)", k == EXTENT_INDEX ? "extents    " : ", ",
		       decode_kind(k), t->extents[k], text_size_binary(bytes, t->extent_bytes[k]));
	printf("\ndirectory  depth %u, %" PRIu64 " entries, incarnation %u\n", t->depth, t->entries,
	       c->directory.entries ? c->directory.entries->incarnation : 0);
	printf("records    %" PRIu64 " of %s; %" PRIu64 " with an expiry, %" PRIu64
	       " whose time has come\n",
	       t->all.records, text_size_binary(bytes, t->all.bytes), t->all.expiring,
	       t->all.expired);
	printf("chains     the longest of %u bucket%s\n\n", t->longest_chain,
	       t->longest_chain == 1 ? "" : "s");
}

static void print_findings(const struct tool *t, const char *what, const struct findings *l)
{
	for (size_t i = 0; i < l->count && (!t->rows || i < t->rows); i++)
		printf("%s: %s: %s\n", what, finding_name(l->list[i].kind), l->list[i].text);
	if (t->rows && l->count > t->rows)
		tool_left_out(t, l->count - t->rows);
	if (l->more)
		printf("%s: %" PRIu64 " more, for which there was no room\n", what, l->more);
}

static void print(const struct tool *t, const struct check *c, const json_t *depths)
{
	print_totals(c);
	show_rows(depths, depth_columns);
	printf("\n");
	print_findings(t, "violation", &c->violations);
	print_findings(t, "open", &c->open);
	if (c->explained)
		printf("looked at again, and in the middle of a change: %" PRIu64 "\n",
		       c->explained);
	if (c->open.count)
		printf("open: %zu: %s\n", c->open.count,
		       c->interrupted ? "they were not looked at again"
		       : c->clock_still
			       ? "the server's clock stands still, so its threads do not run and "
				 "end no write"
			       : "they are written to all the time");
	printf("%zu violation%s%s\n", c->violations.count, c->violations.count == 1 ? "" : "s",
	       c->walked_all ? "" : "; not all was looked at");
}

int cmd_check(struct tool *t)
{
	struct check c = { .in = t->in, .progress = t->json ? NULL : progress };
	bool bad, complete;
	json_t *depths;
	int rc;

	stop_listen();
	rc = check_run(&c);
	progress_clear();
	if (rc < 0) {
		check_end(&c);
		return tool_failed(t, rc);
	}
	complete = c.walked_all && !c.interrupted;
	bad = c.violations.count > 0;
	depths = depth_rows(&c.totals);
	if (!t->json)
		print(t, &c, depths);
	tool_set(t, "totals", totals_json(&c.totals));
	tool_set(t, "by_depth", depths);
	tool_set(t, "epoch_first", decode_number(c.epoch_first));
	tool_set(t, "epoch_last", decode_number(c.epoch_last));
	tool_set(t, "violations", finding_rows(&c.violations, t->rows));
	tool_set(t, "violation_count", decode_number(c.violations.count + c.violations.more));
	tool_set(t, "open", finding_rows(&c.open, t->rows));
	tool_set(t, "explained", decode_number(c.explained));
	tool_set(t, "complete", json_boolean(complete));
	check_end(&c);
	if (bad || complete)
		return bad ? TOOL_NO : TOOL_GOOD;
	program_failed(t->program, "checking",
		       "it was interrupted, so that nothing is said of the rest (run it again)");
	return TOOL_FAILED;
}
