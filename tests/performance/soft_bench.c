/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * soft-bench: what soft0 costs beyond the copies of memory that it consists of.
 *
 * Two processes. The floor: memcpy() of blocks of 64 bytes, at random places of a file that both
 * have mapped. Against it READs of the same blocks in the same random order, through
 * ibv_post_send() and ibv_poll_cq(), in lists of 16 of which the last is signalled, and one by one.
 * Then READs of private memory of the other process, which the kernel copies: one by one, and in
 * lists; and, for information, lists of mapped WRITEs and of neighbours, atomics on private memory,
 * and a message there and back. Rounds go through all of them in turn, so that what disturbs the
 * machine disturbs all; medians of the rounds are compared.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/table.h"
#include "tools/lib/option_rows.h"
#include "tools/lib/samples.h"
#include "tests/performance/soft_kinds.h"

#define SELF "soft-bench"

struct options {
	uint64_t area, rounds, ops;
	bool json, check;
};

#define PROMISES 6u

struct bench {
	struct options o;
	struct soft_kinds k;
	struct spread time[KINDS], ratio[PROMISES]; /* of the rounds */
};

static struct bench bench = { .o = { .area = 64 << 20, .rounds = 9, .ops = 200000 } };

#define OPTION_BASE bench.o

static const struct program_option options[] = {
	SIZE("area", 'a', area, 1 << 20, 64ull << 30,
	     "memory of the other process, twice: mapped and private [64M]"),
	NUMBER("rounds", 'r', "N", rounds, 1, ROUNDS_MAX, "rounds that take turns, 1 to 99 [9]"),
	NUMBER("ops", 'n', "N", ops, SOFT_LIST, 100000000,
	       "copies a round; fewer of what is slower [200000]"),
	FLAG("check", 'c', check, "exit with 1 where a promised ratio is not kept"),
	OPTION_JSON(json),
	{ NULL },
};

static const struct program program = {
	.name = SELF,
	.usage = "Usage: " SELF " [OPTIONS]\n\n"
		 "What the software device soft0 costs beyond copies of memory, as ratios in one "
		 "run,\n"
		 "between this process and another one that it starts. This is not RDMA.\n\n",
	.notes = "\n"
		 "Example:\n  " SELF " --rounds 21 --check\n",
	.options = options,
};

static int die(const char *what, const char *why)
{
	return program_failed(&program, what, why);
}

/* What is promised. */
static const struct promise {
	const char *name, *key;
	unsigned of, over;
	bool most; /* at most @bound, else at least */
	double bound; /* 0: for information */
} promises[PROMISES] = {
	{ "mapped READ in lists / memcpy", "mapped_list_over_memcpy", MAPPED_LIST, MEMCPY, true,
	  6 },
	{ "mapped WRITE in lists / memcpy", "write_list_over_memcpy", WRITE_LIST, MEMCPY, false,
	  0 },
	{ "private READs, one by one / in lists", "private_over_private_list", PRIVATE,
	  PRIVATE_LIST, false, 0 },
	{ "  that of the kernel alone", "kernel_over_kernel_list", KERNEL, KERNEL_LIST, false, 0 },
	{ "  of neighbours", "private_over_neighbours", PRIVATE, PRIVATE_NEAR, false, 3 },
	{ "private READ in lists / kernel alone", "private_list_over_kernel_list", PRIVATE_LIST,
	  KERNEL_LIST, true, 1.5 },
};

static double promise_ratio(const struct bench *b, const struct promise *p)
{
	return b->time[p->of].median / b->time[p->over].median;
}

static bool promise_kept(const struct bench *b, const struct promise *p)
{
	double ratio = promise_ratio(b, p);

	return p->most ? ratio <= p->bound : ratio >= p->bound;
}

static void promise_print(const struct bench *b, const struct promise *p)
{
	printf("%-38s %6.2f", p->name, promise_ratio(b, p));
	if (p->bound > 0)
		printf("  (promised: at %s %g%s)", p->most ? "most" : "least", p->bound,
		       promise_kept(b, p) ? "" : "; NOT KEPT");
	putchar('\n');
}

static void report_table(const struct bench *b)
{
	static const char *const head[] = { "operation", ">ns min", ">ns median",
					    ">ns max",	 ">Kops/s", NULL };
	struct table *t = table_new(head);

	for (unsigned k = 0; k < KINDS; k++) {
		table_cell(t, "%s", soft_kind[k].name);
		table_cell(t, "%.0f", b->time[k].min);
		table_cell(t, "%.0f", b->time[k].median);
		table_cell(t, "%.0f", b->time[k].max);
		table_cell(t, "%.0f", 1e6 / b->time[k].median);
	}
	printf(SELF " %s: blocks of %d B at random places of %" PRIu64 " MiB, %" PRIu64
		    " rounds of %" PRIu64 "\n\n",
	       GRACEKV_VERSION, SOFT_BLOCK, (uint64_t)(b->o.area >> 20), b->o.rounds, b->o.ops);
	table_print(t, stdout);
	putchar('\n');
	for (unsigned i = 0; i < PROMISES; i++)
		promise_print(b, &promises[i]);
	puts("\nThese are copies of memory on one machine. They say nothing about RDMA.");
}

static void report_json(const struct bench *b)
{
	json_t *doc = program_json(&program);

	json_object_update_new(doc, json_pack("{s:b, s:I, s:i, s:I, s:I}", "software_device", 1,
					      "area_bytes", (json_int_t)b->o.area, "block_bytes",
					      SOFT_BLOCK, "rounds", (json_int_t)b->o.rounds, "ops",
					      (json_int_t)b->o.ops));
	for (unsigned k = 0; k < KINDS; k++)
		json_object_set_new(doc, soft_kind[k].key, json_real(b->time[k].median));
	for (unsigned i = 0; i < PROMISES; i++) {
		const struct promise *p = &promises[i];
		json_t *one = json_pack("{s:f, s:o}", "ratio", promise_ratio(b, p),
					"ratio_by_rounds", program_spread(&b->ratio[i]));

		if (p->bound > 0) {
			json_object_set_new(one, "promised",
					    json_string(p->most ? "at most" : "at least"));
			json_object_set_new(one, "bound", json_real(p->bound));
			json_object_set_new(one, "kept", json_boolean(promise_kept(b, p)));
		}
		json_object_set_new(doc, p->key, one);
	}
	program_print(doc, JSON_INDENT(2));
}

/* Ratios of each round while the times still stand by rounds. */
static void work_out(struct bench *b)
{
	double v[ROUNDS_MAX];

	for (unsigned i = 0; i < PROMISES; i++)
		b->ratio[i] = samples_ratios(b->k.ns[promises[i].of], b->k.ns[promises[i].over], v,
					     b->o.rounds);
	for (unsigned k = 0; k < KINDS; k++)
		b->time[k] = samples_spread(b->k.ns[k], b->o.rounds);
}

static int report(struct bench *b)
{
	int status = 0;

	work_out(b);
	if (b->o.json)
		report_json(b);
	else
		report_table(b);
	for (unsigned i = 0; i < PROMISES && b->o.check; i++) {
		if (!promise_kept(b, &promises[i]))
			status = 1;
	}
	return status;
}

int main(int argc, char **argv)
{
	struct bench *b = &bench;
	struct error err = { 0 };
	unsigned kind;
	int status, rc;

	if (argc == 4 && strcmp(argv[1], "--other") == 0)
		return soft_other_main(atoi(argv[2]), strtoull(argv[3], NULL, 10));
	if (program_options(&program, argc, argv, &status))
		return status;
	if (getenv("SOFTRDMA_WEAK") || getenv("SOFTRDMA_FAULT"))
		return die("nothing to measure",
			   "SOFTRDMA_WEAK or SOFTRDMA_FAULT is set (unset both)");
	if (soft_end_open(&b->k.end, &err) ||
	    soft_other_start(&b->k.other, &b->k.end, b->o.area, &err)) {
		status = die("starting", err.text);
	} else {
		b->k.rounds = b->o.rounds;
		b->k.ops = b->o.ops;
		rc = soft_kinds_measure(&b->k, &kind);
		status = rc ? die(soft_kind[kind].name, error_name(rc)) : 0;
	}
	if (status == 0)
		status = report(b);
	if (soft_other_stop(&b->k.other) && status == 0)
		status = die("the other process", "it did not end in order");
	soft_end_close(&b->k.end);
	return program_end(&program, status);
}
