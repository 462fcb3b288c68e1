/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * lat-bench: how long one call takes on a running server, as perftest's latency programs ask of
 * the device: one call at a time, a look at the clock around each. To be compared with them in the
 * same run, on the same machine; a ratio is what such a figure is for.
 *
 * get: gkv_get_view() of random keys: a READ of a bucket, a READ of a block.
 * mget: gkv_mget() of many random keys: a chain of READs of buckets, a chain of READs of blocks.
 * put: gkv_put() of random keys that exist: a SEND, the server's work, a SEND.
 * With --warm hints lead to all records: READs of blocks alone.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "common/layout/block.h"
#include "common/layout/size_code.h"
#include "tools/lib/program.h"
#include "tools/lib/samples.h"
#include "tools/lib/store.h"

#define KEY_LEN 12
#define WARM_UP 50
#define GROUP	64u /* keys of an mget, at most */

struct options {
	const char *server, *device, *op;
	uint64_t keys, value_len, ops, seconds, group;
	bool warm, json;
};

struct bench {
	struct options o;
	struct gkv_session *session;
	struct gkv *kv;
	unsigned char *value; /* of a put; of the keys of an mget, one behind the other */
	struct gkv_item item[GROUP];
	char key[GROUP][KEY_LEN + 1];
	double *us, total_us; /* of the calls kept; of all */
	uint64_t seed, count, gets; /* keys of all GETs */
	double reads_per_get;
	bool put, mget;
	unsigned group; /* keys of a call */
};

static struct bench bench = {
	.o = { .device = "auto",
	       .op = "get",
	       .keys = 1000,
	       .value_len = 64,
	       .ops = 1000,
	       .group = GROUP },
};

static const struct program_option options[] = {
	{ "op", 'o', PROGRAM_CHOICE, .value = &bench.o.op, .words = "get|mget|put" },
	{ "device", 'd', PROGRAM_TEXT, .value = &bench.o.device },
	{ "keys", 'k', PROGRAM_NUMBER, .value = &bench.o.keys, .min = 1, .max = 10000000 },
	{ "value", 'v', PROGRAM_NUMBER, .value = &bench.o.value_len, .min = 0, .max = 65536 },
	{ "ops", 'n', PROGRAM_NUMBER, .value = &bench.o.ops, .min = 1, .max = 100000000 },
	{ "duration", 'D', PROGRAM_NUMBER, .value = &bench.o.seconds, .min = 1, .max = 600 },
	{ "group", 'g', PROGRAM_NUMBER, .value = &bench.o.group, .min = 1, .max = GROUP },
	{ "warm", 'w', PROGRAM_FLAG, .value = &bench.o.warm },
	{ "json", 'j', PROGRAM_FLAG, .value = &bench.o.json },
	{ NULL },
};

static const struct program program = {
	.name = "lat-bench",
	.usage = "Usage: lat-bench [OPTIONS] HOST:PORT\n\n"
		 "The latency of single calls on a running kv-server, which gets the keys.\n\n"
		 "  -o, --op get|mget|put  which call [get]\n"
		 "  -d, --device NAME      RDMA device [auto]\n"
		 "  -k, --keys N           records [1000]\n"
		 "  -v, --value BYTES      their length [64]\n"
		 "  -n, --ops N            calls [1000]; with -D: how many of them are kept\n"
		 "  -D, --duration S       run for so many seconds instead\n"
		 "  -g, --group N          keys of one mget, 1 to 64 [64]\n"
		 "  -w, --warm             hints lead to all records: one READ each\n"
		 "  -j, --json             one JSON document on one line\n\n"
		 "Example:\n  lat-bench --device rxe0 --op put 10.99.0.1:7471\n",
	.options = options,
	.operand = &bench.o.server,
};

static int die(const char *what, const char *why)
{
	return program_failed(&program, what, why);
}

static void key_of(uint64_t i, char key[KEY_LEN + 1])
{
	snprintf(key, KEY_LEN + 1, "lat-%08u", (unsigned)(i % 100000000u));
}

static int connect_to_server(struct bench *b)
{
	struct gkv_options o;

	gkv_options_init(&o);
	o.server = b->o.server;
	o.device = b->o.device;
	if (!b->o.warm)
		o.hint_bytes = 0;
	return bench_store_open(&program, &o, &b->session, &b->kv);
}

static int load(struct bench *b)
{
	char key[KEY_LEN + 1];
	int rc = 0;

	for (uint64_t i = 0; i < b->o.keys && rc == 0; i++) {
		key_of(i, key);
		struct gkv_meta meta;

		rc = gkv_exists(b->kv, key, KEY_LEN, &meta);
		if (rc == -ENOENT || (rc == 0 && meta.value_len != b->o.value_len))
			rc = gkv_put(b->kv, key, KEY_LEN, b->value, b->o.value_len, NULL);
	}
	for (uint64_t i = 0; i < b->o.keys && rc == 0 && b->o.warm; i++) {
		const void *value;

		key_of(i, key);
		rc = gkv_get_view(b->kv, key, KEY_LEN, &value, NULL);
	}
	return rc ? die("loading", gkv_error(b->kv)) : 0;
}

static int other_length(void)
{
	return die("get", "a record has another length: another program writes them (end it, or "
			  "start a kv-server of its own)");
}

static int one_mget(struct bench *b, uint64_t *ns)
{
	uint64_t start;
	int rc;

	for (unsigned i = 0; i < b->group; i++) {
		key_of(bench_random(&b->seed) % b->o.keys, b->key[i]);
		b->item[i].key = b->key[i];
		b->item[i].key_len = KEY_LEN;
		b->item[i].value = b->value + i * b->o.value_len;
		b->item[i].cap = b->o.value_len;
	}
	start = time_now_ns();
	rc = gkv_mget(b->kv, b->item, b->group);
	*ns = time_now_ns() - start;
	for (unsigned i = 0; i < b->group && rc == 0; i++) {
		rc = b->item[i].status;
		if (rc == -EMSGSIZE || (rc == 0 && b->item[i].len != b->o.value_len))
			return other_length();
	}
	return rc ? die("mget", gkv_strerror(rc)) : 0;
}

/* One call; only the call is between the two looks at the clock. */
static int once(struct bench *b, uint64_t *ns)
{
	char key[KEY_LEN + 1];
	const void *value;
	struct gkv_meta meta;
	uint64_t start;
	int rc;

	if (b->mget)
		return one_mget(b, ns);
	key_of(bench_random(&b->seed) % b->o.keys, key);
	start = time_now_ns();
	rc = b->put ? gkv_put(b->kv, key, KEY_LEN, b->value, b->o.value_len, NULL)
		    : gkv_get_view(b->kv, key, KEY_LEN, &value, &meta);
	*ns = time_now_ns() - start;
	if (rc == 0 && !b->put && meta.value_len != b->o.value_len)
		return other_length();
	return rc ? die(b->put ? "put" : "get", gkv_error(b->kv)) : 0;
}

static int measure(struct bench *b)
{
	struct gkv_stats before, after;
	uint64_t ns, end;
	int rc = 0;

	for (unsigned i = 0; i < WARM_UP && rc == 0; i++)
		rc = once(b, &ns);
	gkv_stats_get(b->kv, &before);
	end = time_now_ns() + b->o.seconds * NS_PER_S;
	while (rc == 0 && (b->o.seconds ? time_now_ns() < end : b->count < b->o.ops)) {
		rc = once(b, &ns);
		/* for a span of time the last so many are kept */
		b->us[b->count++ % b->o.ops] = (double)ns / 1000;
		b->total_us += (double)ns / 1000;
	}
	gkv_stats_get(b->kv, &after);
	b->gets = after.gets - before.gets;
	if (b->gets)
		b->reads_per_get = (double)(after.reads - before.reads) / (double)b->gets;
	return rc;
}

static void report(struct bench *b)
{
	size_t n = b->count < b->o.ops ? b->count : b->o.ops;
	uint32_t block =
		size_code_bytes(size_code_for(block_bytes(KEY_LEN, (uint32_t)b->o.value_len)));
	json_t *doc;

	samples_sort(b->us, n);
	if (!b->o.json) {
		printf("%s of %" PRIu64 " B (blocks of %u B), %" PRIu64 " calls: min %.2f us, "
		       "median %.2f us, 99%% %.2f us, 99.9%% %.2f us; %.3f READs a GET\n",
		       b->o.op, b->o.value_len, block, b->count, b->us[0],
		       samples_at(b->us, n, 0.5), samples_at(b->us, n, 0.99),
		       samples_at(b->us, n, 0.999), b->reads_per_get);
		return;
	}
	doc = program_json(&program);
	json_object_update_new(
		doc,
		json_pack("{s:s, s:b, s:i, s:I, s:i, s:I, s:I, s:f, s:{s:f, s:f, s:f, s:f, s:f}}",
			  "op", b->o.op, "warm", b->o.warm, "keys_a_call", (int)b->group,
			  "value_bytes", (json_int_t)b->o.value_len, "block_bytes", (int)block,
			  "calls", (json_int_t)b->count, "gets", (json_int_t)b->gets,
			  "reads_per_get", b->reads_per_get, "lat_us", "min", b->us[0], "avg",
			  b->total_us / (double)b->count, "p50", samples_at(b->us, n, 0.5), "p99",
			  samples_at(b->us, n, 0.99), "p999", samples_at(b->us, n, 0.999)));
	program_print(doc, 0);
}

static int run(struct bench *b)
{
	int rc = connect_to_server(b);

	b->seed = 1;
	b->us = calloc(b->o.ops, sizeof(double));
	b->value = calloc(b->group, b->o.value_len + 1);
	if (rc == 0 && (!b->us || !b->value))
		rc = die("memory", "out of it");
	if (rc == 0)
		rc = load(b);
	if (rc == 0)
		rc = measure(b);
	if (rc == 0)
		report(b);
	bench_store_close(b->session, b->kv);
	free(b->us);
	free(b->value);
	return rc;
}

int main(int argc, char **argv)
{
	int status;

	if (program_options(&program, argc, argv, &status))
		return status;
	bench.put = strcmp(bench.o.op, "put") == 0;
	bench.mget = strcmp(bench.o.op, "mget") == 0;
	bench.group = bench.mget ? (unsigned)bench.o.group : 1;
	return program_end(&program, run(&bench));
}
