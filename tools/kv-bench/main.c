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
#include "tools/lib/option_rows.h"

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

#define OPTION_BASE bench.o

static const struct program_option options[] = {
	TEXT("workload", 'w', "LIST", workloads_text,
	     "of A (50 % updates), B (5 % updates), C (reads alone), D (5 % inserts, reads of what "
	     "is new), F (50 % read-modify-writes) [all]; E needs ordered ranges, which there are "
	     "not yet"),
	LIST("peer", 'p', peers_text,
	     "of redis, memcached, tcp, all; may be given again. They are started from the PATH, "
	     "and ended. tcp, a server of ours that keeps nothing, goes with the others [none]"),
	TEXT("server", 's', "HOST:PORT", server,
	     "a running kv-server, which keeps the records; $GRACEKV_SERVER is not taken for it "
	     "[one of its own]"),
	OPTION_BINARY(binary),
	OPTION_DEVICE(device),
	OPTION_CONNECT(connect),
	OPTION_TIMEOUT(timeout_ms, "5000"),
	OPTION_LISTEN(host),
	NUMBER("records", 'k', "N", records, 1, 1000000000, "that are loaded [100000]"),
	NUMBER("fields", 'f', "N", fields, 1, 1000, "of a record, 1 to 1000 [10]"),
	NUMBER("field-length", 'v', "BYTES", field_len, 1, RECORD_MAX,
	       "of a field; a record is 1 MiB at most [100]"),
	CHOICE("distribution", 0, "D", distribution_text, "uniform|zipfian|latest",
	       "uniform, zipfian (0.99, scattered) or latest [the workload's]"),
	NUMBER("operations", 'n', "N", operations, 1, 1000000000000,
	       "of each cell in a round, instead of a time"),
	TEXT("seconds", 't', "S", seconds, "of each cell in a round, 0.01 to 3600 [1]"),
	NUMBER("rounds", 'r', "N", rounds, 1, ROUNDS_MAX, "1 to 99 [5]"),
	NUMBER("threads", 'T', "N", threads, 1, THREADS_MAX, "with a connection each, 1 to 64 [1]"),
	NUMBER("depth", 'D', "N", depth, 1, DEPTH_MAX,
	       "operations in flight for each thread, pipelined over sockets; beside one at a "
	       "time, which is always measured [16]"),
	NUMBER("target", 0, "OPS", target, 1, 1000000000,
	       "operations a second, whatever becomes of them; latencies count from when they were "
	       "meant to start [as fast as may be]"),
	NUMBER("seed", 0, "N", seed, 0, UINT64_MAX, "of random numbers [1]"),
	TEXT("sizes", 0, "LIST", sizes_text,
	     "GETs one by one of values of these sizes; none [with --report "
	     "64,256,1024,4096,16K,64K]"),
	TEXT("depths", 0, "LIST", depths_text,
	     "workload C with this many in flight; none [with --report 1,2,4,8,16,32]"),
	FLAG("check", 0, check,
	     "exit with 1 where a promise is not kept: GETs of 64 and 1024 B at least 10 times "
	     "redis's and memcached's, one client each"),
	OPTION_JSON(json),
	OPTION_REPORT(report),
	{ NULL },
};

static const struct program program = {
	.name = SELF,
	.usage =
		"Usage: " SELF " [OPTIONS]\n\n"
		"Run YCSB's core workloads on this store and, in the same run, on others; their rounds\n"
		"take turns. A record is one value that holds its fields; an update writes all of it\n"
		"(YCSB: writeallfields=true). kv-bench compares what it reads with what was written.\n\n",
	.notes = "\n"
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
	char text[ERROR_TEXT_MAX];
	int status = 0;

	for (unsigned i = 0; i < n; i++) {
		if (promise[i].kept)
			continue;
		snprintf(text, sizeof(text), "%s is %.1f, promised at least %g", promise[i].name,
			 promise[i].is.median, TIMES_FASTER);
		status = promise[i].known
				 ? program_told(&program, 1, "not kept", text)
				 : program_told(&program, 1, "not measured", promise[i].name);
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
	if (options_settle(&bench.o, &err))
		return program_usage(&program, err.text);
	if (bench.o.report && report_folder_make(bench.o.report, &err))
		return program_failed(&program, "--report", err.text);
	stop_listen();
	status = bench_measure(&bench, &err) ? program_failed(&program, "measuring", err.text)
					     : report(&bench);
	bench_free(&bench);
	return program_end(&program, status);
}
