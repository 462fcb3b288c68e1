/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The primary's end: what its log commits goes to the rings of others, who must hold it or only
 * learn. mirror.c has the argument.
 *
 * Threads: the log's writer calls the table of functions (log/mirror.h); others everything else,
 * one at a time for each peer.
 */
#include "common/base/error.h"
#include "common/rdma/device.h"
#include "server/log/mirror.h"
#include "server/replica/ends.h"
#include "server/replica/ring.h"

#define MIRROR_PEERS_MAX 7u

struct mirror;

/*
 * mirror_open - nobody is there yet. @dev: a device of its own, whose protection domain reaches
 * nothing but this; it outlives the mirror. @ring_term, @end: struct ring_sender; the log's first
 * batch will be at @end. Returns 0 or a negative errno with @err.
 * mirror_close - the log is closed.
 * mirror_table - for log_config.mirror.
 */
int mirror_open(struct mirror **out, const struct rdma_device *dev, uint64_t ring_term,
		uint64_t end, struct error *err);
void mirror_close(struct mirror *m);
const struct log_mirror *mirror_table(const struct mirror *m);

/*
 * mirror_add - a peer, at place @peer, which is free. It does not have to hold the log. @offer is
 * untrusted. Returns 0 and what the peer must know; -EPROTO, or what making a queue pair returned,
 * with @err.
 * mirror_resend - before mirror_begin(): records that were decided before, as @say has them. They
 * are copied, and have completed at the peer when it returns, by @deadline_ns at the latest: 0;
 * -ETIMEDOUT; -EPIPE: a WRITE has failed; -ENOMEM; with @err. Sleeps.
 * mirror_begin - the peer has connected its queue pair: what is sent from now on goes to it, too.
 * Returns the position where that begins; all below is the peer's already, by mirror_resend(), or
 * is got by it in another way.
 * mirror_must - it must hold the log from now on, or need not any more. Where it must, it has to
 * have all that was sent before: wait until mirror_look() says that it completes mirror_sent(),
 * read after this call.
 * mirror_cut - its queue pair is destroyed: nothing is sent to it any more. Where it must hold the
 * log, nothing is committed until mirror_must() says that it need not.
 * mirror_remove - after mirror_cut(): the place is free.
 */
int mirror_add(struct mirror *m, unsigned peer, const struct replica_ring_offer *offer,
	       struct replica_flow_offer *out, struct error *err);
int mirror_resend(struct mirror *m, unsigned peer, const struct ring_say *say, const void *records,
		  uint64_t deadline_ns, struct error *err);
uint64_t mirror_begin(struct mirror *m, unsigned peer);
void mirror_must(struct mirror *m, unsigned peer, bool must);
void mirror_cut(struct mirror *m, unsigned peer);
void mirror_remove(struct mirror *m, unsigned peer);

/* mirror_sent - position: all below was given to all who are there. */
uint64_t mirror_sent(struct mirror *m);

struct mirror_state {
	uint64_t held; /* position: all below has completed */
	uint64_t applied; /* position, as it says */
	uint64_t since_ns; /* something is under way since then; 0: nothing is */
	bool failed; /* a WRITE has failed: nothing is sent to it any more */
	char why[96]; /* then */
};

void mirror_look(struct mirror *m, unsigned peer, struct mirror_state *out);
