/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * kv-bench: YCSB's core workloads on this store, and in the same run on what one would use instead.
 *
 * The systems: this store over its RDMA device; redis-server over a Unix socket and over TCP;
 * memcached over TCP; and a TCP server that keeps nothing, the floor of what a request and a reply
 * cost over sockets of this machine. Each with one operation at a time, and with several in flight,
 * pipelined where it speaks over a socket. measure.c says in which order; client.c what is timed;
 * driver_stream.c why the peers have one client and not a library each.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "tools/kv-bench/kv_bench.h"
#include "tools/lib/stop.h"
#include "tools/lib/report.h"

#define SELF "kv-bench"

static struct bench bench = { .o = { .records = 100000,
				     .fields = 10,
				     .field_len = 100,
				     .threads = 1,
				     .depth = 16,
				     .rounds = 5,
				     .seed = 1,
				     .seconds = "1",
				     .workloads_text = "A,B,C,D,F",
				     .host = "127.0.0.1",
				     .device = "auto",
				     .connect = "tcp" } };

static const struct program_option options[] = {
	{ "workload", 'w', PROGRAM_TEXT, .value = &bench.o.workloads_text },
	{ "peer", 'p', PROGRAM_LIST, .value = bench.o.peers_text },
	{ "server", 's', PROGRAM_TEXT, .value = &bench.o.server },
	{ "binary", 'B', PROGRAM_TEXT, .value = &bench.o.binary },
	{ "device", 'd', PROGRAM_TEXT, .value = &bench.o.device },
	{ "connect", 'C', PROGRAM_CHOICE, .value = &bench.o.connect, .words = "tcp|cm" },
	{ "listen", 'l', PROGRAM_TEXT, .value = &bench.o.host },
	{ "records", 'k', PROGRAM_NUMBER, .value = &bench.o.records, .min = 1, .max = 1000000000 },
	{ "fields", 'f', PROGRAM_NUMBER, .value = &bench.o.fields, .min = 1, .max = 1000 },
	{ "field-length", 'v', PROGRAM_NUMBER, .value = &bench.o.field_len, .min = 1,
	  .max = RECORD_MAX },
	{ "distribution", 0, PROGRAM_CHOICE, .value = &bench.o.distribution_text,
	  .words = "uniform|zipfian|latest" },
	{ "operations", 'n', PROGRAM_NUMBER, .value = &bench.o.operations, .min = 1,
	  .max = 1000000000000 },
	{ "seconds", 't', PROGRAM_TEXT, .value = &bench.o.seconds },
	{ "rounds", 'r', PROGRAM_NUMBER, .value = &bench.o.rounds, .min = 1, .max = ROUNDS_MAX },
	{ "threads", 'T', PROGRAM_NUMBER, .value = &bench.o.threads, .min = 1, .max = THREADS_MAX },
	{ "depth", 'D', PROGRAM_NUMBER, .value = &bench.o.depth, .min = 1, .max = DEPTH_MAX },
	{ "target", 0, PROGRAM_NUMBER, .value = &bench.o.target, .min = 1, .max = 1000000000 },
	{ "seed", 0, PROGRAM_NUMBER, .value = &bench.o.seed, .min = 0, .max = UINT64_MAX },
	{ "sizes", 0, PROGRAM_TEXT, .value = &bench.o.sizes_text },
	{ "depths", 0, PROGRAM_TEXT, .value = &bench.o.depths_text },
	{ "check", 'c', PROGRAM_FLAG, .value = &bench.o.check },
	{ "json", 'j', PROGRAM_FLAG, .value = &bench.o.json },
	{ "report", 'o', PROGRAM_TEXT, .value = &bench.o.report },
	{ NULL },
};

static const struct program program = {
	.name = SELF,
	.usage =
		"Usage: " SELF " [OPTIONS]\n\n"
		"The core workloads of YCSB on this store, and on others in the same run, in rounds that\n"
		"take turns. A record is one value that holds its fields; an update writes all of it\n"
		"(YCSB: writeallfields=true). What was read is compared with what was written.\n\n"
		"  -w, --workload LIST      of A (50 % updates), B (5 % updates), C (reads alone), D (5 %\n"
		"                           inserts, reads of what is new), F (50 % read-modify-writes)\n"
		"                           [all]; E needs ordered ranges, which there are not yet\n"
		"  -p, --peer LIST          of redis, memcached, tcp, all; may be given again. They are\n"
		"                           started from the PATH, and ended. tcp, a server of ours that\n"
		"                           keeps nothing, goes with the others [none]\n"
		"  -s, --server HOST:PORT   a running kv-server; it keeps the records [an own one]\n"
		"  -B, --binary FILE        the kv-server to start [of the same build]\n"
		"  -d, --device NAME        RDMA device [auto]\n"
		"  -C, --connect tcp|cm     how queue pairs are connected [tcp]\n"
		"  -l, --listen HOST        address of the kv-server that it starts [127.0.0.1]\n"
		"  -k, --records N          that are loaded [100000]\n"
		"  -f, --fields N           of a record, 1 to 1000 [10]\n"
		"  -v, --field-length BYTES of a field; a record is 1 MiB at most [100]\n"
		"      --distribution D     uniform, zipfian (0.99, scattered) or latest [the workload's]\n"
		"  -t, --seconds S          of each cell in a round, 0.01 to 3600 [1]\n"
		"  -n, --operations N       of each cell in a round, instead of a time\n"
		"  -r, --rounds N           1 to 99 [5]\n"
		"  -T, --threads N          with a connection each, 1 to 64 [1]\n"
		"  -D, --depth N            operations in flight for each thread, pipelined over sockets;\n"
		"                           beside one at a time, which is always measured [16]\n"
		"      --target OPS         operations a second, whatever becomes of them; latencies\n"
		"                           count from when they were meant to start [as fast as may be]\n"
		"      --seed N             of random numbers [1]\n"
		"      --sizes LIST         GETs one by one of values of these sizes; none\n"
		"                           [with --report 64,256,1024,4096,16K,64K]\n"
		"      --depths LIST        workload C with so many in flight; none\n"
		"                           [with --report 1,2,4,8,16,32]\n"
		"  -c, --check              exit with 1 where a promise is not kept: GETs of 64 and 1024 B\n"
		"                           at least 10 times redis's and memcached's, one client each\n"
		"  -j, --json               one JSON document\n"
		"  -o, --report FOLDER      also write report.md, results.json and plots (SVG) there\n"
		"  -h, --help               this text\n"
		"  -V, --version            versions\n\n"
		"Examples:\n"
		"  " SELF " --workload C --seconds 3\n"
		"  " SELF " --workload A,B,C,D,F --peer redis --peer memcached --report report\n"
		"  " SELF " --workload A --peer redis --target 20000 --threads 2\n",
	.options = options,
};

static int judge(const struct bench *b)
{
	struct promise promise[PROMISES_MAX];
	unsigned n = b->o.check ? bench_promises(b, promise) : 0;
	char text[320];
	int status = 0;

	for (unsigned i = 0; i < n; i++) {
		if (promise[i].kept)
			continue;
		if (promise[i].known)
			fprintf(stderr, "%s: not kept: %s is %.1f, promised at least %g\n", SELF,
				promise[i].name, promise[i].is.median, TIMES_FASTER);
		else
			fprintf(stderr, "%s: not measured: %s\n", SELF, promise[i].name);
		status = 1;
	}
	if (b->wrong || b->missing) {
		snprintf(text, sizeof(text),
			 "%llu records were not what was written, %llu were missing; the first: %s",
			 (unsigned long long)b->wrong, (unsigned long long)b->missing, b->trouble);
		return program_failed(&program, "wrong data", text);
	}
	if (b->interrupted)
		return program_failed(
			&program, "interrupted",
			"rates are of the rounds that were whole by then, latencies of all");
	return status;
}

static int report(const struct bench *b)
{
	struct error err = { 0 };
	json_t *doc;

	if (b->o.json) {
		doc = report_json(b, &program);
		if (!doc)
			return program_failed(&program, "the report", "no memory");
		program_print(doc, JSON_INDENT(2));
	} else {
		report_text(b, stdout, false);
	}
	if (b->o.report && report_folder(b, &program, &err))
		return program_failed(&program, "--report", err.text);
	return judge(b);
}

int main(int argc, char **argv)
{
	struct error err = { 0 };
	int status;

	log_setup(SELF, LOG_WARN, LOG_TEXT);
	if (program_options(&program, argc, argv, &status))
		return status;
	if (options_settle(&bench.o, &err)) {
		program_failed(&program, "usage", err.text);
		return 2;
	}
	if (bench.o.report && report_folder_make(bench.o.report, &err))
		return program_failed(&program, "--report", err.text);
	stop_listen();
	status = bench_measure(&bench, &err) ? program_failed(&program, "measuring", err.text)
					     : report(&bench);
	bench_free(&bench);
	return program_end(&program, status);
}
