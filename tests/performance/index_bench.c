/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * index-bench: the local index against liburcu's cds_lfht, a hash table that grows under readers.
 *
 * One process holds both, with the same random keys of 16 bytes and the same values, the same hash
 * function, the same flavour of RCU (QSBR) with a quiescent state every 64 operations, and
 * comparison of the full key. Ours goes through server/store, as a worker of kv-server does: blocks
 * with header and checksum, versions, retirement. Theirs has its records from an arena that was
 * committed before (index_theirs.c). Both begin at about 1 MiB and grow by themselves. Phases take
 * turns between the sides, rounds go through all phases; medians of the rounds are compared.
 *
 * The time of each insert and delete is taken in phases of its own, by one writer and by several:
 * so reading the clock burdens none of the ratios, and the pauses of growth are seen.
 *
 * Hugepages matter to random access: the program wants enough for both sides, reserved, and says
 * how much of each side lies on them.
 */
#include "tests/performance/index_bench.h"
#include "tools/lib/option_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "common/layout/block.h"
#include "common/layout/limits.h"
#include "server/memory/size_class.h"

#define SELF "index-bench"

static struct index_bench bench = { .o = { .records = 10000000,
					   .value_len = 64,
					   .rounds = 3,
					   .writers = 2,
					   .group = 32,
					   .table = "order" } };

#define OPTION_BASE bench.o

static const struct program_option options[] = {
	NUMBER("records", 'n', "N", records, 1, 1000000000, "records in each table [10000000]"),
	NUMBER("value", 'v', "BYTES", value_len, 8, 1024,
	       "their length, 8 to 1024, a multiple of 8; keys have 16 [64]"),
	NUMBER("rounds", 'r', "N", rounds, 1, INDEX_ROUNDS_MAX,
	       "rounds that take turns, 1 to 99 [3]"),
	NUMBER("lookups", 'l', "N", lookups, 1, 1000000000,
	       "look-ups a round, of each sort [as many as records]"),
	NUMBER("writers", 'w', "N", writers, 1, INDEX_WRITERS_MAX,
	       "writers in the phases with several, 1 to 64 [2]"),
	NUMBER("group", 'g', "N", group, 1, INDEX_GROUP_MAX,
	       "operations whose keys GraceKV is told together, as a worker knows them of requests "
	       "that it polled together, 1 to 64 [32]"),
	FLAG("bound", 'b', bound,
	     "tell cds_lfht the number of records: it then grows by the length of its chains, "
	     "faster and to more memory; without a number that has no end"),
	CHOICE("table", 't', "order|chunk|mmap", table, "order|chunk|mmap",
	       "how cds_lfht keeps its buckets [order]"),
	FLAG("cpu-time", 'C', cpu,
	     "CPU time of the threads instead of the clock, for machines that are busy; waits are "
	     "not in it"),
	FLAG("quick", 'q', quick, "without the phases that time each operation"),
	FLAG("check", 'c', check, "exit with 1 where something promised is not kept"),
	OPTION_JSON(json),
	{ NULL },
};

const struct program index_program = {
	.name = SELF,
	.usage = "Usage: " SELF " [OPTIONS]\n\n"
		 "The local index against liburcu's cds_lfht, as ratios in one run; pauses of "
		 "writers\n"
		 "while the index grows; bytes for a record. Wants reserved hugepages for both, "
		 "and\n"
		 "says how many: echo N > /proc/sys/vm/nr_hugepages\n\n",
	.notes = "\n"
		 "Example:\n  " SELF " --records 10000000 --rounds 5 --check\n",
	.options = options,
};

static int die(const char *what, const char *why)
{
	return program_failed(&index_program, what, why);
}

static uint64_t hugepages_for(uint64_t bytes)
{
	return (bytes + INDEX_HUGEPAGE_BYTES - 1) / INDEX_HUGEPAGE_BYTES;
}

/*
 * Upper bounds. Ours: blocks, an extent of them in reserve, the index at half its usual fill, and
 * what its last extent has too much. Theirs: records, two buckets a record rounded up to a power of
 * two, and what malloc rounds.
 */
static uint64_t hugepages_needed(const struct index_options *o)
{
	uint32_t record = block_bytes(INDEX_KEY_LEN, (uint32_t)o->value_len);
	uint64_t buckets = 65536;

	while (buckets < 2 * o->records)
		buckets *= 2;
	return hugepages_for(o->records * size_class_bytes(size_class_for(record))) +
	       hugepages_for(o->records * 32) + hugepages_for(3ull * EXTENT_BYTES_MAX) +
	       hugepages_for(o->records * index_theirs_stride((uint32_t)o->value_len)) +
	       hugepages_for(buckets * 16) + hugepages_for(64 << 20);
}

int main(int argc, char **argv)
{
	struct index_bench *b = &bench;
	struct error err = { 0 };
	char why[200];
	int status;

	if (program_options(&index_program, argc, argv, &status))
		return status;
	if (b->o.value_len % INDEX_VALUE_UNIT)
		return program_usage(&index_program, "--value is a multiple of 8");
	if (b->o.check && (b->o.quick || b->o.cpu))
		return program_usage(
			&index_program,
			"--check is of all phases, by the clock (leave --quick, --cpu-time)");
	if (!b->o.lookups)
		b->o.lookups = b->o.records;
	b->hugepages_needed = hugepages_needed(&b->o);
	b->hugepages_free = index_pages_free();
	if (b->hugepages_free >= b->hugepages_needed)
		b->hugepages = index_pages_for_malloc(argv);
	if (b->o.check && !b->hugepages) {
		snprintf(why, sizeof(why),
			 "%" PRIu64 " hugepages of 2 MiB are free, %" PRIu64
			 " are needed for both sides: echo %" PRIu64
			 " > /proc/sys/vm/nr_hugepages as root",
			 b->hugepages_free, b->hugepages_needed, b->hugepages_needed);
		return die("--check", why);
	}
	if (index_measure(b, &err))
		return die("measuring", err.text);
	return program_end(&index_program, index_report(b) || !b->o.check ? 0 : 1);
}
