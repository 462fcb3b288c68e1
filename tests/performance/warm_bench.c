/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * warm-bench: what a GET costs whose record the process remembers, so that it is one READ.
 *
 * Four parts, in one run and in rounds that take turns; a figure is the median of the rounds'
 * ratios.
 *	sync	GETs one by one against raw READs of the block's length, one by one
 *	depth	mgets of 32, and GETs 32 in flight, against raw READs in chains of 32, with an XXH3
 *		of each block
 *	redis	the same GETs against redis-benchmark on a redis-server with as many keys
 *	zipf	READs for each GET where keys are asked for by Zipf's law, with more keys than hints
 * Raw READs and GETs go through the same list of random keys; where their blocks lie was learned
 * from hints beforehand.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/layout/block.h"
#include "common/layout/size_code.h"
#include "tools/lib/machine.h"
#include "tools/lib/store.h"
#include "tests/performance/warm_bench.h"

#define MIB (1ull << 20)

static struct warm_bench bench = { .o = { .keys = 1000000,
					  .zipf_keys = 10000000,
					  .value_len = 64,
					  .rounds = 9,
					  .seconds = 9,
					  .hint_bytes = 64 * MIB,
					  .only = "sync,depth,redis,zipf",
					  .device = "auto",
					  .host = "127.0.0.1",
					  .connect = "tcp" } };

static const struct program_option options[] = {
	{ "only", 'o', PROGRAM_TEXT, .value = &bench.o.only },
	{ "binary", 'B', PROGRAM_TEXT, .value = &bench.o.binary },
	{ "device", 'd', PROGRAM_TEXT, .value = &bench.o.device },
	{ "connect", 'C', PROGRAM_CHOICE, .value = &bench.o.connect, .words = "tcp|cm" },
	{ "listen", 'l', PROGRAM_TEXT, .value = &bench.o.host },
	{ "keys", 'k', PROGRAM_NUMBER, .value = &bench.o.keys, .min = 1, .max = 1000000000 },
	{ "zipf-keys", 'z', PROGRAM_NUMBER, .value = &bench.o.zipf_keys, .min = 1,
	  .max = 100000000 },
	{ "value", 'v', PROGRAM_NUMBER, .value = &bench.o.value_len, .min = 1,
	  .max = WARM_VALUE_MAX },
	{ "hints", 'H', PROGRAM_SIZE, .value = &bench.o.hint_bytes, .min = 0, .max = 64ull << 30 },
	{ "rounds", 'r', PROGRAM_NUMBER, .value = &bench.o.rounds, .min = 5,
	  .max = WARM_ROUNDS_MAX },
	{ "seconds", 's', PROGRAM_NUMBER, .value = &bench.o.seconds, .min = 1, .max = 3600 },
	{ "no-redis", 'R', PROGRAM_FLAG, .value = &bench.o.no_redis },
	{ "cpu-time", 'p', PROGRAM_FLAG, .value = &bench.o.cpu },
	{ "check", 'c', PROGRAM_FLAG, .value = &bench.o.check },
	{ "json", 'j', PROGRAM_FLAG, .value = &bench.o.json },
	{ NULL },
};

const struct program warm_program = {
	.name = "warm-bench",
	.usage =
		"Usage: warm-bench [OPTIONS]\n\n"
		"What a GET costs that a hint leads to, as ratios in one run: against raw READs,\n"
		"one by one and at depth 32, and against Redis; READs for each GET by Zipf's law\n"
		"(0.99). Starts kv-servers and a redis-server of its own.\n\n"
		"  -o, --only LIST         of sync,depth,redis,zipf [all]\n"
		"  -B, --binary FILE       the kv-server to start [of the same build]\n"
		"  -d, --device NAME       RDMA device [auto]\n"
		"  -C, --connect tcp|cm    how queue pairs are connected [tcp]\n"
		"  -l, --listen HOST       address of the servers that it starts [127.0.0.1]\n"
		"  -k, --keys N            records; the fewer ones of zipf [1000000]\n"
		"  -z, --zipf-keys N       the more ones of zipf; they take 160 B each [10000000]\n"
		"  -v, --value BYTES       length of values, but those of zipf: 8 [64]\n"
		"  -H, --hints SIZE        memory for hints, 0: none [64M]\n"
		"  -r, --rounds N          rounds that take turns, 5 to 99 [9]\n"
		"  -s, --seconds S         for each kind of operation, in all rounds together [9]\n"
		"  -R, --no-redis          without Redis\n"
		"  -p, --cpu-time          CPU time of our thread instead of the clock, for machines\n"
		"                          that do other things as well; without Redis\n"
		"  -c, --check             exit with 1 where a promise is not kept\n"
		"  -j, --json              one JSON document\n\n"
		"Example:\n  warm-bench --only sync,depth --rounds 21 --check\n",
	.options = options,
};

static bool names(const char *list, const char *part)
{
	size_t len = strlen(part);

	for (const char *w = list; w; w = strchr(w, ',')) {
		w += *w == ',';
		if (strcspn(w, ",") == len && strncmp(w, part, len) == 0)
			return true;
	}
	return false;
}

bool warm_part(const struct warm_bench *b, const char *part)
{
	return names(b->o.only, part);
}

static bool only_parts(char *list)
{
	char *rest = NULL;

	for (char *w = strtok_r(list, ",", &rest); w; w = strtok_r(NULL, ",", &rest)) {
		if (!names("sync,depth,redis,zipf", w))
			return false;
	}
	return true;
}

int warm_server(struct warm_bench *b, uint64_t keys, uint32_t block_len)
{
	/* what a record takes in the index comes to 20 B; slots of a new segment are empty */
	uint64_t bytes = keys * (block_len + 96) + 128 * MIB, has = machine_memory();
	char memory[32], why[160];
	struct error err;

	if (has && bytes > has) {
		snprintf(why, sizeof(why),
			 "%" PRIu64 " keys take %" PRIu64 " MiB, there are %" PRIu64
			 " (give fewer by --keys and --zipf-keys)",
			 keys, (uint64_t)(bytes / MIB), (uint64_t)(has / MIB));
		return warm_failed("memory", why);
	}
	snprintf(memory, sizeof(memory), "%" PRIu64 "M", (uint64_t)(bytes / MIB + 1));
	if (server_process_start(&b->server,
				 &(struct server_options){ b->o.binary, b->o.host, memory,
							   b->o.device, b->o.connect, NULL },
				 &err))
		return warm_failed("starting kv-server", err.text);
	return 0;
}

int warm_server_end(struct warm_bench *b, int status)
{
	gkv_close(b->floor);
	bench_store_close(b->session, b->kv);
	b->floor = b->kv = NULL;
	b->session = NULL;
	if (server_process_stop(&b->server) && status == 0)
		return warm_failed("kv-server", "it did not stop in order");
	return status;
}

int warm_connect(struct warm_bench *b, uint64_t hint_bytes)
{
	struct gkv_options o;
	int rc;

	gkv_options_init(&o);
	o.server = b->server.address;
	o.device = b->o.device;
	o.connect = strcmp(b->o.connect, "cm") == 0 ? GKV_CONNECT_CM : GKV_CONNECT_TCP;
	o.hint_bytes = hint_bytes;
	rc = bench_store_open(&warm_program, &o, &b->session, &b->kv);
	if (rc == 0) {
		snprintf(b->device, sizeof(b->device), "%s", b->session->dev->name);
		b->software = b->session->dev->software;
	}
	return rc;
}

/* The parts that are about time. */
static int timed(struct warm_bench *b)
{
	char why[ERROR_TEXT_MAX];
	int rc = warm_part(b, "redis") ? warm_redis_start(b) : 0;

	b->keys = (struct warm_keys){ b->o.keys, WARM_KEY_LEN, (uint32_t)b->o.value_len };
	b->block_len = size_code_bytes(size_code_for(block_bytes(WARM_KEY_LEN, b->keys.value_len)));
	if (rc == 0)
		rc = warm_server(b, b->o.keys, b->block_len);
	if (rc == 0)
		rc = warm_places(b);
	if (rc == 0)
		rc = warm_connect(b, b->o.hint_bytes);
	if (rc == 0 && gkv_open(b->session, NULL, &b->floor, why, sizeof(why)))
		rc = warm_failed("connecting", why);
	if (rc == 0 && warm_read_all(b->kv, &b->keys, why, sizeof(why)))
		rc = warm_failed("reading", why);
	if (rc == 0)
		rc = warm_measure(b);
	free(b->step);
	b->step = NULL;
	redis_stop(&b->redis);
	return warm_server_end(b, rc);
}

static int run(struct warm_bench *b)
{
	int rc = 0;

	b->seed = 1;
	b->redis.fd = -1;
	if (warm_part(b, "sync") || warm_part(b, "depth") || warm_part(b, "redis")) {
		b->keys = (struct warm_keys){ b->o.keys, WARM_KEY_LEN, (uint32_t)b->o.value_len };
		b->block_len = size_code_bytes(
			size_code_for(block_bytes(WARM_KEY_LEN, b->keys.value_len)));
		if (b->o.check && b->o.keys * b->block_len < WARM_AREA)
			return warm_failed("--check", "what is timed needs blocks of 64 MiB, which "
						      "caches do not hold (give more --keys, or "
						      "--only zipf)");
		rc = timed(b);
	}
	if (rc == 0 && warm_part(b, "zipf"))
		rc = warm_zipf(b);
	return rc ? rc : warm_report(b);
}

int main(int argc, char **argv)
{
	struct warm_bench *b = &bench;
	char *list;
	int status;
	bool known;

	if (program_options(&warm_program, argc, argv, &status))
		return status;
	list = strdup(b->o.only);
	known = list && *list && only_parts(list);
	free(list);
	if (!known) {
		warm_failed("usage", "--only is a list of sync,depth,redis,zipf (see --help)");
		return 2;
	}
	if (b->o.check && b->o.cpu) {
		warm_failed("usage", "--check is by the clock (leave --cpu-time)");
		return 2;
	}
	return program_end(&warm_program, run(b));
}
