/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What mirror.c, of the log's writer, and mirror_peers.c, of the group's thread, share. */
#include <pthread.h>

#include "common/rdma/qp.h"
#include "common/rdma/region.h"
#include "server/replica/mirror.h"

#define SENDS_MAX   32u /* in a send queue: a batch has two at most */
#define HEADERS_MAX SENDS_MAX

/* A batch that is sent, or is to be: of the writer. */
struct batch {
	struct ring_say say;
	const void *records;
	uint32_t lkey;
	unsigned buffer; /* LOG_BUFFERS: none of the log's */
};

enum stage { NONE, ADDED, ACTIVE, CUT };

struct peer {
	pthread_mutex_t lock; /* a leaf */
	/* Under the lock. */
	enum stage stage;
	bool failed;
	char why[96];
	struct ring_sender sender;
	uint64_t ring_addr;
	uint32_t ring_rkey;
	uint64_t begins; /* position: of the first batch that is sent to it */
	uint64_t held;
	uint64_t since_ns;
	struct batch waiting[LOG_BUFFERS]; /* in order */
	unsigned waits;
	uint64_t posted, completed; /* WRs, counted */
	struct sent {
		uint64_t end; /* position behind it */
		unsigned buffer; /* LOG_BUFFERS: none */
	} sent[SENDS_MAX]; /* WR n at n modulo that */
	struct rdma_qp qp;
	struct rdma_cq cq;
	_Atomic bool must; /* changed by the group's thread */
	struct rdma_buffer resent; /* of who resends, until it begins */
};

struct mirror {
	struct log_mirror table;
	const struct rdma_device *dev;
	uint64_t ring_term, end;
	struct rdma_region buffers;
	struct rdma_buffer shared; /* headers, then flow words */
	struct peer peer[MIRROR_PEERS_MAX];
	_Atomic uint64_t sent;
};

/* A cache line each. */
#define FLOW_BYTES    64u
#define HEADERS_BYTES (MIRROR_PEERS_MAX * HEADERS_MAX * sizeof(struct ring_batch))

static inline struct replica_flow *flow_of(struct mirror *m, unsigned peer)
{
	return (void *)((uint8_t *)m->shared.addr + HEADERS_BYTES + peer * FLOW_BYTES);
}

/* Each must hold the peer's lock.
 * peer_is_active - something may be sent to it.
 * peer_post - false: there is no room for it yet. peer_poll - take completions, post what waits. */
static inline bool peer_is_active(const struct peer *p)
{
	return p->stage == ACTIVE && !p->failed;
}

bool peer_post(struct mirror *m, unsigned i, const struct batch *b);
void peer_poll(struct mirror *m, unsigned i);
