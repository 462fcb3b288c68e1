/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What kv-cluster and a member of a group say to each other over TCP: payloads of frames of
 * wire_tcp.h, on the port of clients. One question, its answer, and the connection ends.
 *
 *	kv-cluster                            member
 *	GROUP_ASK (status)              ->
 *	                                <-    GROUP_STATUS (of the server, and its configuration)
 *	                                <-    GROUP_MEMBER, as many as that says
 *	GROUP_ASK (switch, remove, force) ->
 *	                                <-    GROUP_DONE, when it stands in etcd; or REFUSE
 */
#include <stdint.h>

#include "common/layout/fields.h"

#define WIRE_GROUP_MEMBERS_MAX 8u

enum wire_group_what {
	WIRE_GROUP_ASK_STATUS = 1, /* of any member */
	WIRE_GROUP_ASK_SWITCH = 2, /* of the primary: to `node`; empty: to the one that has most */
	WIRE_GROUP_ASK_REMOVE = 3, /* of the primary: takes `node` out, which ends */
	WIRE_GROUP_ASK_FORCE = 4, /* of one that waits for its group: it is to be all there is */
};

/* GROUP_ASK, 144 B:  0 what 4   4 reserved0 4   8 group 64   72 node 64 (both NUL-terminated)
 *   136 reserved 8. An empty group: whichever the server belongs to. */
struct wire_group_ask {
	uint32_t what;
	uint32_t reserved0;
	char group[64];
	char node[64];
	uint64_t reserved;
};

LAYOUT(struct wire_group_ask, 144, what, 0, reserved0, 4, group, 8, node, 72, reserved, 136);

enum wire_group_role {
	WIRE_GROUP_BEGINS = 0, /* it asks etcd what to become */
	WIRE_GROUP_WAITS = 1, /* for others, or for a person */
	WIRE_GROUP_LEARNS = 2,
	WIRE_GROUP_FOLLOWS = 3, /* it has what its primary had, and takes what comes */
	WIRE_GROUP_TAKES_OVER = 4,
	WIRE_GROUP_OPENS = 5, /* it brings the others to its log */
	WIRE_GROUP_LEADS = 6,
	WIRE_GROUP_GIVES_WAY = 7, /* a planned switch: it ends its sessions */
	WIRE_GROUP_ENDS = 8,
	WIRE_GROUP_ROLES = 9,
};

/*
 * GROUP_STATUS, 912 B: as of the server's last turn
 *     0  life 8 (of the server)   8 term 8 (0: it knows none yet)   16 primary 8 (a life)
 *    24  lease_left_us 8 (until which a primary may answer)   32 position 8 (end of a primary's
 *        log; of a backup: what it holds)   40 applied 8 (of a backup)
 *    48  role 4   52 lease_ms 4   56 min_in_sync 4   60 members 4 (frames that follow)
 *    64  rho_ppm 4   68 sessions 4   72 memory 8 (bytes that its records may take)
 *    80  cluster 64   144 group 64   208 node 64   272 address 280, all NUL-terminated
 *   552  why 160 (the configuration is what it is)   712 waits 160 (what it waits for, or that etcd
 *        does not answer; or empty)   872 reserved 40
 */
struct wire_group_status {
	uint64_t life;
	uint64_t term;
	uint64_t primary;
	uint64_t lease_left_us;
	uint64_t position;
	uint64_t applied;
	uint32_t role;
	uint32_t lease_ms;
	uint32_t min_in_sync;
	uint32_t members;
	uint32_t rho_ppm;
	uint32_t sessions;
	uint64_t memory;
	char cluster[64];
	char group[64];
	char node[64];
	char address[280];
	char why[160];
	char waits[160];
	uint64_t reserved[5];
};

LAYOUT(struct wire_group_status, 912, life, 0, term, 8, primary, 16, lease_left_us, 24, position,
       32, applied, 40, role, 48, lease_ms, 52, min_in_sync, 56, members, 60, rho_ppm, 64, sessions,
       68, memory, 72, cluster, 80, group, 144, node, 208, address, 272, why, 552, waits, 712,
       reserved, 872);

/* What a primary is about to do with a member; 0 for its own line, and where a backup is asked. */
enum wire_group_stage {
	WIRE_GROUP_AWAITED = 1, /* in sync, and not with this primary yet */
	WIRE_GROUP_CONNECTS = 2,
	WIRE_GROUP_WALKS = 3,
	WIRE_GROUP_CATCHES_UP = 4,
	WIRE_GROUP_IN_SYNC = 5,
	WIRE_GROUP_CUT = 6, /* it is being taken out: `why` */
	WIRE_GROUP_STAGES = 7,
};

/*
 * GROUP_MEMBER, 488 B
 *     0  life 8   8 in_sync 4 (1: yes)   12 stage 4
 *    16  held 8 (position: all below is in its ring)   24 applied 8   32 granted_left_us 8 (until
 *        which it does not take over)   40 node 64   104 address 280   384 why 96   480 reserved 8
 */
struct wire_group_member {
	uint64_t life;
	uint32_t in_sync;
	uint32_t stage;
	uint64_t held;
	uint64_t applied;
	uint64_t granted_left_us;
	char node[64];
	char address[280];
	char why[96];
	uint64_t reserved;
};

LAYOUT(struct wire_group_member, 488, life, 0, in_sync, 8, stage, 12, held, 16, applied, 24,
       granted_left_us, 32, node, 40, address, 104, why, 384, reserved, 480);

/* GROUP_DONE, 176 B:  0 term 8 (of the configuration that stands)   8 why 160   168 reserved 8 */
struct wire_group_done {
	uint64_t term;
	char why[160];
	uint64_t reserved;
};

LAYOUT(struct wire_group_done, 176, term, 0, why, 8, reserved, 168);
