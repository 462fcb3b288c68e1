/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the device does alone, on the handles' queue pairs: what READs and SENDs have in common. */
#include "tools/kv-bw-lat/perf.h"

/* One handle in a round of it. */
struct perf_raw {
	struct perf_handle *f;
	unsigned depth; /* in flight, at most */
	uint64_t todo; /* to be posted */
	uint64_t posted, done;
	struct raw_place next; /* kv-lat: the second READ of a pair; addr 0: none is due */
	unsigned unsignalled; /* READs after the last one that will be told */
	uint32_t replied,
		sent; /* SENDs: slots whose reply, whose completion has come, a bit each */
	uint64_t sequence[HANDLE_CREDITS];
	uint64_t since[HANDLE_CREDITS];
};

/*
 * perf_raw_ops - what is not the same for READs and SENDs. All return 0 or a negative errno with
 * t->error.
 * begin: @x is new; todo is set.
 * post: as many as there is room for, -l at a time.
 * completed: a completion that is good, which came by @now.
 */
struct perf_raw_ops {
	const char *what;
	int (*begin)(struct perf_thread *t, struct perf_raw *x);
	int (*post)(struct perf_thread *t, struct perf_raw *x);
	int (*completed)(struct perf_thread *t, struct perf_raw *x, const struct ibv_wc *wc,
			 uint64_t now);
};

/* perf_raw_run - a round on all handles of the thread; one after the other in kv-lat. */
int perf_raw_run(struct perf_thread *t, const struct perf_raw_ops *ops);
