/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What all groups of a cluster have in common, in etcd: what it is, which never changes, and the
 * counter of lives.
 *	/gracekv/NAME/cluster	{"format": 1, "id": {"high": "16 hex digits", "low": ...},
 *				 "hash_seed": "16 hex digits"}
 *	/gracekv/NAME/lives	{"format": 1, "life": 17}
 */
#include <stdint.h>

#include "server/etcd/etcd.h"

struct cluster_facts {
	uint64_t id[2]; /* random */
	uint64_t hash_seed; /* of all stores, so that an order by hash is the same on each */
};

/*
 * cluster_join - @out: what stands in etcd; where nothing does, @own is what stands from now on. Of
 * servers that found a cluster at once, one is first. Returns 0; -EINVAL: @name is none; -EPROTO,
 * -ENOTSUP: what stands is none, or of a later version; else as etcd_get().
 */
int cluster_join(struct etcd *e, const char *name, const struct cluster_facts *own,
		 struct cluster_facts *out, struct error *err);

/*
 * cluster_draw_life - a life of versions (LIFE_BITS) that nobody in the cluster was given or will
 * be, above @least. One that nobody begins is lost, and there are a million. Returns the same;
 * -EOVERFLOW: there are no more.
 */
int cluster_draw_life(struct etcd *e, const char *name, uint64_t least, uint64_t *out,
		      struct error *err);
