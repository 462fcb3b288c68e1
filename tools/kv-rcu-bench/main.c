/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * kv-rcu-bench: ways of reclaiming memory under readers, against each other.
 *
 * Readers follow a shared pointer and read the object; updaters allocate a new object, exchange
 * the pointer and hand the old object to the strategy, then pause. A row for each strategy says
 * how many updates there were at each pause, how many reads, how long grace periods took, and how
 * long an update did. Objects are marked before they are freed, and readers look: a strategy that
 * frees too early is found out and ends the program.
 */
#include <stdio.h>

#include "common/base/log.h"
#include "tools/kv-rcu-bench/rcu_bench.h"

#define SELF "kv-rcu-bench"

static struct rcu_bench bench;

static const struct program_option options[] = {
	{ "readers", 'r', PROGRAM_NUMBER, .value = &bench.o.readers, .min = 1, .max = READERS_MAX },
	{ "updaters", 'u', PROGRAM_NUMBER, .value = &bench.o.updaters, .min = 1,
	  .max = UPDATERS_MAX },
	{ "time", 't', PROGRAM_TEXT, .value = &bench.o.time },
	{ "pause", 'i', PROGRAM_TEXT, .value = &bench.o.pauses_text },
	{ "strategy", 's', PROGRAM_TEXT, .value = &bench.o.strategies_text },
	{ "objects", 'n', PROGRAM_NUMBER, .value = &bench.o.objects, .min = 1, .max = OBJECTS_MAX },
	{ "rounds", 'R', PROGRAM_NUMBER, .value = &bench.o.rounds, .min = 1, .max = ROUNDS_MAX },
	{ "deferred-max", 'm', PROGRAM_SIZE, .value = &bench.o.deferred_max,
	  .min = RCU_DEFERRED_MIN * sizeof(struct rcu_object), .max = 1ull << 40 },
	{ "check", 'c', PROGRAM_FLAG, .value = &bench.o.check },
	{ "broken", 'b', PROGRAM_FLAG, .value = &bench.o.broken },
	{ "json", 'j', PROGRAM_FLAG, .value = &bench.o.json },
	{ "report", 'o', PROGRAM_TEXT, .value = &bench.o.report },
	{ NULL },
};

static const struct program program = {
	.name = SELF,
	.usage =
		"Usage: " SELF " [OPTIONS]\n\n"
		"Ways of reclaiming memory under readers, in one run: updates at each pause, reads,\n"
		"grace periods, and the time of an update.\n\n"
		"  -r, --readers N        threads that read [fits the machine: a core for each\n"
		"                         thread, a fifth of them updaters, at most 32 and 8]\n"
		"  -u, --updaters N       threads that update [likewise]\n"
		"  -t, --time SECONDS     for each strategy at each pause in each round, 0.01 to\n"
		"                         3600 [3]\n"
		"  -i, --pause US,...     between updates, 1 to 1000000 us; busy up to 1 ms, so that\n"
		"                         it is exact and costs a core [1,2,5,20,100]\n"
		"  -s, --strategy LIST    of sync, delay, batch, gpc, liburcu, hazard, epoch, remote;\n"
		"                         and floor, malloc and exchange alone, which goes with gpc\n"
		"                         [all]\n"
		"  -n, --objects N        shared pointers, 1 to 4096 [1]\n"
		"  -R, --rounds N         rounds in which all strategies take turns [1; --check: 9]\n"
		"  -m, --deferred-max SIZE  objects that may wait to be freed; updaters of delay, gpc,\n"
		"                         liburcu and epoch then wait, at least 128K; remote: a quarter\n"
		"                         of its store, at least 16M [256M]\n"
		"  -c, --check            exit with 1 where a promise of gpc is not kept\n"
		"  -b, --broken           strategies wait for nobody: readers must notice, and the\n"
		"                         program fails; shows that its checks work\n"
		"  -j, --json             one JSON document\n"
		"  -o, --report FOLDER    also write report.md, results.json and plots (SVG) there\n"
		"  -h, --help             this text\n"
		"  -V, --version          versions\n\n"
		"Examples:\n"
		"  " SELF " -t 1\n"
		"  " SELF
		" --readers 32 --updaters 8 --report study   # the study that it repeats\n"
		"  " SELF " --strategy gpc,liburcu --check\n",
	.options = options,
};

static int report(struct rcu_bench *b)
{
	struct error err = { 0 };
	json_t *doc;

	if (b->o.json) {
		doc = rcu_report_json(b, &program);
		if (!doc)
			return program_failed(&program, "the report", "no memory");
		program_print(doc, JSON_INDENT(2));
	} else {
		rcu_report_text(b, stdout);
	}
	if (b->o.report && rcu_report_folder(b, &program, &err))
		return program_failed(&program, "--report", err.text);
	return b->o.check && !rcu_promises_kept(b) ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct error err = { 0 };
	int status;

	rcu_options_defaults(&bench.o);
	log_setup(SELF, LOG_WARN, LOG_TEXT);
	if (program_options(&program, argc, argv, &status))
		return status;
	if (rcu_options_settle(&bench.o, &err)) {
		program_failed(&program, "usage", err.text);
		return 2;
	}
	if (bench.o.report && rcu_report_folder_make(&bench, &err))
		return program_failed(&program, "--report", err.text);
	status = rcu_measure(&bench, &err) ? program_failed(&program, "measuring", err.text)
					   : report(&bench);
	free(bench.cell);
	return program_end(&program, status);
}
