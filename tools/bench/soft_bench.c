/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * soft-bench: what soft0 costs beyond the copies of memory that it consists of.
 *
 * Two processes. The floor: memcpy() of blocks of 64 bytes, at random places of a file that both
 * have mapped. Against it READs of the same blocks in the same random order, through ibv_post_send()
 * and ibv_poll_cq(), in lists of 16 of which the last is signalled, and one by one. Then READs of
 * private memory of the other process, which the kernel copies: one by one, and in lists; and, for
 * information, lists of neighbours, atomics on private memory, and a message there and back.
 * Rounds go through all of them in turn, so that what disturbs the machine disturbs all; medians of
 * the rounds are compared.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/parse.h"
#include "common/base/table.h"
#include "common/base/time.h"
#include "tools/bench/samples.h"
#include "tools/bench/soft_end.h"

#define ROUNDS_MAX 99
#define SELF	   "soft-bench"

struct options {
	uint64_t area, rounds, ops;
	bool json, check;
};

struct bench {
	struct options o;
	struct soft_end end;
	struct soft_other other;
	uint64_t seed;
	struct ibv_send_wr wr[SOFT_LIST];
	struct ibv_sge sge[SOFT_LIST];
};

static int die(const char *what, const char *why)
{
	fprintf(stderr, SELF ": %s: %s\n", what, why);
	return 3;
}

static uint64_t random_place(struct bench *b)
{
	return bench_random(&b->seed) % (b->o.area / SOFT_BLOCK) * SOFT_BLOCK;
}

/* What is measured: each does @ops operations and returns 0 or a negative errno. */

static int do_memcpy(struct bench *b, uint64_t ops)
{
	for (uint64_t i = 0; i < ops; i++) {
		memcpy(b->end.buffer + i % SOFT_LIST * SOFT_BLOCK,
		       b->other.mapped + random_place(b), SOFT_BLOCK);
		/* as if somebody looked at each */
		__asm__ __volatile__("" ::"r"(b->end.buffer) : "memory");
	}
	return 0;
}

static int post(struct bench *b, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int rc = ibv_post_send(b->end.qp, wr, &bad);

	return rc ? -rc : soft_end_wait(&b->end);
}

static int singles(struct bench *b, uint64_t ops, uint64_t area, uint32_t rkey)
{
	struct ibv_send_wr *wr = &b->wr[SOFT_LIST - 1]; /* signalled, and last in the list */
	int rc = 0;

	wr->wr.rdma.rkey = rkey;
	for (uint64_t i = 0; i < ops && rc == 0; i++) {
		wr->wr.rdma.remote_addr = area + random_place(b);
		rc = post(b, wr);
	}
	return rc;
}

static int lists(struct bench *b, uint64_t ops, uint64_t area, uint32_t rkey, bool neighbours)
{
	int rc = 0;

	for (uint64_t i = 0; i < ops && rc == 0; i += SOFT_LIST) {
		uint64_t first = random_place(b);

		if (first > b->o.area - SOFT_LIST * SOFT_BLOCK)
			first = 0;
		for (unsigned k = 0; k < SOFT_LIST; k++) {
			b->wr[k].wr.rdma.rkey = rkey;
			b->wr[k].wr.rdma.remote_addr =
				area + (neighbours ? first + k * SOFT_BLOCK : random_place(b));
		}
		rc = post(b, b->wr);
	}
	return rc;
}

static int do_mapped_list(struct bench *b, uint64_t ops)
{
	return lists(b, ops, b->other.hello.mapped, b->other.hello.mapped_rkey, false);
}

static int do_mapped(struct bench *b, uint64_t ops)
{
	return singles(b, ops, b->other.hello.mapped, b->other.hello.mapped_rkey);
}

static int do_private(struct bench *b, uint64_t ops)
{
	return singles(b, ops, b->other.hello.private, b->other.hello.private_rkey);
}

static int do_private_list(struct bench *b, uint64_t ops)
{
	return lists(b, ops, b->other.hello.private, b->other.hello.private_rkey, false);
}

static int do_private_near(struct bench *b, uint64_t ops)
{
	return lists(b, ops, b->other.hello.private, b->other.hello.private_rkey, true);
}

static int do_atomic(struct bench *b, uint64_t ops)
{
	struct ibv_sge sge = { .addr = (uintptr_t)b->end.buffer,
			       .length = sizeof(uint64_t),
			       .lkey = b->end.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .send_flags = IBV_SEND_SIGNALED };
	int rc = 0;

	wr.wr.atomic.remote_addr = b->other.hello.private;
	wr.wr.atomic.rkey = b->other.hello.private_rkey;
	wr.wr.atomic.compare_add = 1;
	for (uint64_t i = 0; i < ops && rc == 0; i++)
		rc = post(b, &wr);
	return rc;
}

static int do_message(struct bench *b, uint64_t ops)
{
	int rc = soft_other_echo(&b->other, ops);

	for (uint64_t i = 0; i < ops && rc == 0; i++) {
		rc = soft_post_receive(&b->end, 0);
		if (rc == 0)
			rc = soft_post_message(&b->end, 1);
		/* ours is sent, and that of the other has come; in whichever order */
		if (rc == 0)
			rc = soft_end_wait(&b->end);
		if (rc == 0)
			rc = soft_end_wait(&b->end);
	}
	return rc ? rc : soft_other_ready(&b->other);
}

enum { MEMCPY, MAPPED_LIST, MAPPED, PRIVATE, PRIVATE_LIST, PRIVATE_NEAR, ATOMIC, MESSAGE, KINDS };

static const struct kind {
	const char *name, *key;
	int (*run)(struct bench *b, uint64_t ops);
	uint64_t fewer; /* operations in a round: this part of them */
} kinds[KINDS] = {
	[MEMCPY] = { "memcpy", "memcpy_ns", do_memcpy, 1 },
	[MAPPED_LIST] = { "READ, mapped, lists of 16", "mapped_list_ns", do_mapped_list, 1 },
	[MAPPED] = { "READ, mapped, one by one", "mapped_ns", do_mapped, 2 },
	[PRIVATE] = { "READ, private, one by one", "private_ns", do_private, 10 },
	[PRIVATE_LIST] = { "READ, private, lists of 16", "private_list_ns", do_private_list, 5 },
	[PRIVATE_NEAR] = { "READ, private, lists of 16 neighbours", "private_neighbours_ns",
			   do_private_near, 2 },
	[ATOMIC] = { "atomic, private", "atomic_ns", do_atomic, 100 },
	[MESSAGE] = { "message of 64 B there and back", "message_ns", do_message, 100 },
};

static double ns[KINDS][ROUNDS_MAX];

static double median(const struct bench *b, unsigned kind)
{
	return samples_at(ns[kind], b->o.rounds, 0.5);
}

/* What is promised. */
static const struct promise {
	const char *name, *key;
	unsigned of, over;
	bool most; /* at most @bound, else at least */
	double bound;
} promises[] = {
	{ "mapped READ in lists / memcpy", "mapped_list_over_memcpy", MAPPED_LIST, MEMCPY, true,
	  6 },
	{ "private READs, one by one / in lists", "private_over_private_list", PRIVATE,
	  PRIVATE_LIST, false, 3 },
};

#define PROMISES (sizeof(promises) / sizeof(promises[0]))

static double promise_ratio(const struct bench *b, const struct promise *p)
{
	return median(b, p->of) / median(b, p->over);
}

static bool promise_kept(const struct bench *b, const struct promise *p)
{
	double ratio = promise_ratio(b, p);

	return p->most ? ratio <= p->bound : ratio >= p->bound;
}

static uint64_t kind_ops(const struct bench *b, const struct kind *kind)
{
	uint64_t ops = b->o.ops / kind->fewer / SOFT_LIST * SOFT_LIST;

	return ops ? ops : SOFT_LIST;
}

static void requests_make(struct bench *b)
{
	for (unsigned i = 0; i < SOFT_LIST; i++) {
		b->sge[i] = (struct ibv_sge){ .addr = (uintptr_t)b->end.buffer + i * SOFT_BLOCK,
					      .length = SOFT_BLOCK,
					      .lkey = b->end.mr->lkey };
		b->wr[i] = (struct ibv_send_wr){ .sg_list = &b->sge[i],
						 .num_sge = 1,
						 .opcode = IBV_WR_RDMA_READ };
		if (i < SOFT_LIST - 1)
			b->wr[i].next = &b->wr[i + 1];
		else
			b->wr[i].send_flags = IBV_SEND_SIGNALED;
	}
}

/* Round 0 warms up and is not kept. */
static int measure(struct bench *b)
{
	for (uint64_t round = 0; round <= b->o.rounds; round++) {
		for (unsigned k = 0; k < KINDS; k++) {
			uint64_t ops = kind_ops(b, &kinds[k]), start;
			int rc;

			b->seed = round;
			start = time_now_ns();
			rc = kinds[k].run(b, ops);
			if (rc)
				return die(kinds[k].name, strerror(rc < 0 ? -rc : rc));
			if (round)
				ns[k][round - 1] = (double)(time_now_ns() - start) / (double)ops;
		}
	}
	for (unsigned k = 0; k < KINDS; k++)
		samples_sort(ns[k], b->o.rounds);
	return 0;
}

static void report_table(const struct bench *b)
{
	static const char *const head[] = { "operation", ">ns min", ">ns median",
					    ">ns max",	 ">Kops/s", NULL };
	struct table *t = table_new(head);

	for (unsigned k = 0; k < KINDS; k++) {
		table_cell(t, "%s", kinds[k].name);
		table_cell(t, "%.0f", ns[k][0]);
		table_cell(t, "%.0f", median(b, k));
		table_cell(t, "%.0f", ns[k][b->o.rounds - 1]);
		table_cell(t, "%.0f", 1e6 / median(b, k));
	}
	printf(SELF " %s: blocks of %d B at random places of %" PRIu64 " MiB, %" PRIu64
		    " rounds of %" PRIu64 "\n\n",
	       GRACEKV_VERSION, SOFT_BLOCK, (uint64_t)(b->o.area >> 20), b->o.rounds, b->o.ops);
	table_print(t, stdout);
	putchar('\n');
	for (unsigned i = 0; i < PROMISES; i++)
		printf("%-38s %6.2f  (promised: at %s %g%s)\n", promises[i].name,
		       promise_ratio(b, &promises[i]), promises[i].most ? "most" : "least",
		       promises[i].bound, promise_kept(b, &promises[i]) ? "" : "; NOT KEPT");
	puts("\nThese are copies of memory on one machine. They say nothing about RDMA.");
}

static void report_json(const struct bench *b)
{
	json_t *doc = json_pack("{s:s, s:i, s:s, s:b, s:I, s:i, s:I, s:I}", "tool", SELF, "schema",
				1, "version", GRACEKV_VERSION, "software_device", 1, "area_bytes",
				(json_int_t)b->o.area, "block_bytes", SOFT_BLOCK, "rounds",
				(json_int_t)b->o.rounds, "ops", (json_int_t)b->o.ops);

	for (unsigned k = 0; k < KINDS; k++)
		json_object_set_new(doc, kinds[k].key, json_real(median(b, k)));
	for (unsigned i = 0; i < PROMISES; i++) {
		const struct promise *p = &promises[i];

		json_object_set_new(doc, p->key,
				    json_pack("{s:f, s:s, s:f, s:b}", "ratio", promise_ratio(b, p),
					      "promised", p->most ? "at most" : "at least", "bound",
					      p->bound, "kept", promise_kept(b, p)));
	}
	json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(doc);
}

static int report(const struct bench *b)
{
	int status = 0;

	if (b->o.json)
		report_json(b);
	else
		report_table(b);
	for (unsigned i = 0; i < PROMISES && b->o.check; i++) {
		if (!promise_kept(b, &promises[i]))
			status = 1;
	}
	return status;
}

static void usage(FILE *out)
{
	fputs("Usage: " SELF " [OPTIONS]\n\n"
	      "What the software device soft0 costs beyond copies of memory, as ratios in one run,\n"
	      "between this process and another one that it starts. This is not RDMA.\n\n"
	      "  -a, --area SIZE  memory of the other process, twice: mapped and private [64M]\n"
	      "  -r, --rounds N   rounds that take turns, 1 to 99 [9]\n"
	      "  -n, --ops N      copies a round; fewer of what is slower [200000]\n"
	      "  -c, --check      exit with 1 where a promised ratio is not kept\n"
	      "  -j, --json       one JSON document\n\n"
	      "Example:\n  " SELF " --rounds 21 --check\n",
	      out);
}

static const struct option long_options[] = {
	{ "area", 1, NULL, 'a' },    { "rounds", 1, NULL, 'r' }, { "ops", 1, NULL, 'n' },
	{ "check", 0, NULL, 'c' },   { "json", 0, NULL, 'j' },	 { "help", 0, NULL, 'h' },
	{ "version", 0, NULL, 'V' }, { NULL, 0, NULL, 0 },
};

/* Returns 0, or -1: exit with *status. */
static int parse(struct options *o, int argc, char **argv, int *status)
{
	struct error err = { 0 };
	int c, rc = 0;

	*status = 2;
	while (rc == 0 && (c = getopt_long(argc, argv, "a:r:n:cjhV", long_options, NULL)) != -1) {
		switch (c) {
		case 'a':
			rc = parse_size("--area", optarg, &o->area, &err);
			break;
		case 'r':
			rc = parse_u64("--rounds", optarg, 1, ROUNDS_MAX, &o->rounds, &err);
			break;
		case 'n':
			rc = parse_u64("--ops", optarg, SOFT_LIST, 100000000, &o->ops, &err);
			break;
		case 'c':
			o->check = true;
			break;
		case 'j':
			o->json = true;
			break;
		case 'h':
			usage(stdout);
			*status = 0;
			return -1;
		case 'V':
			printf(SELF " %s\n", GRACEKV_VERSION);
			*status = 0;
			return -1;
		default:
			usage(stderr);
			return -1;
		}
	}
	if (rc == 0 && (o->area < 1 << 20 || o->area > 64ull << 30))
		rc = error_set(&err, -ERANGE, "--area is from 1M to 64G");
	if (rc == 0 && optind == argc)
		return 0;
	die("usage", rc ? err.text : "no arguments are taken (see --help)");
	return -1;
}

int main(int argc, char **argv)
{
	static struct bench b = { .o = { .area = 64 << 20, .rounds = 9, .ops = 200000 } };
	struct error err = { 0 };
	int status;

	if (argc == 4 && strcmp(argv[1], "--other") == 0)
		return soft_other_main(atoi(argv[2]), strtoull(argv[3], NULL, 10));
	if (parse(&b.o, argc, argv, &status))
		return status;
	if (soft_end_open(&b.end, &err) || soft_other_start(&b.other, &b.end, b.o.area, &err)) {
		status = die("starting", err.text);
	} else {
		requests_make(&b);
		status = measure(&b);
	}
	if (status == 0)
		status = report(&b);
	if (soft_other_stop(&b.other) && status == 0)
		status = die("the other process", "it did not end in order");
	soft_end_close(&b.end);
	return status;
}
