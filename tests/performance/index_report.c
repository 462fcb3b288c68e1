/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/performance/index_bench.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/table.h"
#include "common/layout/block.h"
#include "tools/lib/samples.h"

#define PAUSE_MAX_MS	 5.0
#define RECORD_BYTES_MAX 72.0 /* header and index */

static double median(const struct index_bench *b, unsigned phase, unsigned side)
{
	return samples_median(b->ns[phase][side], b->o.rounds);
}

static double ratio(const struct index_bench *b, unsigned phase)
{
	return median(b, phase, THEIRS) / median(b, phase, OURS);
}

/* How many times as fast as theirs; 0: for information. */
static const double promised_ratio[INDEX_PHASES] = {
	[PHASE_INSERT] = 2,
	[PHASE_HIT] = 3,
	[PHASE_DELETE] = 2,
};

static bool ratio_kept(const struct index_bench *b, unsigned phase)
{
	return ratio(b, phase) >= promised_ratio[phase];
}

static double pause_ms(const struct index_bench *b, unsigned phase)
{
	return (double)histogram_at(&b->times[phase][OURS], 0.999) / 1e6;
}

static bool pause_promised(unsigned phase)
{
	return phase == PHASE_INSERT_1 || phase == PHASE_INSERT_N;
}

/* Beside the block's own: what a record costs. */
struct record_cost {
	double used, committed, heap, total;
};

static struct record_cost record_cost(const struct index_bench *b)
{
	double n = (double)(b->bytes.records ? b->bytes.records : 1);
	struct record_cost c = {
		.used = (double)b->bytes.index_used / n,
		.committed = (double)b->bytes.index_committed / n,
		.heap = (double)b->heap[OURS] / n,
	};

	c.total = BLOCK_HEADER_BYTES + c.committed + c.heap;
	return c;
}

static bool all_kept(const struct index_bench *b)
{
	bool kept = record_cost(b).total <= RECORD_BYTES_MAX;

	for (unsigned p = 0; p < INDEX_PHASES; p++)
		kept = kept && ratio_kept(b, p) &&
		       (!pause_promised(p) || pause_ms(b, p) < PAUSE_MAX_MS);
	return kept;
}

static void table_speed(const struct index_bench *b)
{
	static const char *const head[] = { "operation",  "table",    ">ns min",
					    ">ns median", ">ns max",  ">Mops/s",
					    ">ratio",	  "promised", NULL };
	struct table *t = table_new(head);

	for (unsigned p = 0; p < INDEX_PHASES; p++) {
		for (unsigned s = 0; s < INDEX_SIDES && !index_phase[p].timed; s++) {
			table_cell(t, "%s", s == OURS ? index_phase[p].name : "");
			table_cell(t, "%s", index_side[s]->name);
			table_cell(t, "%.1f", b->ns[p][s][0]);
			table_cell(t, "%.1f", median(b, p, s));
			table_cell(t, "%.1f", b->ns[p][s][b->o.rounds - 1]);
			table_cell(t, "%.2f", 1e3 / median(b, p, s));
			if (s == OURS)
				table_cell(t, "%.2f", ratio(b, p));
			else
				table_cell(t, "%s", "");
			if (s == OURS && promised_ratio[p] > 0)
				table_cell(t, "at least %g%s", promised_ratio[p],
					   ratio_kept(b, p) ? "" : "; NOT KEPT");
			else
				table_cell(t, "%s", "");
		}
	}
	table_print(t, stdout);
}

static void table_pauses(const struct index_bench *b)
{
	static const char *const head[] = { "each timed", "table",  ">us p50",	">p99", ">p99.9",
					    ">max",	  ">ratio", "promised", NULL };
	struct table *t = table_new(head);

	for (unsigned p = 0; p < INDEX_PHASES; p++) {
		for (unsigned s = 0; s < INDEX_SIDES && index_phase[p].timed; s++) {
			const struct histogram *h = &b->times[p][s];

			table_cell(t, "%s", s == OURS ? index_phase[p].name : "");
			table_cell(t, "%s", index_side[s]->name);
			table_cell(t, "%.2f", (double)histogram_at(h, 0.5) / 1e3);
			table_cell(t, "%.2f", (double)histogram_at(h, 0.99) / 1e3);
			table_cell(t, "%.2f", (double)histogram_at(h, 0.999) / 1e3);
			table_cell(t, "%.0f", (double)h->max_ns / 1e3);
			if (s == OURS)
				table_cell(t, "%.2f", ratio(b, p));
			else
				table_cell(t, "%s", "");
			if (s == OURS && pause_promised(p))
				table_cell(t, "p99.9 below %g ms%s", PAUSE_MAX_MS,
					   pause_ms(b, p) < PAUSE_MAX_MS ? "" : "; NOT KEPT");
			else
				table_cell(t, "%s", "");
		}
	}
	table_print(t, stdout);
}

static void text_memory(const struct index_bench *b)
{
	struct record_cost c = record_cost(b);
	const char *const parts[INDEX_BACKINGS] = { "GraceKV's extents", "cds_lfht's records",
						    "cds_lfht's buckets, and heap" };

	printf("bytes a record: header %u + extents of the index %.1f + heap %.2f = %.1f (promised: at "
	       "most %g%s)\n",
	       BLOCK_HEADER_BYTES, c.committed, c.heap, c.total, RECORD_BYTES_MAX,
	       c.total <= RECORD_BYTES_MAX ? "" : "; NOT KEPT");
	printf("  index: %" PRIu64 " MiB committed; in use %" PRIu64
	       " MiB, %.1f a record: depth %u, %.0f %% of its slots full\n",
	       b->bytes.index_committed >> 20, b->bytes.index_used >> 20, c.used, b->bytes.depth,
	       100 * b->bytes.fill);
	printf("  left out: rounding of a block to 64 B, here %" PRIu64 " of %" PRIu64 " B\n",
	       b->bytes.block_rounding, b->bytes.block);
	printf("  cds_lfht: node 16 + heap %.1f = %.1f\n\n",
	       (double)b->heap[THEIRS] / (double)b->o.records,
	       16 + (double)b->heap[THEIRS] / (double)b->o.records);
	if (!b->hugepages)
		printf("No hugepages: %" PRIu64 " of 2 MiB are free, %" PRIu64
		       " are needed for both sides (echo %" PRIu64
		       " > /proc/sys/vm/nr_hugepages as root).\n",
		       b->hugepages_free, b->hugepages_needed, b->hugepages_needed);
	printf("on hugepages:");
	for (unsigned i = 0; i < INDEX_BACKINGS; i++)
		printf("%s %s %" PRIu64 " of %" PRIu64 " MiB", i ? "," : "", parts[i],
		       b->backing[i].huge >> 20, b->backing[i].bytes >> 20);
	putchar('\n');
}

static void report_table(const struct index_bench *b)
{
	printf("index-bench %s: %" PRIu64 " records, keys of %u B, values of %" PRIu64
	       " B, %" PRIu64 " look-ups, %" PRIu64 " rounds\nGraceKV: keys known %" PRIu64
	       " at a time; %" PRIu64
	       " writers where there are several\ncds_lfht of liburcu %s: tables by %s, grows by %s\n%s\n",
	       GRACEKV_VERSION, b->o.records, INDEX_KEY_LEN, b->o.value_len, b->o.lookups,
	       b->o.rounds, b->o.group, b->o.writers, LIBURCU_VERSION, b->o.table,
	       b->o.bound ? "the length of its chains, to as many buckets as records"
			  : "the number of its records",
	       b->o.cpu ? "CPU time of the threads, without what they waited\n" : "");
	table_speed(b);
	putchar('\n');
	if (!b->o.quick) {
		table_pauses(b);
		putchar('\n');
	}
	text_memory(b);
}

static json_t *json_side(const struct index_bench *b, unsigned phase, unsigned side)
{
	const double *ns = b->ns[phase][side];
	const struct histogram *h = &b->times[phase][side];
	json_t *one = json_pack("{s:f, s:f, s:f}", "ns_min", ns[0], "ns_median",
				median(b, phase, side), "ns_max", ns[b->o.rounds - 1]);

	if (index_phase[phase].timed)
		json_object_update_new(one, json_pack("{s:I, s:I, s:I, s:I}", "ns_p50",
						      (json_int_t)histogram_at(h, 0.5), "ns_p99",
						      (json_int_t)histogram_at(h, 0.99), "ns_p999",
						      (json_int_t)histogram_at(h, 0.999),
						      "ns_longest", (json_int_t)h->max_ns));
	return one;
}

static json_t *json_phase(const struct index_bench *b, unsigned p)
{
	json_t *one = json_pack("{s:f, s:o}", "ratio", ratio(b, p), "ratio_by_rounds",
				program_spread(&b->ratio[p]));

	for (unsigned s = 0; s < INDEX_SIDES; s++)
		json_object_set_new(one, index_side[s]->key, json_side(b, p, s));
	if (promised_ratio[p] > 0)
		json_object_update_new(one, json_pack("{s:f, s:b}", "promised", promised_ratio[p],
						      "kept", ratio_kept(b, p)));
	if (pause_promised(p))
		json_object_update_new(one,
				       json_pack("{s:f, s:b}", "promised_p999_ms", PAUSE_MAX_MS,
						 "kept", pause_ms(b, p) < PAUSE_MAX_MS));
	return one;
}

static json_t *json_memory(const struct index_bench *b)
{
	static const char *const parts[INDEX_BACKINGS] = { "gracekv_extents", "cds_lfht_records",
							   "heap" };
	struct record_cost c = record_cost(b);
	json_t *doc = json_pack(
		"{s:i, s:f, s:f, s:f, s:f, s:f, s:b, s:I, s:I, s:i, s:f, s:f}", "header_bytes",
		(int)BLOCK_HEADER_BYTES, "index_bytes_used", c.used, "index_bytes_committed",
		c.committed, "heap_bytes", c.heap, "bytes", c.total, "promised", RECORD_BYTES_MAX,
		"kept", c.total <= RECORD_BYTES_MAX, "block_bytes", (json_int_t)b->bytes.block,
		"block_rounding_bytes", (json_int_t)b->bytes.block_rounding, "index_depth",
		(int)b->bytes.depth, "index_fill", b->bytes.fill, "cds_lfht_bytes",
		16 + (double)b->heap[THEIRS] / (double)b->o.records);
	json_t *huge = json_pack("{s:b, s:I, s:I}", "reserved", b->hugepages, "needed",
				 (json_int_t)b->hugepages_needed, "free_at_start",
				 (json_int_t)b->hugepages_free);

	for (unsigned i = 0; i < INDEX_BACKINGS; i++)
		json_object_set_new(huge, parts[i],
				    json_pack("{s:I, s:I}", "bytes",
					      (json_int_t)b->backing[i].bytes, "huge_bytes",
					      (json_int_t)b->backing[i].huge));
	return json_pack("{s:o, s:o}", "a_record", doc, "hugepages", huge);
}

static void report_json(const struct index_bench *b)
{
	json_t *doc = program_json(&index_program);

	json_object_update_new(
		doc,
		json_pack("{s:s, s:s, s:I, s:i, s:I, s:I, s:I, s:I}", "liburcu", LIBURCU_VERSION,
			  "cds_lfht_table", b->o.table, "records", (json_int_t)b->o.records,
			  "key_bytes", (int)INDEX_KEY_LEN, "value_bytes",
			  (json_int_t)b->o.value_len, "lookups", (json_int_t)b->o.lookups, "rounds",
			  (json_int_t)b->o.rounds, "writers", (json_int_t)b->o.writers));
	for (unsigned p = 0; p < INDEX_PHASES && !(b->o.quick && index_phase[p].timed); p++)
		json_object_set_new(doc, index_phase[p].key, json_phase(b, p));
	json_object_update_new(doc, json_memory(b));
	program_print(doc, JSON_INDENT(2));
}

bool index_report(const struct index_bench *b)
{
	if (b->o.json)
		report_json(b);
	else
		report_table(b);
	return all_kept(b);
}
