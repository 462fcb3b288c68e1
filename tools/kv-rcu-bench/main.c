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
#include "tools/lib/option_rows.h"

#define SELF "kv-rcu-bench"

static struct rcu_bench bench;

#define OPTION_BASE bench.o

static const struct program_option options[] = {
	NUMBER("readers", 'r', "N", readers, 1, READERS_MAX,
	       "threads that read [fits the machine: a core for each thread, a fifth of them "
	       "updaters, at most 32 and 8]"),
	NUMBER("updaters", 'u', "N", updaters, 1, UPDATERS_MAX, "threads that update [likewise]"),
	TEXT("time", 't', "SECONDS", time,
	     "for each strategy at each pause in each round, 0.01 to 3600 [3]"),
	TEXT("pause", 'i', "US,...", pauses_text,
	     "between updates, 1 to 1000000 us; busy up to 1 ms, so that it is exact and costs a "
	     "core [1,2,5,20,100]"),
	TEXT("strategy", 0, "LIST", strategies_text,
	     "of sync, delay, batch, gpc, liburcu, hazard, epoch, remote; and floor, malloc and "
	     "exchange alone, which goes with gpc [all]"),
	NUMBER("objects", 'n', "N", objects, 1, OBJECTS_MAX, "shared pointers, 1 to 4096 [1]"),
	NUMBER("rounds", 'R', "N", rounds, 1, ROUNDS_MAX,
	       "rounds in which all strategies take turns [1; --check: 9]"),
	SIZE("deferred-max", 'm', deferred_max, RCU_DEFERRED_MIN * sizeof(struct rcu_object),
	     1ull << 40,
	     "objects that may wait to be freed; updaters of delay, gpc, liburcu and epoch then "
	     "wait, at least 128K; remote: a quarter of its store, at least 16M [256M]"),
	FLAG("check", 0, check, "exit with 1 where a promise of gpc is not kept"),
	FLAG("broken", 'b', broken,
	     "strategies wait for nobody: readers must notice, and the program fails; shows that "
	     "its checks work"),
	OPTION_JSON(json),
	OPTION_REPORT(report),
	{ NULL },
};

static const struct program program = {
	.name = SELF,
	.usage =
		"Usage: " SELF " [OPTIONS]\n\n"
		"Compare ways of reclaiming memory under readers, in one run: updates at each pause,\n"
		"reads, grace periods, and the time of an update.\n\n",
	.notes = "\n"
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
	if (rcu_options_settle(&bench.o, &err))
		return program_usage(&program, err.text);
	if (bench.o.report && rcu_report_folder_make(&bench, &err))
		return program_failed(&program, "--report", err.text);
	status = rcu_measure(&bench, &err) ? program_failed(&program, "measuring", err.text)
					   : report(&bench);
	free(bench.cell);
	return program_end(&program, status);
}
