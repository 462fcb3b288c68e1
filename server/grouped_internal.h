/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What grouped.c and grouped_data.c share. */
#include <stdatomic.h>

#include "client/include/gracekv.h"
#include "server/group/cluster.h"
#include "server/grouped.h"
#include "server/member/member.h"
#include "server/replay/replay.h"
#include "server/server.h"

struct grouped {
	struct server *s;
	struct etcd_config etcd;
	struct etcd *asks; /* the cluster's keys: of the main thread, then gkv-group's */
	struct cluster_facts facts;
	struct rdma_device *dev; /* of rings and pulses */
	struct member *member;
	/* See above. */
	struct replay *replay;
	struct gkv *walk; /* a client of the primary, while it walks */
	struct gkv_cursor *cursor;
	struct log_memory log_memory; /* for it, taken before it is wanted */
	struct log *log; /* with a data directory that one's, from the day it learns */
	_Atomic uint64_t in_store; /* position: a learner's, or backup's, store has all below */
	uint64_t kept; /* bytes of records since then: gkv-apply's */
	uint64_t saving; /* the snapshot that a learner waits for; 0: none. The same */
	_Atomic bool leads; /* `doors` say what is in the store */
	bool refuses; /* writes: gkv-group's */
	struct {
		uint64_t call; /* of the log's disk, log_at_disk(); 0: none */
		uint64_t looked_ns, hangs_ns; /* when it was last seen; for how long it was */
	} disk; /* a primary's: gkv-group's */
	_Atomic bool open;
	_Atomic bool stops; /* grouped_stop() was called */
	/* It ends. */
	_Atomic bool ends; /* the rest was written before */
	bool again;
	struct error why;
};

/* grouped_stopping - the server ends: who waits gives up. Any thread. */
bool grouped_stopping(void *ctx);

/*
 * A member's data directory, grouped_data.c. All but the first do nothing without one, and return 0
 * or a negative errno with @err.
 *
 * grouped_data_proposes - what a cluster that is not there yet should be. grouped_data_join - it is
 * that: the main thread.
 * grouped_data_begin - the log begins at @position, in @term: gkv-apply, before the first record.
 * grouped_data_keep - the next record of it; before it is given to the store. No @err.
 * grouped_data_save - all that the walk brought is in the store: 1: call it again; 0: the directory
 * has everything.
 * grouped_data_own - see member.h.
 * grouped_data_lead - all that is held is in log and store; *@version is raised to the greatest
 * that the directory may have.
 * grouped_data_watch - of a primary, again and again: if its disk hangs it gives way, where @others
 * can go on without it.
 * begin and own are hooks of the member, @ctx: struct grouped.
 */
void grouped_data_proposes(const struct grouped *g, struct cluster_facts *own);
int grouped_data_join(struct grouped *g, struct error *err);
int grouped_data_begin(void *ctx, uint64_t term, uint64_t position, struct error *err);
int grouped_data_keep(struct grouped *g, const struct log_record *r);
int grouped_data_save(struct grouped *g, struct error *err);
int grouped_data_own(void *ctx, uint64_t life, uint64_t named, uint64_t *position,
		     struct error *err);
void grouped_data_watch(struct grouped *g, bool others);
int grouped_data_lead(struct grouped *g, const struct member_lead *how, uint64_t *version,
		      struct error *err);
