/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What the members of a group say to each other over TCP: payloads of frames of wire_tcp.h, on the
 * port of clients. A member dials its primary.
 *
 *	member                                primary
 *	PEER_HELLO (who it is)          ->
 *	                                <-    PEER_JOINED (it is in the configuration), or REFUSE
 *	PEER_OFFER (ring, pulse)        ->
 *	                                <-    PEER_ANSWER (flow, pulse), or REFUSE
 *	PEER_READY (it has connected)   ->
 *	                                <-    PEER_BEGIN: from which position the ring has the log
 *	one that learns:
 *	                                <-    PEER_CLIENTS, again and again; the last one says so
 *	                                <-    PEER_WALK: all below that position is published
 *	PEER_CAUGHT_UP                  ->    the walk is over, and applied
 *	...
 *	REFUSE (it is not fit to go on) ->
 *	                                <-    REFUSE (WIRE_PEER_DISMISSED): a person takes it out,
 *	                                      and it shall not come back by itself
 *	BYE                             ->    or <-: the server ends
 *
 * The line stays. Its end tells that the other process has ended, or its network; nobody takes over
 * for that, only for a lease that is over.
 */
#include <errno.h>
#include <stdint.h>

#include "common/layout/fields.h"
#include "common/layout/snapshot_format.h"
#include "common/layout/wire_qp.h"

#define WIRE_PEER_DISMISSED (-ECANCELED)

/*
 * PEER_HELLO, 512 B
 *     0  layout_version 4   4 reserved0 4   8 layout_hash 8   16 cluster 16 (its identity)
 *    32  life 8 (of the node; not 0)   40 memory 8 (bytes that its store may have)
 *    48  group 64   112 node 64   176 address 280 ("HOST:PORT"), all NUL-terminated
 *   456  reserved 56
 */
struct wire_peer_hello {
	uint32_t layout_version;
	uint32_t reserved0;
	uint64_t layout_hash;
	uint64_t cluster[2];
	uint64_t life;
	uint64_t memory;
	char group[64];
	char node[64];
	char address[280];
	uint8_t reserved[56];
};

LAYOUT(struct wire_peer_hello, 512, layout_version, 0, reserved0, 4, layout_hash, 8, cluster, 16,
       life, 32, memory, 40, group, 48, node, 112, address, 176, reserved, 456);

/*
 * PEER_JOINED, 64 B
 *     0  term 8 (of the primary's rings: the one that made it primary)   8 primary 8 (its life)
 *    16  memory 8 (bytes that its records take)   24 lease_ms 4   28 rho_ppm 4   32 reserved 32
 */
struct wire_peer_joined {
	uint64_t term;
	uint64_t primary;
	uint64_t memory;
	uint32_t lease_ms;
	uint32_t rho_ppm;
	uint64_t reserved[4];
};

LAYOUT(struct wire_peer_joined, 64, term, 0, primary, 8, memory, 16, lease_ms, 24, rho_ppm, 28,
       reserved, 32);

/*
 * PEER_OFFER, 192 B
 *     0  ring_qp 64   64 pulse_qp 64   128 ring_addr 8   136 ring_bytes 8   144 ring_key 8
 *   152  ring_term 8   160 pulse_addr 8   168 ring_rkey 4   172 pulse_rkey 4   176 reserved 16
 */
struct wire_peer_offer {
	struct wire_qp ring_qp;
	struct wire_qp pulse_qp;
	uint64_t ring_addr;
	uint64_t ring_bytes;
	uint64_t ring_key;
	uint64_t ring_term;
	uint64_t pulse_addr;
	uint32_t ring_rkey;
	uint32_t pulse_rkey;
	uint64_t reserved[2];
};

LAYOUT(struct wire_peer_offer, 192, ring_qp, 0, pulse_qp, 64, ring_addr, 128, ring_bytes, 136,
       ring_key, 144, ring_term, 152, pulse_addr, 160, ring_rkey, 168, pulse_rkey, 172, reserved,
       176);

/*
 * PEER_ANSWER, 160 B
 *     0  flow_qp 64   64 pulse_qp 64   128 flow_addr 8   136 pulse_addr 8   144 flow_rkey 4
 *   148  pulse_rkey 4   152 reserved 8
 */
struct wire_peer_answer {
	struct wire_qp flow_qp;
	struct wire_qp pulse_qp;
	uint64_t flow_addr;
	uint64_t pulse_addr;
	uint32_t flow_rkey;
	uint32_t pulse_rkey;
	uint64_t reserved;
};

LAYOUT(struct wire_peer_answer, 160, flow_qp, 0, pulse_qp, 64, flow_addr, 128, pulse_addr, 136,
       flow_rkey, 144, pulse_rkey, 148, reserved, 152);

/* PEER_READY, PEER_BEGIN, PEER_WALK and PEER_CAUGHT_UP, 16 B: 0 term 8   8 position 8 (READY: 0) */
struct wire_peer_place {
	uint64_t term;
	uint64_t position;
};

LAYOUT(struct wire_peer_place, 16, term, 0, position, 8);

#define WIRE_PEER_ITEMS 12u

/*
 * PEER_CLIENTS, 976 B: of the table of clients, as a snapshot has it.
 *     0  count 4 (at most WIRE_PEER_ITEMS)   4 last 4 (1: no more come)   8 reserved 8
 *    16  item 960
 */
struct wire_peer_clients {
	uint32_t count;
	uint32_t last;
	uint64_t reserved;
	struct snapshot_client item[WIRE_PEER_ITEMS];
};

LAYOUT(struct wire_peer_clients, 976, count, 0, last, 4, reserved, 8, item, 16);
