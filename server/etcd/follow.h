/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * One key of etcd, followed by a thread of its own: what it is now, whenever it has changed, and
 * whether etcd answers at all.
 */
#include "server/etcd/etcd.h"

struct etcd_follow;

struct etcd_follow_config {
	const struct etcd_config *etcd; /* copied */
	const char *key; /* copied */
	/*
	 * The key was read, linearizably, and is another one than what was told before; the first
	 * time it is told in any case. @v stays until the call returns. Values that were there for
	 * a moment may be left out; none comes twice, and none after a later one, unless etcd has
	 * lost that. The thread's.
	 */
	void (*told)(void *ctx, const struct etcd_value *v);
	/* Etcd answers, or does not any more: @why, NULL: it does. At each change. The thread's. */
	void (*heard)(void *ctx, const char *why);
	void *ctx;
};

/*
 * etcd_follow_start - returns 0, or a negative errno with @err, as etcd_open().
 * etcd_follow_stop - no function is called any more. It may wait for one that runs.
 */
int etcd_follow_start(struct etcd_follow **out, const struct etcd_follow_config *config,
		      struct error *err);
void etcd_follow_stop(struct etcd_follow *f);
