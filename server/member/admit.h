/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The primary's end of the line to a member, from the moment when the configuration has it until it
 * needs nothing more but the log: wire_peer.h has the frames, join.h the other end. Each call
 * sleeps until its deadline at the latest; a shutdown() of the socket ends it before. One thread,
 * which has the peer's place in the mirror meanwhile.
 */
#include "common/rdma/exchange.h"
#include "server/replica/mirror.h"
#include "server/replica/pulse.h"
#include "server/replica/succession.h"

struct admit_config {
	const struct rdma_device *dev; /* of rings and pulses */
	struct mirror *mirror;
	unsigned peer; /* a place that is free */
	struct wire_peer_joined as;
	/* It is in sync, and this server has taken over: what this holds is brought to it. NULL: it
	 * learns. */
	const struct follower *brings;
};

struct admitted {
	int fd;
	struct exchange_reader reader;
	struct pulse *pulse; /* connected */
	uint64_t begins; /* position: what the log appends from there on goes to its ring */
};

/*
 * admit_connect - over @fd, on which it has said PEER_HELLO. Returns 0: both queue pairs stand.
 * Negative with @err, which the member was told, if it hears: what it refused with; -EPROTO;
 * -ECONNRESET, -ETIMEDOUT; or as mirror_add(). Whatever is returned, admit_end() follows.
 * admit_begin - bring it what it may lack, and begin. As succession_bring() besides.
 */
int admit_connect(struct admitted *out, int fd, const struct admit_config *config,
		  uint64_t deadline_ns, struct error *err);
int admit_begin(struct admitted *a, const struct admit_config *config, uint64_t deadline_ns,
		struct error *err);

/* What one that learns gets. */
struct admit_table {
	void *ctx;
	uint64_t (*published)(void *ctx); /* position: all below is published. Any thread */
	/* clients_walk() of the table of clients. Any thread, one at a time */
	int (*clients)(void *ctx,
		       int (*each)(void *each_ctx, const struct snapshot_client *items,
				   unsigned count),
		       void *each_ctx);
};

/*
 * admit_clients - when all below a->begins is published: the table of clients, and that it may
 * walk. @patience_ns: of each frame, and of the wait. Returns as admit_connect().
 */
int admit_clients(struct admitted *a, const struct admit_config *config,
		  const struct admit_table *table, uint64_t patience_ns, struct error *err);

/*
 * admit_heard - what it says after that, without waiting. 1: it has caught up: *@applied, a
 * position; 0: nothing; negative with @err: it is not fit to go on, or has gone.
 */
int admit_heard(struct admitted *a, uint64_t *applied, struct error *err);

/* admit_end - the line ends, and the peer is cut (mirror_cut()); its place is taken until
 * mirror_remove(). The pulse must not be used any more. */
void admit_end(struct admitted *a, const struct admit_config *config);
