/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The command lines of kv-bw and kv-lat. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tools/kv-bw-lat/options.h"

#define WORDS_MAX 40

/* @line split at spaces; returns what perf_options() did. */
static int take(bool latency, const char *line, struct perf_options *o, int *status)
{
	static char text[256];
	char *argv[WORDS_MAX + 2] = { text };
	int argc = 1;

	snprintf(text, sizeof(text), "program %s", line);
	for (char *at = text; (at = strchr(at, ' ')) && argc <= WORDS_MAX;) {
		*at++ = 0;
		argv[argc++] = at;
	}
	optind = 0; /* getopt_long() starts over */
	return perf_options(latency, argc, argv, o, status);
}

static struct perf_options good(bool latency, const char *line)
{
	struct perf_options o;
	int status = -1;

	if (take(latency, line, &o, &status))
		fail_msg("'%s' is refused, with %d", line, status);
	return o;
}

static void bad(bool latency, const char *line)
{
	struct perf_options o;
	int status = -1;

	if (take(latency, line, &o, &status) == 0)
		fail_msg("'%s' is taken", line);
	assert_int_equal(status, 2);
}

UNIT_TEST(defaults)
{
	struct perf_options o = good(false, "host");

	assert_string_equal(o.address, "host:7471");
	assert_int_equal(o.op, PERF_GET);
	assert_int_equal(o.sizes, 1);
	assert_int_equal(o.size[0], 65536);
	assert_int_equal(o.iterations, 0);
	assert_true(o.seconds == 1 && !o.hint_bytes && o.warm_seconds == 0 && o.idle_seconds == 0);
	assert_int_equal(o.depth, 128);
	assert_int_equal(o.qps, 1);
	assert_int_equal(o.post_list, 1);
	assert_int_equal(o.rounds, 1);
	assert_int_equal(o.mtu, PERF_UNSET);
	assert_false(o.latency);
	o = good(true, "host");
	assert_true(o.latency);
	assert_int_equal(o.size[0], 64);
	assert_int_equal(o.depth, 1);
}

/* Each letter, and nothing of the line before. */
UNIT_TEST(letters)
{
	struct perf_options o = good(false, "-d dev -i 2 -x 3 -m 1024 -p 99 -s 8 -n 7 -t 20 -q 4 "
					    "host");

	assert_string_equal(o.device, "dev");
	assert_int_equal(o.ib_port, 2);
	assert_int_equal(o.gid_index, 3);
	assert_int_equal(o.mtu, 1024);
	assert_string_equal(o.address, "host:99");
	assert_int_equal(o.size[0], 8);
	assert_int_equal(o.iterations, 7);
	assert_int_equal(o.depth, 20);
	assert_int_equal(o.qps, 4);
	o = good(false, "-l 5 -Q 6 -e -I 0 -R -F -C -H -U --report_gbits --out_json_file=f h:1");
	assert_int_equal(o.post_list, 5);
	assert_int_equal(o.moderation, 6);
	assert_int_equal(o.inline_bytes, 0);
	assert_true(o.events && o.cm && o.cycles && o.histogram && o.unsorted && o.gbits);
	assert_string_equal(o.json_file, "f");
	assert_string_equal(o.address, "h:1");
	assert_null(o.device);
	o = good(true,
		 "-D 2.5 --op mixed:1 --keys 5 --dist zipf:.5 --no-hints --rate 1e4 --json -q 2 "
		 "--threads 2 [::1]:5");
	assert_true(o.seconds == 2.5 && o.rate == 1e4 && o.theta == 0.5);
	assert_true(o.no_hints && o.json && o.op == PERF_MIXED);
	assert_int_equal(o.keys, 5);
	assert_int_equal(o.threads, 2);
	assert_string_equal(o.address, "[::1]:5");
	assert_int_equal(o.iterations, 0);
	o = good(true, "--hints 64K --warm-up 2 --idle 3 --raw-checksum host");
	assert_int_equal(o.hint_bytes, 65536);
	assert_true(o.warm_seconds == 2 && o.idle_seconds == 3 && o.raw && o.raw_checksum);
	assert_int_equal(good(true, "-U host").iterations, 1000);
	assert_int_equal(o.pkey_index + o.service_level + o.traffic_class, 0);
	o = good(true, "-S 3 --tclass=106 --pkey_index=2 host");
	assert_int_equal(o.service_level, 3);
	assert_int_equal(o.traffic_class, 106);
	assert_int_equal(o.pkey_index, 2);
	assert_int_equal(good(false, "--sl 15 host").service_level, 15);
	bad(false, "--sl 16 host");
	bad(false, "--tclass 256 host");
	bad(true, "--pkey_index 65536 host");
}

/* HOST, else the environment's. */
UNIT_TEST(servers)
{
	bad(false, "-F");
	setenv("GRACEKV_SERVER", "there:5", 1);
	assert_string_equal(good(false, "-F").address, "there:5");
	assert_string_equal(good(true, "-p 5").address, "there:5");
	assert_string_equal(good(true, "host").address, "host:7471");
	bad(false, "-p 6");
	setenv("GRACEKV_SERVER", "", 1);
	bad(false, "-F");
	unsetenv("GRACEKV_SERVER");
}

UNIT_TEST(sizes)
{
	struct perf_options o = good(false, "-a host");

	assert_int_equal(o.sizes, 23);
	assert_int_equal(o.size[0], 2);
	assert_int_equal(o.size[22], 8u << 20);
	for (unsigned i = 1; i < o.sizes; i++)
		assert_int_equal(o.size[i], 2 * o.size[i - 1]);
	o = good(true, "-s 1,4K,16M host");
	assert_int_equal(o.sizes, 3);
	assert_int_equal(o.size[0], 1);
	assert_int_equal(o.size[1], 4096);
	assert_int_equal(o.size[2], 16u << 20);
	bad(false, "-s 0 host");
	bad(false, "-s 17M host");
	bad(false, "-s 1,,2 host");
	bad(false, "-s 1, host");
	bad(false, "-s , host");
	bad(false, "-s 12345678901234567890123456789 host");
	bad(false, "-a -s 2 host");
	bad(false, "-s 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1 host");
}

UNIT_TEST(operations)
{
	struct perf_options o = good(false, "--op mixed:0.25 host");
	char text[32];

	assert_int_equal(o.op, PERF_MIXED);
	assert_true(o.get_share == 0.25);
	assert_string_equal(perf_op_name(&o, text), "mixed:0.25");
	o = good(true, "--op mget:7 host");
	assert_int_equal(o.op, PERF_MGET);
	assert_int_equal(o.group, 7);
	assert_string_equal(perf_op_name(&o, text), "mget:7");
	bad(false, "--op mget:7 host");
	bad(true, "--op mget:65 host");
	bad(true, "--op mget:0 host");
	bad(false, "--op mixed host");
	bad(false, "--op mixed:1.1 host");
	bad(false, "--op mixed:-1 host");
	bad(false, "--op mixed:nan host");
	bad(false, "--op del host");
	bad(false, "--dist zipf:1 host");
	bad(false, "--dist zipf:0 host");
	bad(false, "--dist latest host");
}

UNIT_TEST(what_does_not_go_together)
{
	bad(false, "a b");
	bad(false, "7471");
	bad(false, "host:99 -p 98");
	bad(false, "host:99999");
	bad(false, "-n 5 -D 5 host");
	bad(false, "-n 0 host");
	bad(false, "-D 0 host");
	bad(false, "-D 1s host");
	bad(false, "-q 2 --threads 3 host");
	bad(false, "-t 4 -l 5 host");
	bad(false, "-t 4 -Q 5 host");
	bad(false, "-U -D 1 host");
	bad(false, "-U -n 100000000 host");
	bad(false, "--raw --op mixed:.5 host");
	bad(false, "--raw --rate 5 host");
	bad(true, "--raw --op mget:2 host");
	bad(false, "-m 1000 host");
	bad(false, "--keep host");
	bad(false, "--name= host");
	bad(false, "--rounds 6 -n 5 host");
	bad(false, "--rate 0 host");
	bad(false, "--rate 0x10 host");
	bad(false, "-D 0x10 host");
	bad(false, "--rate 0.001 -D 0.5 host"); /* nothing is due */
	bad(false, "--rate 0.001 -n 1000000000000 host"); /* longer than clocks count */
	bad(false, "--rate 1e9 -q 63 -n 1000000000000 host");
	bad(true, "-t 5 host"); /* kv-bw's */
	bad(true, "-l 5 host");
	bad(true, "-Q 5 host");
}

/* Rather than to be taken in silence. */
UNIT_TEST(what_would_do_nothing)
{
	bad(false, "-Q 2 --rate 5 host");
	bad(true, "-e --op mget:2 host");
	bad(true, "--no-hints --op put host");
	bad(true, "--no-hints --hints 1M host");
	bad(true, "--hints 63 host");
	bad(true, "--raw-checksum --op put host");
	bad(true, "--idle 0 host");
	good(true, "-U --json host");
	good(true, "-U --out_json_file=f host");
	good(false, "-Q 1 --rate 5 host");
	good(true, "--no-hints --op mixed:.5 host");
}

/* Of --raw: so many that both sides meet the same disturbances, none too short. */
UNIT_TEST(rounds)
{
	assert_int_equal(good(false, "--raw host").rounds, 10);
	assert_int_equal(good(false, "--raw -n 1000 host").rounds, 2);
	assert_int_equal(good(false, "--raw -n 100 host").rounds, 1);
	assert_int_equal(good(false, "--raw -n 100000 host").rounds, 10);
	assert_int_equal(good(false, "--raw -D 1 host").rounds, 10);
	assert_int_equal(good(false, "--raw -D 1 --rounds 3 host").rounds, 3);
}
