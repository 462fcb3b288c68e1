/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * get-bench: what a one-sided GET costs beyond its READs.
 *
 * The floor, in the same run and on the same queue pair: a READ of 256 B at a random bucket of the
 * index, waited for, then a READ of the block's length at a random block of the data, waited for.
 * Against it: gkv_get_view() of a random key, without hints: the same two READs, with the hash,
 * the directory, the search of the bucket, and the verification of the block. Rounds alternate;
 * medians of the rounds are compared. Latencies are taken in rounds of their own, so that reading
 * the clock burdens neither.
 *
 * Then the CPU time of the server over so many seconds of nothing, and of GETs; and its memory.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "client/src/handle.h"
#include "client/src/lookup.h"
#include "common/base/parse.h"
#include "common/base/table.h"
#include "common/base/time.h"
#include "common/layout/block.h"
#include "common/layout/size_code.h"
#include "common/rdma/post.h"
#include "tools/bench/samples.h"
#include "tools/bench/server_process.h"

#define ROUNDS_MAX 99
#define KEY_LEN	   16

struct options {
	uint64_t keys, value_len, rounds, ops, seconds;
	const char *server, *binary, *memory, *device, *host, *connect;
	bool json;
};

struct bench {
	struct options o;
	struct server_process server;
	struct gkv_session *session;
	struct gkv *kv;
	uint64_t seed;
	/* Where the floor reads. */
	struct extent index[64], data[64];
	unsigned index_count, data_count;
	uint32_t block_len;
	/* Results: ns an operation, by round; single ones, sorted. */
	double floor_ns[ROUNDS_MAX], get_ns[ROUNDS_MAX];
	double *floor_lat, *get_lat;
	double idle_cpu, busy_cpu; /* share of a core */
	uint64_t busy_gets;
	double reads_per_get;
};

static int die(const char *what, const char *why)
{
	fprintf(stderr, "get-bench: %s: %s\n", what, why);
	return 3;
}

static void key_of(uint64_t i, char key[KEY_LEN + 1])
{
	snprintf(key, KEY_LEN + 1, "key-%012" PRIu64, (uint64_t)(i % 1000000000000ull));
}

static int load(struct bench *b)
{
	char *value = calloc(1, b->o.value_len + 1), key[KEY_LEN + 1];
	int rc = value ? 0 : -ENOMEM;

	for (uint64_t i = 0; i < b->o.keys && rc == 0; i++) {
		key_of(i, key);
		memcpy(value, key, b->o.value_len < KEY_LEN ? b->o.value_len : KEY_LEN);
		rc = gkv_put(b->kv, key, KEY_LEN, value, b->o.value_len, NULL);
		if (i % 65536 == 0 && isatty(STDERR_FILENO))
			fprintf(stderr, "\rloading %3" PRIu64 " %%",
				(uint64_t)(100 * i / b->o.keys));
	}
	if (isatty(STDERR_FILENO))
		fputs("\r              \r", stderr);
	free(value);
	return rc ? die("loading", gkv_error(b->kv)) : 0;
}

/* Learn the extents from the handle's caches: gets over all keys have filled them. */
static int find_extents(struct bench *b)
{
	struct world *w = b->kv->reader.world;

	for (unsigned i = 0; i < EXTENTS_MAX; i++) {
		const struct extent *x = world_find_extent(w, i);

		if (x && x->kind == EXTENT_INDEX && b->index_count < 64)
			b->index[b->index_count++] = *x;
		if (x && x->kind == EXTENT_DATA && b->data_count < 64)
			b->data[b->data_count++] = *x;
	}
	b->block_len =
		size_code_bytes(size_code_for(block_bytes(KEY_LEN, (uint32_t)b->o.value_len)));
	return b->index_count && b->data_count ? 0 : die("extents", "none was read");
}

static const struct extent *any_extent(const struct extent *x, unsigned count, uint64_t random)
{
	uint64_t total = 0, at;

	for (unsigned i = 0; i < count; i++)
		total += x[i].length;
	at = random % total;
	while (at >= x->length)
		at -= (x++)->length;
	return x;
}

/* One READ, waited for, with nothing between the verbs and us. */
static int read_once(struct gkv *kv, uint64_t addr, uint32_t rkey, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)kv->reader.arena, len, kv->reader.arena_lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = addr, .rkey = rkey },
	}, *bad;
	struct ibv_wc wc;
	int n, rc = rdma_post_send(kv->qp.qp, &wr, &bad);

	while (rc == 0 && (n = rdma_poll(kv->cq.cq, 1, &wc)) <= 0)
		rc = n;
	return rc ? rc : wc.status == IBV_WC_SUCCESS ? 0 : -EIO;
}

static int floor_once(struct bench *b)
{
	uint64_t r1 = bench_random(&b->seed), r2 = bench_random(&b->seed);
	const struct extent *i = any_extent(b->index, b->index_count, r1);
	const struct extent *d = any_extent(b->data, b->data_count, r2);
	uint64_t bucket = (r1 >> 20) % (i->length / BUCKET_BYTES) * BUCKET_BYTES;
	uint64_t block = (r2 >> 20) % (d->length / b->block_len) * b->block_len;
	int rc = read_once(b->kv, i->addr + bucket, i->rkey, BUCKET_BYTES);

	return rc ? rc : read_once(b->kv, d->addr + block, d->rkey, b->block_len);
}

static int get_once(struct bench *b)
{
	char key[KEY_LEN + 1];
	const void *value;
	struct gkv_meta meta;
	int rc;

	key_of(bench_random(&b->seed) % b->o.keys, key);
	rc = gkv_get_view(b->kv, key, KEY_LEN, &value, &meta);
	return rc ? rc : meta.value_len == b->o.value_len ? 0 : -EBADMSG;
}

/* Making the key's text is not the store's work: its cost is measured and taken off. */
static int key_once(struct bench *b)
{
	char key[KEY_LEN + 1];

	key_of(bench_random(&b->seed) % b->o.keys, key);
	__asm__ __volatile__("" ::"r"(key) : "memory");
	return 0;
}

typedef int (*operation)(struct bench *b);

static int round_of(struct bench *b, operation op, double *ns_per_op)
{
	uint64_t start = time_now_ns();
	int rc = 0;

	for (uint64_t i = 0; i < b->o.ops && rc == 0; i++)
		rc = op(b);
	*ns_per_op = (double)(time_now_ns() - start) / (double)b->o.ops;
	return rc;
}

static int latencies_of(struct bench *b, operation op, double *out)
{
	int rc = 0;

	for (uint64_t i = 0; i < b->o.ops && rc == 0; i++) {
		uint64_t start = time_now_ns();

		rc = op(b);
		out[i] = (double)(time_now_ns() - start);
	}
	samples_sort(out, b->o.ops);
	return rc;
}

static int measure(struct bench *b)
{
	struct gkv_stats before, after;
	double key_ns;
	int rc = round_of(b, get_once, &key_ns); /* warm up */

	gkv_stats_get(b->kv, &before);
	for (uint64_t r = 0; r < b->o.rounds && rc == 0; r++) {
		rc = round_of(b, floor_once, &b->floor_ns[r]);
		if (rc == 0)
			rc = round_of(b, get_once, &b->get_ns[r]);
		if (rc == 0)
			rc = round_of(b, key_once, &key_ns);
		b->get_ns[r] -= key_ns;
	}
	gkv_stats_get(b->kv, &after);
	b->reads_per_get =
		(double)(after.reads - before.reads) / (double)(after.gets - before.gets);
	if (rc == 0)
		rc = latencies_of(b, floor_once, b->floor_lat);
	if (rc == 0)
		rc = latencies_of(b, get_once, b->get_lat);
	samples_sort(b->floor_ns, b->o.rounds);
	samples_sort(b->get_ns, b->o.rounds);
	return rc ? die("measuring", gkv_strerror(rc)) : 0;
}

static int measure_cpu(struct bench *b)
{
	uint64_t span = b->o.seconds * NS_PER_S, end;
	int64_t cpu;
	int rc = 0;

	if (!b->server.pid || !span)
		return 0;
	cpu = server_process_cpu_ns(b->server.pid);
	usleep((useconds_t)(b->o.seconds * 1000000));
	b->idle_cpu = (double)(server_process_cpu_ns(b->server.pid) - cpu) / (double)span;
	cpu = server_process_cpu_ns(b->server.pid);
	for (end = time_now_ns() + span; rc == 0 && time_now_ns() < end; b->busy_gets++)
		rc = get_once(b);
	b->busy_cpu = (double)(server_process_cpu_ns(b->server.pid) - cpu) / (double)span;
	return rc ? die("reading", gkv_strerror(rc)) : 0;
}

static uint64_t stat_of(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, name, len) == 0 && p[len] == ' ')
			return strtoull(p + len, NULL, 10);
	}
	return 0;
}

struct report {
	double floor, get, ratio;
	uint64_t records, slab_bytes, index_bytes;
};

static void report_table(const struct bench *b, const struct report *r)
{
	static const char *const head[] = { "operation", ">ns min", ">ns median", ">p50",
					    ">p99",	 ">p99.9",  ">Kops/s",	  NULL };
	const double *ns[] = { b->floor_ns, b->get_ns }, *lat[] = { b->floor_lat, b->get_lat };
	struct table *t = table_new(head);

	for (unsigned i = 0; i < 2; i++) {
		double median = samples_at(ns[i], b->o.rounds, 0.5);

		table_cell(t, i ? "GET" : "raw READs (%u + %u B)", BUCKET_BYTES, b->block_len);
		table_cell(t, "%.0f", ns[i][0]);
		table_cell(t, "%.0f", median);
		table_cell(t, "%.0f", samples_at(lat[i], b->o.ops, 0.5));
		table_cell(t, "%.0f", samples_at(lat[i], b->o.ops, 0.99));
		table_cell(t, "%.0f", samples_at(lat[i], b->o.ops, 0.999));
		table_cell(t, "%.0f", 1e6 / median);
	}
	printf("get-bench %s, device %s, %" PRIu64 " keys of %u B, values of %" PRIu64
	       " B, %" PRIu64 " rounds of %" PRIu64 "\n\n",
	       GRACEKV_VERSION, b->session->dev->name, b->o.keys, KEY_LEN, b->o.value_len,
	       b->o.rounds, b->o.ops);
	table_print(t, stdout);
	printf("\nGET / raw READs      %.2f  (medians; promised: at most 3)\n", r->ratio);
	printf("READs per GET        %.3f\n", b->reads_per_get);
	if (b->server.pid && b->o.seconds)
		printf("server CPU           %.3f %% of a core idle, %.3f %% over %" PRIu64
		       " GETs (promised: idle below 0.5, difference below 1)\n",
		       100 * b->idle_cpu, 100 * b->busy_cpu, b->busy_gets);
	printf("memory               %.1f MB slabs + %.1f MB index for %" PRIu64
	       " records, %.0f B each\n",
	       (double)r->slab_bytes / 1e6, (double)r->index_bytes / 1e6, r->records,
	       (double)(r->slab_bytes + r->index_bytes) / (double)(r->records ? r->records : 1));
	if (b->session->dev->software)
		puts("\nsoft0 is a software stand-in: these are memory copies and our code, not RDMA.");
}

static void report_json(const struct bench *b, const struct report *r)
{
	json_t *doc = json_pack("{s:s, s:i, s:s, s:s, s:b, s:I, s:I, s:I}", "tool", "get-bench",
				"schema", 1, "version", GRACEKV_VERSION, "device",
				b->session->dev->name, "software_device", b->session->dev->software,
				"keys", (json_int_t)b->o.keys, "value_bytes",
				(json_int_t)b->o.value_len, "rounds", (json_int_t)b->o.rounds);

	json_object_set_new(doc, "raw_reads_ns", json_real(r->floor));
	json_object_set_new(doc, "get_ns", json_real(r->get));
	json_object_set_new(doc, "get_over_raw_reads", json_real(r->ratio));
	json_object_set_new(doc, "reads_per_get", json_real(b->reads_per_get));
	json_object_set_new(doc, "server_cpu_idle", json_real(b->idle_cpu));
	json_object_set_new(doc, "server_cpu_gets", json_real(b->busy_cpu));
	json_object_set_new(doc, "records", json_integer((json_int_t)r->records));
	json_object_set_new(doc, "slab_bytes", json_integer((json_int_t)r->slab_bytes));
	json_object_set_new(doc, "index_bytes", json_integer((json_int_t)r->index_bytes));
	json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(doc);
}

static int report(struct bench *b)
{
	struct report r = { .floor = samples_at(b->floor_ns, b->o.rounds, 0.5),
			    .get = samples_at(b->get_ns, b->o.rounds, 0.5) };
	char *text;

	if (gkv_server_stats(b->kv, &text))
		return die("statistics", gkv_error(b->kv));
	r.ratio = r.get / r.floor;
	r.records = stat_of(text, "records");
	r.slab_bytes = stat_of(text, "memory_slab_bytes_used");
	r.index_bytes = stat_of(text, "index_segments") * SEGMENT_BYTES;
	free(text);
	if (b->o.json)
		report_json(b, &r);
	else
		report_table(b, &r);
	return 0;
}

static int connect_to_server(struct bench *b)
{
	struct gkv_options options;
	char why[640];

	gkv_options_init(&options);
	options.server = b->server.address;
	options.device = b->o.device;
	options.connect = strcmp(b->o.connect, "cm") == 0 ? GKV_CONNECT_CM : GKV_CONNECT_TCP;
	options.name = "get-bench";
	if (gkv_session_open(&b->session, &options, why, sizeof(why)))
		return die("connecting", why);
	if (gkv_open(b->session, &b->kv))
		return die("connecting", gkv_session_error(b->session));
	return 0;
}

static int run(struct bench *b)
{
	int rc = connect_to_server(b);

	b->seed = 1;
	b->floor_lat = calloc(b->o.ops, sizeof(double));
	b->get_lat = calloc(b->o.ops, sizeof(double));
	if (rc == 0 && (!b->floor_lat || !b->get_lat))
		rc = die("memory", "out of it");
	if (rc == 0)
		rc = load(b);
	for (unsigned i = 0; rc == 0 && i < 2000; i++)
		rc = get_once(b) ? die("reading", gkv_error(b->kv)) : 0;
	if (rc == 0)
		rc = find_extents(b);
	if (rc == 0)
		rc = measure(b);
	if (rc == 0)
		rc = measure_cpu(b);
	if (rc == 0)
		rc = report(b);
	gkv_close(b->kv);
	gkv_session_close(b->session);
	free(b->floor_lat);
	free(b->get_lat);
	return rc;
}

static void usage(FILE *out)
{
	fputs("Usage: get-bench [OPTIONS]\n\n"
	      "What a one-sided GET costs beyond its two READs, as a ratio in one run; the server's\n"
	      "CPU meanwhile; bytes for a record. Starts a kv-server of its own.\n\n"
	      "  -s, --server HOST:PORT  a running one instead (no CPU figures; it gets the keys)\n"
	      "  -B, --binary FILE       the kv-server to start [beside this program]\n"
	      "  -M, --memory SIZE       its memory [4G]\n"
	      "  -d, --device NAME       RDMA device [auto]\n"
	      "  -C, --connect tcp|cm    how queue pairs are connected [tcp]\n"
	      "  -l, --listen HOST       address of the server that it starts [127.0.0.1]\n"
	      "  -k, --keys N            records [1000000]\n"
	      "  -v, --value BYTES       their length [64]\n"
	      "  -r, --rounds N          alternating rounds, 1 to 99 [9]\n"
	      "  -n, --ops N             operations a round [200000]\n"
	      "  -c, --cpu-seconds N     idle and busy span for the CPU figures, 0: none [10]\n"
	      "  -j, --json              one JSON document\n\n"
	      "Example:\n  get-bench --keys 1000000 --value 64\n",
	      out);
}

static const struct option long_options[] = {
	{ "server", 1, NULL, 's' },  { "binary", 1, NULL, 'B' },  { "memory", 1, NULL, 'M' },
	{ "device", 1, NULL, 'd' },  { "keys", 1, NULL, 'k' },	  { "value", 1, NULL, 'v' },
	{ "rounds", 1, NULL, 'r' },  { "ops", 1, NULL, 'n' },	  { "cpu-seconds", 1, NULL, 'c' },
	{ "connect", 1, NULL, 'C' }, { "listen", 1, NULL, 'l' },  { "json", 0, NULL, 'j' },
	{ "help", 0, NULL, 'h' },    { "version", 0, NULL, 'V' }, { NULL, 0, NULL, 0 },
};

/* Returns 0, or -1: exit with *status. */
static int parse(struct options *o, int argc, char **argv, int *status)
{
	struct error err = { 0 };
	int c, rc = 0;

	*status = 2;
	while (rc == 0 && (c = getopt_long(argc, argv, "s:B:M:d:C:l:k:v:r:n:c:jhV", long_options,
					   NULL)) != -1) {
		switch (c) {
		case 's':
			o->server = optarg;
			break;
		case 'B':
			o->binary = optarg;
			break;
		case 'M':
			o->memory = optarg;
			break;
		case 'd':
			o->device = optarg;
			break;
		case 'C':
			o->connect = optarg;
			if (strcmp(optarg, "tcp") != 0 && strcmp(optarg, "cm") != 0)
				rc = error_set(&err, -EINVAL, "--connect is neither tcp nor cm");
			break;
		case 'l':
			o->host = optarg;
			break;
		case 'k':
			rc = parse_u64("--keys", optarg, 1, 1000000000, &o->keys, &err);
			break;
		case 'v':
			rc = parse_u64("--value", optarg, 0, 65536, &o->value_len, &err);
			break;
		case 'r':
			rc = parse_u64("--rounds", optarg, 1, ROUNDS_MAX, &o->rounds, &err);
			break;
		case 'n':
			rc = parse_u64("--ops", optarg, 1, 100000000, &o->ops, &err);
			break;
		case 'c':
			rc = parse_u64("--cpu-seconds", optarg, 0, 600, &o->seconds, &err);
			break;
		case 'j':
			o->json = true;
			break;
		case 'h':
			usage(stdout);
			*status = 0;
			return -1;
		case 'V':
			printf("get-bench %s\n", GRACEKV_VERSION);
			*status = 0;
			return -1;
		default:
			usage(stderr);
			return -1;
		}
	}
	if (rc == 0 && optind == argc)
		return 0;
	die("usage", rc ? err.text : "no arguments are taken (see --help)");
	return -1;
}

int main(int argc, char **argv)
{
	static struct bench b = { .o = { .keys = 1000000,
					 .value_len = 64,
					 .rounds = 9,
					 .ops = 200000,
					 .seconds = 10,
					 .memory = "4G",
					 .device = "auto",
					 .host = "127.0.0.1",
					 .connect = "tcp" } };
	char self[PATH_MAX] = "", beside[PATH_MAX + 32];
	struct error err;
	int status;

	if (parse(&b.o, argc, argv, &status))
		return status;
	if (b.o.server) {
		snprintf(b.server.address, sizeof(b.server.address), "%s", b.o.server);
		return run(&b);
	}
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return die("finding kv-server", "give it with --binary");
	snprintf(beside, sizeof(beside), "%s/../../server/kv-server", dirname(self));
	if (server_process_start(&b.server,
				 &(struct server_options){ b.o.binary ? b.o.binary : beside,
							   b.o.host, b.o.memory, b.o.device,
							   b.o.connect },
				 &err))
		return die("starting kv-server", err.text);
	status = run(&b);
	if (server_process_stop(&b.server) && status == 0)
		status = die("kv-server", "it did not stop in order");
	return status;
}
