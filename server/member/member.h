/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A server as a member of its group: its thread, gkv-group, decides by etcd's configuration and by
 * leases what the server is, and tells it. member.c has the argument.
 *
 * The hooks are called by that thread, but those in `follow` and `table`. While one runs the thread
 * does nothing else for the group, so none should take longer than a fraction of a lease.
 */
#include "server/etcd/etcd.h"
#include "server/group/registry.h"
#include "server/member/follow.h"
#include "server/member/lead.h"

struct member;

/* With what the server becomes primary. */
struct member_lead {
	struct mirror *mirror; /* for log_config.mirror; it stays until member_destroy() */
	struct follower *held; /* begin with it, and apply it: follower.h; NULL: with what it had */
	struct group_known known;
	uint64_t life; /* of this member */
};

struct member_config {
	const char *cluster, *group; /* names; they stay, as all pointers here do */
	struct etcd_config etcd;
	struct group_member self; /* node, life, and the address that others dial */
	uint64_t cluster_id[2];
	uint32_t lease_ms, rho_ppm, min_in_sync; /* of a group that it founds */
	uint64_t memory; /* bytes that its store may have */
	uint64_t ring_bytes;
	const struct rdma_device *dev; /* of rings and pulses: backup.h */
	_Atomic uint64_t *until, *clock; /* words of the root page: lease_word.h */
	const _Atomic uint64_t *sessions; /* how many there are: for people. NULL: not known */
	uint64_t before[2]; /* its lives whose log it has whole, if it was primary; 0: none */
	uint64_t answered[2]; /* those in which it may have answered anybody as primary */
	bool copied; /* its directory is a copy, which may lack what it answered since */
	bool was_member; /* it has records of this group: it founds none without being told to */

	struct follow_hooks follow;
	struct admit_table table;

	/*
	 * own - it is to be primary in @life, of a group without others, which etcd calls @named
	 * yet (0: there is no primary): it gets its records ready, if it has any, which may take
	 * long. *@position: where its log ends.
	 * lead - it is primary, and all that are in sync have what it holds: it opens its log and
	 * may answer. Returns 0, or a negative errno with @err: the server ends.
	 * news - member_look() says another role, or another configuration, in which it is in sync
	 * or not.
	 * changed - it is primary, and the configuration is another one.
	 * turn - it is primary: each turn of the thread, LEAD_TURN_MS or so. @others: there are
	 * others in sync, and etcd answers, so that one of them can take over.
	 * rest, rested - as lead.h has them.
	 * ends - it must answer nobody from the return on, and end: it may start again, and learn.
	 * -ESTALE: it is not primary any more, or was taken out; else it is not fit to go on, and
	 * why. Once; nothing is called after it.
	 */
	int (*own)(void *ctx, uint64_t life, uint64_t named, uint64_t *position, struct error *err);
	int (*lead)(void *ctx, const struct member_lead *how, struct error *err);
	void (*news)(void *ctx, bool in_sync);
	void (*changed)(void *ctx, const struct group_known *now);
	void (*turn)(void *ctx, bool others);
	void (*rest)(void *ctx, bool rests);
	bool (*rested)(void *ctx);
	void (*ends)(void *ctx, const struct error *why);
	void *ctx;
};

/*
 * member_start - asks etcd, and goes on by what it says. Returns 0 or a negative errno with @err.
 * member_stop - no worker answers anybody any more: the thread ends, and all lines. Nobody has to
 * hold the log from now on, so it can be closed. Neither other members nor etcd are told: the group
 * goes on as if the server was killed.
 * member_destroy - after that, and after the log. NULL: nothing.
 */
int member_start(struct member **out, const struct member_config *config, struct error *err);
void member_stop(struct member *m);
void member_destroy(struct member *m);

/* member_wake - a turn is wanted, as rested() says something else. Any thread. */
void member_wake(struct member *m);

/* member_call - another server, or kv-cluster, has said @first over @fd, which is non-blocking:
 * taken over. Refused where very many wait for an answer. Any thread. */
void member_call(struct member *m, int fd, const struct wire_frame *first);

enum member_role {
	MEMBER_BEGINS, /* it asks etcd what to become */
	MEMBER_WAITS, /* for others, or for a person: `why` */
	MEMBER_FOUNDS, /* or comes back: a transaction is under way */
	MEMBER_FOLLOWS,
	MEMBER_TAKES_OVER,
	MEMBER_OPENS, /* it has won, and brings the others to its log */
	MEMBER_LEADS,
	MEMBER_GIVES_WAY, /* a planned switch: it ends its sessions, or has */
	MEMBER_ENDS,
};

struct member_state {
	enum member_role role;
	struct group_known known;
	struct follow_state follow; /* one that follows */
	struct lead_state peer[MIRROR_PEERS_MAX]; /* one that opens or leads */
	uint64_t sent; /* position: the end of its log, of one that opens or leads */
	char why[160]; /* it waits, or etcd does not answer; or empty */
};

/* member_look - as of its last turn. Any thread. */
void member_look(struct member *m, struct member_state *out);
