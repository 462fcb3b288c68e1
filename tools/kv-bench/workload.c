/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-bench/workload.h"

#include <errno.h>
#include <strings.h>

const char *const operation_name[OPERATIONS] = { "read", "update", "insert", "read-modify-write",
						 "delete" };

const char *const distribution_name[DISTRIBUTIONS] = { "uniform", "zipfian", "latest" };

static const struct workload core[] = {
	{ "A", "50 % reads, 50 % updates", { 0.5, 0.5, 0, 0, 0 }, DIST_ZIPFIAN },
	{ "B", "95 % reads, 5 % updates", { 0.95, 0.05, 0, 0, 0 }, DIST_ZIPFIAN },
	{ "C", "reads alone", { 1, 0, 0, 0, 0 }, DIST_ZIPFIAN },
	{ "D", "95 % reads of what is new, 5 % inserts", { 0.95, 0, 0.05, 0, 0 }, DIST_LATEST },
	{ "F", "50 % reads, 50 % read-modify-writes", { 0.5, 0, 0, 0.5, 0 }, DIST_ZIPFIAN },
};

const struct workload workload_gets = {
	"gets", "reads at random", { 1, 0, 0, 0, 0 }, DIST_UNIFORM
};
const struct workload workload_load = { "load", "inserts", { 0, 0, 1, 0, 0 }, DIST_UNIFORM };
const struct workload workload_delete = { "delete", "deletes", { 0, 0, 0, 0, 1 }, DIST_UNIFORM };

const struct workload *workload_find(const char *name, struct error *err)
{
	for (unsigned i = 0; i < sizeof(core) / sizeof(core[0]); i++) {
		if (strcasecmp(core[i].name, name) == 0)
			return &core[i];
	}
	if (strcasecmp(name, "E") == 0)
		error_set(err, -EOPNOTSUPP,
			  "--workload: E scans ordered ranges of keys, which this store does not "
			  "have yet (give some of A, B, C, D, F)");
	else
		error_set(err, -EINVAL, "--workload: '%.20s' is none of A, B, C, D, F", name);
	return NULL;
}

enum operation workload_choose(const struct workload *w, uint64_t random)
{
	double u = (double)(random >> 11) * 0x1p-53; /* 0 to below 1 */
	enum operation last = OP_READ;

	for (enum operation op = 0; op < OPERATIONS; op++) {
		if (w->share[op] <= 0)
			continue;
		if (u < w->share[op])
			return op;
		u -= w->share[op];
		last = op;
	}
	return last;
}
