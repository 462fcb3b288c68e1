/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/parse.h"
#include "tools/kv-bench/kv_bench.h"
#include "tools/lib/words.h"

#define ITEM_MAX    32
#define MIB	    (1ull << 20)
#define HEAD	    256u /* of a record, besides its value */
#define SWEEP_BYTES (64 * MIB) /* of values of one size */
#define SIZES	    "64,256,1024,4096,16384,65536"
#define DEPTHS	    "1,2,4,8,16,32"
#define PROMISED    "64,1024"

static const struct {
	const char *name;
	enum system_kind kind[2];
} peers[] = {
	{ "redis", { SYSTEM_REDIS_UNIX, SYSTEM_REDIS_TCP } },
	{ "memcached", { SYSTEM_MEMCACHED, SYSTEM_MEMCACHED } },
	{ "tcp", { SYSTEM_FLOOR, SYSTEM_FLOOR } },
};

static int settle_workloads(struct bench_options *o, struct error *err)
{
	const char *list = o->workloads_text;
	char item[ITEM_MAX];
	int rc;

	while ((rc = words_next("--workload", &list, item, sizeof(item), err)) > 0) {
		const struct workload *w = workload_find(item, err);

		if (!w)
			return err->code;
		for (unsigned i = 0; i < o->workloads; i++) {
			if (o->workload[i] == w)
				return error_set(err, -EINVAL, "--workload: %s stands there twice",
						 w->name);
		}
		o->workload[o->workloads++] = w;
	}
	return rc;
}

static int settle_peers(struct bench_options *o, struct error *err)
{
	const char *list = o->peers_text[0] ? o->peers_text : NULL;
	char item[ITEM_MAX];
	int rc;

	o->wanted[SYSTEM_GRACEKV] = true;
	while ((rc = words_next("--peer", &list, item, sizeof(item), err)) > 0) {
		bool all = strcmp(item, "all") == 0, known = all;

		for (unsigned i = 0; i < sizeof(peers) / sizeof(peers[0]); i++) {
			if (!all && strcmp(item, peers[i].name) != 0)
				continue;
			known = true;
			o->wanted[peers[i].kind[0]] = o->wanted[peers[i].kind[1]] = true;
		}
		if (!known)
			return error_set(err, -EINVAL,
					 "--peer: '%s' is none of redis, memcached, tcp, all",
					 item);
		o->wanted[SYSTEM_FLOOR] = true;
	}
	return rc;
}

/* Numbers in rising order, from @min to @max. */
static int settle_points(const char *what, const char *list, uint64_t min, uint64_t max,
			 uint64_t point[POINTS_MAX], unsigned *points, struct error *err)
{
	char item[ITEM_MAX];
	uint64_t v;
	int rc;

	if (list && strcmp(list, "none") == 0)
		return 0;
	while ((rc = words_next(what, &list, item, sizeof(item), err)) > 0) {
		rc = parse_size(what, item, &v, err);
		if (rc)
			return rc;
		if (v < min || v > max)
			return error_set(err, -ERANGE,
					 "%s: %s is out of range (give %" PRIu64 " to %" PRIu64 ")",
					 what, item, min, max);
		if (*points == POINTS_MAX)
			return error_set(err, -E2BIG, "%s: more than %u (give fewer)", what,
					 POINTS_MAX);
		if (*points && v <= point[*points - 1])
			return error_set(err, -EINVAL,
					 "%s: %s comes after %" PRIu64
					 "; give them in rising order",
					 what, item, point[*points - 1]);
		point[(*points)++] = v;
	}
	return rc;
}

static bool has_size(const struct bench_options *o, uint64_t size)
{
	for (unsigned i = 0; i < o->sizes; i++) {
		if (o->size[i] == size)
			return true;
	}
	return false;
}

static int settle_sweeps(struct bench_options *o, struct error *err)
{
	int rc;

	if (!o->sizes_text)
		o->sizes_text = o->report ? SIZES : o->check ? PROMISED : "none";
	if (!o->depths_text)
		o->depths_text = o->report ? DEPTHS : "none";
	rc = settle_points("--sizes", o->sizes_text, 1, RECORD_MAX, o->size, &o->sizes, err);
	if (rc == 0)
		rc = settle_points("--depths", o->depths_text, 1, DEPTH_MAX, o->depth_at,
				   &o->depths, err);
	if (rc || !o->check)
		return rc;
	if (!has_size(o, 64) || !has_size(o, 1024))
		return error_set(err, -EINVAL,
				 "--check is of values of 64 and 1024 bytes: --sizes "
				 "wants both");
	if (!o->wanted[SYSTEM_REDIS_UNIX] || !o->wanted[SYSTEM_MEMCACHED])
		return error_set(err, -EINVAL,
				 "--check is against redis and memcached: give both by --peer");
	return 0;
}

static int settle_limits(struct bench_options *o, struct error *err)
{
	uint64_t depth = o->depth, longest = o->fields * o->field_len;

	o->record_len = longest;
	if (longest > RECORD_MAX)
		return error_set(err, -ERANGE,
				 "a record of --fields times --field-length is %" PRIu64
				 " bytes, at most %u are possible",
				 longest, RECORD_MAX);
	if (o->depths && o->depth_at[o->depths - 1] > depth)
		depth = o->depth_at[o->depths - 1];
	if (longest * depth * o->threads > IN_FLIGHT)
		return error_set(err, -ERANGE,
				 "%" PRIu64 " records of %" PRIu64
				 " bytes in flight are too many (give fewer --threads or a smaller "
				 "--depth)",
				 depth * o->threads, longest);
	if (o->records < o->threads)
		return error_set(err, -ERANGE, "--records are fewer than --threads");
	return 0;
}

static int settle_distribution(struct bench_options *o, struct error *err)
{
	o->distribution = DISTRIBUTIONS;
	for (unsigned i = 0; o->distribution_text && i < DISTRIBUTIONS; i++) {
		if (strcmp(o->distribution_text, distribution_name[i]) == 0)
			o->distribution = i;
	}
	return 0;
}

int options_settle(struct bench_options *o, struct error *err)
{
	int rc = words_seconds("--seconds", o->seconds, SECONDS_MIN, SECONDS_MAX, &o->duration_ns,
			       err);

	if (rc == 0)
		rc = settle_workloads(o, err);
	if (rc == 0)
		rc = settle_peers(o, err);
	if (rc == 0)
		rc = settle_distribution(o, err);
	if (rc == 0)
		rc = settle_sweeps(o, err);
	if (rc == 0)
		rc = settle_limits(o, err);
	if (rc == 0 && o->server && o->binary)
		rc = error_set(err, -EINVAL, "--server and --binary do not go together");
	return rc;
}

/*
 * A record in a store, at most: all round sizes up; ours has slabs of its own for a large one, with
 * some bytes of its block before the value.
 */
static uint64_t bytes_of(uint64_t len)
{
	len += HEAD;
	return len > MIB / 4 ? (len + MIB - 1) / MIB * MIB : len + len / 3;
}

uint64_t options_memory(const struct bench_options *o)
{
	uint64_t deepest = o->depths ? o->depth_at[o->depths - 1] : 1, bytes = 256 * MIB;
	bool inserts = false;

	for (unsigned i = 0; i < o->workloads; i++)
		inserts = inserts || o->workload[i]->share[OP_INSERT] > 0;
	bytes += o->records * (inserts ? 2 : 1) * bytes_of(o->record_len);
	for (unsigned i = 0; i < o->sizes; i++)
		bytes += sweep_records(o, o->size[i]) * bytes_of(o->size[i]);
	/* what is replaced or deleted is free again a bit later */
	deepest = deepest > o->depth ? deepest : o->depth;
	return bytes + o->threads * deepest * bytes_of(o->record_len);
}

uint64_t sweep_records(const struct bench_options *o, uint64_t size)
{
	return SWEEP_BYTES / size < o->records ? SWEEP_BYTES / size : o->records;
}
