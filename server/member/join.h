/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A member's end of the line to its primary, up to where the log comes: wire_peer.h has the frames.
 * Each call sleeps until its deadline at the latest. One thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/rdma/exchange.h"
#include "server/replica/backup.h"
#include "server/replica/pulse.h"

struct join_config {
	const struct rdma_device *dev; /* of rings and pulses: backup.h */
	uint64_t ring_bytes;
	struct rdma_buffer *spare; /* backup_open() */
	struct wire_peer_hello who; /* layout_version and layout_hash are filled in */
};

struct joined {
	int fd;
	struct exchange_reader reader;
	struct wire_peer_joined as;
	struct backup *backup; /* its ring has the log from `begins` on */
	struct pulse *pulse;
	uint64_t begins; /* position */
};

/*
 * join_begin - over @fd, which is connected to the primary. Returns 0: both queue pairs stand, and
 * the primary knows; negative with @err: what the primary refused with; -EPROTO; -ECONNRESET,
 * -ETIMEDOUT; or as backup_open(). @fd is closed then, and by join_end().
 */
int join_begin(struct joined *out, int fd, const struct join_config *config, uint64_t deadline_ns,
	       struct error *err);

/*
 * join_clients - the primary's table of clients, each item to @each, which returns 0 or a negative
 * errno, and that all below joined.begins is published: a walk may begin. @deadline_ns: of each
 * frame. Returns 0, or as join_begin().
 * join_caught_up - the walk is over, and all below @applied is in the store.
 */
int join_clients(struct joined *j, int (*each)(void *ctx, const struct snapshot_client *item),
		 void *ctx, uint64_t patience_ns, struct error *err);
int join_caught_up(struct joined *j, uint64_t applied, uint64_t deadline_ns, struct error *err);

/* join_unfit - why this member cannot go on: the primary is told, if it hears. */
void join_unfit(struct joined *j, const struct error *why);

/*
 * join_end - the line ends. Ring and pulse go, too: who needs what has come in the ring calls
 * backup_revoke() and takes it out before.
 */
void join_end(struct joined *j);
