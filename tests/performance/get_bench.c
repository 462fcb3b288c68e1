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
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/layout/block.h"
#include "common/layout/size_code.h"
#include "tests/performance/get_bench.h"
#include "tools/lib/store.h"

static struct get_bench bench = { .o = { .keys = 1000000,
					 .value_len = 64,
					 .rounds = 9,
					 .ops = 200000,
					 .seconds = 10,
					 .memory = "4G",
					 .device = "auto",
					 .host = "127.0.0.1",
					 .connect = "tcp" } };

static const struct program_option options[] = {
	{ "server", 's', PROGRAM_TEXT, .value = &bench.o.server },
	{ "binary", 'B', PROGRAM_TEXT, .value = &bench.o.binary },
	{ "memory", 'M', PROGRAM_TEXT, .value = &bench.o.memory },
	{ "device", 'd', PROGRAM_TEXT, .value = &bench.o.device },
	{ "connect", 'C', PROGRAM_CHOICE, .value = &bench.o.connect, .words = "tcp|cm" },
	{ "listen", 'l', PROGRAM_TEXT, .value = &bench.o.host },
	{ "keys", 'k', PROGRAM_NUMBER, .value = &bench.o.keys, .min = 1, .max = 1000000000 },
	{ "value", 'v', PROGRAM_NUMBER, .value = &bench.o.value_len, .min = 0, .max = 65536 },
	{ "rounds", 'r', PROGRAM_NUMBER, .value = &bench.o.rounds, .min = 1, .max = ROUNDS_MAX },
	{ "ops", 'n', PROGRAM_NUMBER, .value = &bench.o.ops, .min = 1, .max = 100000000 },
	{ "cpu-seconds", 'c', PROGRAM_NUMBER, .value = &bench.o.seconds, .min = 0, .max = 600 },
	{ "json", 'j', PROGRAM_FLAG, .value = &bench.o.json },
	{ NULL },
};

const struct program get_program = {
	.name = "get-bench",
	.usage =
		"Usage: get-bench [OPTIONS]\n\n"
		"What a one-sided GET costs beyond its two READs, as a ratio in one run; the server's\n"
		"CPU meanwhile; bytes for a record. Starts a kv-server of its own.\n\n"
		"  -s, --server HOST:PORT  a running one instead (no CPU figures; it gets the keys)\n"
		"  -B, --binary FILE       the kv-server to start [of the same build]\n"
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
	.options = options,
};

static int die(const char *what, const char *why)
{
	return program_failed(&get_program, what, why);
}

void get_key(uint64_t i, char key[KEY_LEN + 1])
{
	snprintf(key, KEY_LEN + 1, "key-%012" PRIu64, (uint64_t)(i % 1000000000000ull));
}

static int load(struct get_bench *b)
{
	char *value = calloc(1, b->o.value_len + 1), key[KEY_LEN + 1];
	int rc = value ? 0 : -ENOMEM;

	for (uint64_t i = 0; i < b->o.keys && rc == 0; i++) {
		get_key(i, key);
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
static int find_extents(struct get_bench *b)
{
	struct world *w = b->kv->reader.world;

	for (unsigned i = 0; i < EXTENTS_MAX; i++) {
		const struct extent *x = world_find_extent(w, i);

		if (x && x->kind == EXTENT_INDEX && b->index_count < EXTENTS_OF)
			b->index[b->index_count++] = *x;
		if (x && x->kind == EXTENT_DATA && b->data_count < EXTENTS_OF)
			b->data[b->data_count++] = *x;
	}
	b->block_len =
		size_code_bytes(size_code_for(block_bytes(KEY_LEN, (uint32_t)b->o.value_len)));
	return b->index_count && b->data_count ? 0 : die("extents", "none was read");
}

static int connect_to_server(struct get_bench *b)
{
	struct gkv_options o;

	gkv_options_init(&o);
	o.server = b->server.address;
	o.device = b->o.device;
	o.hint_bytes = 0; /* by the index */
	o.connect = strcmp(b->o.connect, "cm") == 0 ? GKV_CONNECT_CM : GKV_CONNECT_TCP;
	return bench_store_open(&get_program, &o, &b->session, &b->kv);
}

static int run(struct get_bench *b)
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
		rc = get_measure(b);
	if (rc == 0)
		rc = get_measure_cpu(b);
	if (rc == 0)
		rc = get_report(b);
	bench_store_close(b->session, b->kv);
	free(b->floor_lat);
	free(b->get_lat);
	return rc;
}

int main(int argc, char **argv)
{
	struct get_bench *b = &bench;
	struct error err;
	int status;

	if (program_options(&get_program, argc, argv, &status))
		return status;
	if (b->o.server) {
		snprintf(b->server.address, sizeof(b->server.address), "%s", b->o.server);
		return program_end(&get_program, run(b));
	}
	if (server_process_start(&b->server,
				 &(struct server_options){ b->o.binary, b->o.host, b->o.memory,
							   b->o.device, b->o.connect, NULL },
				 &err))
		return die("starting kv-server", err.text);
	status = run(b);
	if (server_process_stop(&b->server) && status == 0)
		status = die("kv-server", "it did not stop in order");
	return program_end(&get_program, status);
}
