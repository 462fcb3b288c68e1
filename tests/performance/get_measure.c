/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/performance/get_bench.h"

#include <errno.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tools/lib/raw_reads.h"
#include "tools/lib/samples.h"

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

static int floor_once(struct get_bench *b)
{
	uint64_t r1 = bench_random(&b->seed), r2 = bench_random(&b->seed);
	const struct extent *i = any_extent(b->index, b->index_count, r1);
	const struct extent *d = any_extent(b->data, b->data_count, r2);
	uint64_t bucket = (r1 >> 20) % (i->length / BUCKET_BYTES) * BUCKET_BYTES;
	uint64_t block = (r2 >> 20) % (d->length / b->block_len) * b->block_len;
	struct raw_reads raw = raw_reads_of(b->kv);
	int rc = raw_read(&raw, i->addr + bucket, i->rkey, BUCKET_BYTES);

	return rc ? rc : raw_read(&raw, d->addr + block, d->rkey, b->block_len);
}

int get_once(struct get_bench *b)
{
	char key[KEY_LEN + 1];
	const void *value;
	struct gkv_meta meta;
	int rc;

	get_key(bench_random(&b->seed) % b->o.keys, key);
	rc = gkv_get_view(b->kv, key, KEY_LEN, &value, &meta);
	return rc ? rc : meta.value_len == b->o.value_len ? 0 : -EBADMSG;
}

/* Making the key's text is not the store's work: its cost is measured and taken off. */
static int key_once(struct get_bench *b)
{
	char key[KEY_LEN + 1];

	get_key(bench_random(&b->seed) % b->o.keys, key);
	__asm__ __volatile__("" ::"r"(key) : "memory");
	return 0;
}

typedef int (*operation)(struct get_bench *b);

static int round_of(struct get_bench *b, operation op, double *ns_per_op)
{
	uint64_t start = time_now_ns();
	int rc = 0;

	for (uint64_t i = 0; i < b->o.ops && rc == 0; i++)
		rc = op(b);
	*ns_per_op = (double)(time_now_ns() - start) / (double)b->o.ops;
	return rc;
}

static int latencies_of(struct get_bench *b, operation op, double *out)
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

int get_measure(struct get_bench *b)
{
	struct gkv_stats before, after;
	double key_ns, ratio[ROUNDS_MAX];
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
	b->ratio = samples_ratios(b->get_ns, b->floor_ns, ratio, b->o.rounds);
	samples_sort(b->floor_ns, b->o.rounds);
	samples_sort(b->get_ns, b->o.rounds);
	return rc ? program_failed(&get_program, "measuring", gkv_strerror(rc)) : 0;
}

/* What the server had of a core in @span ns since it had had @from. */
static int share_since(struct get_bench *b, int64_t from, uint64_t span, double *share)
{
	int64_t now = server_process_cpu_ns(b->server.pid);

	if (from < 0 || now < 0)
		return program_failed(&get_program, "the server's CPU time",
				      error_name((int)-(from < 0 ? from : now)));
	*share = (double)(now - from) / (double)span;
	return 0;
}

int get_measure_cpu(struct get_bench *b)
{
	uint64_t span = b->o.seconds * NS_PER_S, end;
	int64_t cpu;
	int rc;

	if (!b->server.pid || !span)
		return 0;
	cpu = server_process_cpu_ns(b->server.pid);
	usleep((useconds_t)(b->o.seconds * 1000000));
	rc = share_since(b, cpu, span, &b->idle_cpu);
	if (rc)
		return rc;
	cpu = server_process_cpu_ns(b->server.pid);
	for (end = time_now_ns() + span; rc == 0 && time_now_ns() < end; b->busy_gets++)
		rc = get_once(b);
	return rc ? program_failed(&get_program, "reading", gkv_strerror(rc))
		  : share_since(b, cpu, span, &b->busy_cpu);
}
