/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The options: a table, which --help is made of as well. perftest's letters and long names. */
#include "tools/kv-bw-lat/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/option_rows.h"
#include "tools/lib/words.h"

#define SERVER "GRACEKV_SERVER"

static struct {
	struct perf_options o;
	const char *size, *op, *dist, *seconds, *warm, *idle, *rate;
	uint64_t port;
	bool all, cpu_freq;
} given;

enum which { BOTH, BW, LAT };

#define OPTION_BASE given

struct row {
	enum which which;
	struct program_option option;
};

static const struct row rows[] = {
	{ BOTH, TEXT("ib-dev", 'd', "DEV", o.device, "RDMA device [auto]") },
	{ BOTH, NUMBER("ib-port", 'i', "N", o.ib_port, 1, 255, "its port [chosen]") },
	{ BOTH, NUMBER("gid-index", 'x', "N", o.gid_index, 0, 255, "of its GID table [chosen]") },
	{ BOTH, NUMBER("mtu", 'm', "BYTES", o.mtu, 256, 4096,
		       "256 to 4096 [the port's]; refused where both ends settle on less") },
	{ BOTH, OPTION_PKEY_INDEX("pkey_index", o.pkey_index) },
	{ BOTH, OPTION_SERVICE_LEVEL("sl", 'S', o.service_level) },
	{ BOTH, OPTION_TRAFFIC_CLASS("tclass", o.traffic_class) },
	{ BOTH, NUMBER("port", 'p', "PORT", port, 1, 65535, "TCP port of kv-server [7471]") },
	{ BOTH, FLAG("rdma_cm", 'R', o.cm, "queue pairs are connected by the RDMA CM") },
	{ BOTH, OPTION_TIMEOUT(o.timeout_ms, "5000, and 250 ns a byte") },
	{ BOTH, NUMBER("inline_size", 'I', "BYTES", o.inline_bytes, 0, 65536,
		       "requests of up to BYTES go inline [128, or what the device takes]") },
	{ BOTH, FLAG("CPU-freq", 'F', cpu_freq, "does nothing; taken for scripts of perftest's") },
	{ BW,
	  TEXT("op", 0, "OP", op, "get, put, or mixed:R, a share R of them GETs, 0 to 1 [get]") },
	{ LAT,
	  TEXT("op", 0, "OP", op,
	       "get, put, mixed:R, a share R of them GETs, or mget:N, N keys in one call [get]") },
	{ BW,
	  TEXT("size", 's', "LIST", size, "bytes of a value, 1 to 16M; or several: 64,4K [64K]") },
	{ LAT,
	  TEXT("size", 's', "LIST", size, "bytes of a value, 1 to 16M; or several: 64,4K [64]") },
	{ BOTH, FLAG("all", 'a', all, "all sizes, 2 bytes to 8 MiB in powers of two") },
	{ BOTH,
	  NUMBER("keys", 0, "N", o.keys, 1, PERF_KEYS_MAX,
		 "records [1000]; fewer of those that would take over a quarter of the server's "
		 "free memory") },
	{ BOTH, TEXT("dist", 0, "D", dist, "uniform, or zipf:S, S above 0 and below 1 [uniform]") },
	{ BOTH, FLAG("no-hints", 0, o.no_hints, "GETs go by the index: two READs, not one") },
	{ BOTH, SIZE("hints", 0, o.hint_bytes, 64, 1ull << 36,
		     "memory for hints [enough for all keys, at least 64M]") },
	{ BOTH,
	  TEXT("name", 0, "TEXT", o.name,
	       "keys are TEXT.SIZE.NUMBER; give runs at the same time different names [the tool "
	       "and a number of the run]") },
	{ BOTH,
	  FLAG("keep", 0, o.keep, "leave the records, to a run with that --name and --keys") },
	{ BOTH, NUMBER("iters", 'n', "N", o.iterations, 1, 1000000000000,
		       "operations of each queue pair [those of -D]") },
	{ BOTH, TEXT("duration", 'D', "SECONDS", seconds,
		     "0.01 to 86400 [1, without -n; of -U 1000 operations]") },
	{ BOTH, TEXT("warm-up", 0, "SECONDS", warm,
		     "operations before the run, which do not count [1000, or 0.2 s of them]") },
	{ BOTH,
	  TEXT("idle", 0, "SECONDS", idle,
	       "do nothing for SECONDS before the run, and report the server's CPU of that time "
	       "too") },
	{ BW,
	  NUMBER("tx-depth", 't', "N", o.depth, 1, 4096,
		 "operations in flight on a queue pair [128]; fewer of large values, all in 128 "
		 "MiB; "
		 "of PUTs those beyond 8 wait in the library") },
	{ BOTH, NUMBER("qp", 'q', "N", o.qps, 1, PERF_QPS_MAX, "handles, each a queue pair [1]") },
	{ BOTH,
	  NUMBER("threads", 0, "N", o.threads, 1, PERF_QPS_MAX, "share the handles out [1]") },
	{ BW, NUMBER("post_list", 'l', "N", o.post_list, 1, 4096,
		     "operations handed over by one gkv_submit(), with one doorbell [1]") },
	{ BW, NUMBER("cq-mod", 'Q', "N", o.moderation, 1, 4096,
		     "completions that are collected before more is handed over [1]; of raw READs "
		     "every Nth is signalled, or one of each list") },
	{ BOTH, FLAG("events", 'e', o.events, "sleep until there is an event, and do not poll") },
	{ BOTH, TEXT("rate", 0, "OPS", rate,
		     "operations per second of all threads together, as an open loop: each has an "
		     "intended start, and its latency counts from there") },
	{ BOTH,
	  FLAG("raw", 0, o.raw,
	       "measure what the device does alone as well, on the same queue pairs; rounds of "
	       "both take turns") },
	{ BOTH, FLAG("raw-checksum", 0, o.raw_checksum,
		     "as --raw, with the checksum of each block that a GET computes as well") },
	{ BOTH, NUMBER("rounds", 0, "N", o.rounds, 1, PERF_ROUNDS_MAX,
		       "parts of the run [1; with --raw 10, fewer where -n is below 5000]") },
	{ BOTH, FLAG("report-cycles", 'C', o.cycles,
		     "latencies in cycles of the time stamp counter; JSON has us") },
	{ BOTH, FLAG("report-histogram", 'H', o.histogram, "print the histogram of latencies") },
	{ BOTH, FLAG("report-unsorted", 'U', o.unsorted,
		     "print each latency, thread by thread, in order; wants -n") },
	{ BW, FLAG("report_gbits", 0, o.gbits, "bandwidth in Gb/s, not MiB/s; JSON has bytes") },
	{ LAT, FLAG("report_gbits", 0, o.gbits, "does nothing; taken for scripts of perftest's") },
	{ BOTH, FLAG("json", 0, o.json, "one JSON document, not a table; errors too, on stderr") },
	{ BOTH, TEXT("out_json_file", 0, "FILE", o.json_file, "that document to a file as well") },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const char about[] =
	"The other end is a running kv-server: HOST, or else $GRACEKV_SERVER. It is told the options,\n"
	"which are given here alone. For each size records are put, read once, so that hints lead to\n"
	"them, measured, and deleted: the store is left as it was. SIGINT, SIGTERM and SIGHUP end the\n"
	"run with what has been measured by then, and exit status 3.\n\n";

static const char notes[] =
	"\n--raw: of GETs RDMA READs of as many bytes as a GET's READ has, where their records are; with\n"
	"--no-hints a pair of them, of a bucket and of a record, as a look-up has without a hint;\n"
	"of PUTs a SEND of as many bytes as the request, answered by a SEND of the reply's; of\n"
	"values above 8 KiB, which the server pulls with a READ, a READ of the value's bytes.\n"
	"--rate: operations that could not be started within twice the planned time and 1 s are given\n"
	"up and reported, and count with the time that they waited. A run may be slower than planned.\n"
	"On soft0, the software device, all this is copies of memory and our code, not RDMA.\n\n"
	"Exit status: 0; 2 wrong usage; 3 something failed, or SIGINT.\n\n";

static struct program_option listed[ROWS + 1];

#define BOTH_PROGRAMS .options = listed, .about = about, .notes = notes, .operand = &given.o.server

const struct program perf_bw_program = {
	BOTH_PROGRAMS,
	.name = "kv-bw",
	.usage =
		"Usage: kv-bw [OPTIONS] [HOST[:PORT]]\n\n"
		"Measure the bandwidth of a kv-server, as ib_read_bw and ib_send_bw measure a device's.\n"
		"BW peak is that of the fastest slice of the run: 1/100 of it to twice that, and 1000\n"
		"operations or more; a run without two such slices is one slice. MiB are 2^20 bytes\n"
		"of values, Gb 10^9 bits, Mpps millions of operations per second.\n\n",
	.examples = "Examples:\n"
		    "  kv-bw -a 10.0.0.1\n"
		    "  kv-bw -s 64 -D 5 -q 4 --threads 2 -l 16 --raw 10.0.0.1\n"
		    "  kv-bw --op put --rate 100000 -s 1K -D 10 --json 10.0.0.1:7471\n",
};

const struct program perf_lat_program = {
	BOTH_PROGRAMS,
	.name = "kv-lat",
	.usage =
		"Usage: kv-lat [OPTIONS] [HOST[:PORT]]\n\n"
		"Measure the latency of a kv-server, as ib_read_lat and ib_send_lat measure a device's.\n"
		"Each thread makes one operation at a time, by the calls that wait. t_typical is the\n"
		"median; percentiles are right to 1/64 of themselves. -H says how many operations took\n"
		"this long or less.\n\n",
	.examples = "Examples:\n"
		    "  kv-lat -a 10.0.0.1\n"
		    "  kv-lat --no-hints -s 64 -D 5 --raw 10.0.0.1\n"
		    "  kv-lat --op put --rate 10000 -D 10 -H 10.0.0.1:7471\n",
};

const struct program *perf_program(const struct perf_options *o)
{
	return o->latency ? &perf_lat_program : &perf_bw_program;
}

/* The rows of this program. */
static void prepare(bool latency)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ROWS; i++) {
		if (rows[i].which != (latency ? BW : LAT))
			listed[n++] = rows[i].option;
	}
	listed[n] = (struct program_option){ 0 };
}

static void defaults(bool latency)
{
	memset(&given, 0, sizeof(given));
	given.o = (struct perf_options){
		.latency = latency,
		.ib_port = PERF_UNSET,
		.gid_index = PERF_UNSET,
		.mtu = PERF_UNSET,
		.inline_bytes = PERF_UNSET,
		.group = 1,
		.keys = 1000,
		.depth = latency ? 1 : 128,
		.qps = 1,
		.threads = 1,
		.post_list = 1,
		.moderation = 1,
	};
	given.op = "get";
	given.dist = "uniform";
	given.port = PERF_UNSET;
	given.o.server = getenv(SERVER);
	if (given.o.server && !given.o.server[0])
		given.o.server = NULL;
}

static int settle(struct error *err)
{
	struct perf_options *o = &given.o;
	const char *from = o->server == getenv(SERVER) ? SERVER : "HOST";
	int rc = perf_take_server(o, from, given.port, err);

	if (rc == 0)
		rc = perf_take_op(o, given.op, err);
	if (rc == 0)
		rc = perf_take_dist(o, given.dist, err);
	if (rc == 0 && given.all && given.size)
		rc = error_set(err, -EINVAL, "-a and -s do not go together (give one of them)");
	if (rc == 0)
		rc = perf_take_sizes(o,
				     given.size	  ? given.size
				     : o->latency ? "64"
						  : "64K",
				     given.all, err);
	if (rc == 0 && given.seconds)
		rc = words_number("--duration", given.seconds, 0.01, 86400, &o->seconds, err);
	if (rc == 0 && given.warm)
		rc = words_number("--warm-up", given.warm, 0.01, 86400, &o->warm_seconds, err);
	if (rc == 0 && given.idle)
		rc = words_number("--idle", given.idle, 0.01, 86400, &o->idle_seconds, err);
	if (rc == 0 && given.rate)
		rc = words_number("--rate", given.rate, 0.001, 1e9, &o->rate, err);
	return rc ? rc : perf_settle(o, err);
}

int perf_options(bool latency, int argc, char **argv, struct perf_options *out, int *status)
{
	const struct program *p = latency ? &perf_lat_program : &perf_bw_program;
	struct error err = { 0 };

	defaults(latency);
	prepare(latency);
	if (program_options(p, argc, argv, status))
		return -1;
	if (settle(&err)) {
		*status = program_usage(p, err.text);
		return -1;
	}
	*out = given.o;
	return 0;
}
