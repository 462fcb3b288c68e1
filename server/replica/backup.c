/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The ring of a backup, and its end.
 *
 * What the primary acknowledges has completed at every member in sync. A backup that takes over
 * must find all of that, and the primary must not go on to acknowledge. So, in this order:
 *	the queue pair is destroyed: no WRITE that the primary has posted, or will post, completes
 *	successfully any more, unless its acknowledgement had been sent;
 *	the region is deregistered: whatever the device still had in hand is refused;
 *	the ring is searched, for what had landed before.
 * A WRITE whose acknowledgement had been sent was in memory then. So it is found; and one that is
 * found without having been acknowledged does no harm. If the ring was searched first, a WRITE
 * might complete between the search and the revocation: acknowledged, and lost.
 *
 * Where one of the two calls fails, nobody knows whether the primary still WRITEs, and the server
 * must not take over.
 *
 * The ring's memory is used for nothing else until backup_close(), which frees it: a device that
 * breaks its word would otherwise WRITE into what is another's by then.
 */
#include "server/replica/backup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mutant.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "common/rdma/post.h"
#include "common/rdma/qp.h"
#include "common/rdma/region.h"
#include "server/replica/word.h"

#define SENDS_MAX  4u /* a word each, and two of them at a time */
#define TELL_NS	   (10 * NS_PER_MS)
#define TELL_PARTS 8u /* of the ring: earlier, where that much was taken */

struct backup {
	const struct rdma_device *dev;
	struct rdma_buffer ring;
	struct rdma_buffer words; /* struct replica_flow, from where it is WRITTEN */
	struct rdma_cq cq;
	struct rdma_qp qp;
	struct replica_flow_offer primary;
	struct ring_receiver receiver;
	unsigned under_way; /* WRITEs of ours */
	bool connected, revoked;
	uint64_t told_taken, told_applied, told_ns;
};

int backup_spare(const struct rdma_device *dev, uint64_t ring_bytes, struct rdma_buffer *out,
		 struct error *err)
{
	return rdma_buffer_create(dev, ring_bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
				  "a ring for the log", out, err);
}

static int take_ring(struct backup *b, uint64_t ring_bytes, struct rdma_buffer *spare,
		     struct error *err)
{
	if (!spare || !spare->addr)
		return backup_spare(b->dev, ring_bytes, &b->ring, err);
	b->ring = *spare;
	*spare = (struct rdma_buffer){ 0 };
	return 0;
}

static int make(struct backup *b, struct error *err)
{
	const struct rdma_qp_config config = { .cq = &b->cq,
					       .max_send = SENDS_MAX,
					       .max_recv = 1,
					       .remote_access = IBV_ACCESS_REMOTE_WRITE };
	int rc = rdma_buffer_create(b->dev, sizeof(struct replica_flow), IBV_ACCESS_LOCAL_WRITE,
				    "words for the primary", &b->words, err);

	if (!rc)
		rc = rdma_cq_create(b->dev, SENDS_MAX, 0, false, &b->cq, err);
	if (!rc)
		rc = rdma_qp_create(b->dev, &config, &b->qp, err);
	return rc;
}

int backup_open(struct backup **out, const struct rdma_device *dev, uint64_t ring_bytes,
		struct rdma_buffer *spare, uint64_t ring_term, struct replica_ring_offer *offer,
		struct error *err)
{
	struct backup *b = calloc(1, sizeof(*b));
	int rc;

	if (!b || !(b->receiver.copy = malloc(LOG_BATCH_RECORDS_MAX))) {
		free(b);
		return error_set(err, -ENOMEM, "there is no memory for a ring");
	}
	b->dev = dev;
	rc = take_ring(b, ring_bytes, spare, err);
	if (!rc)
		rc = make(b, err);
	while (!rc && !b->receiver.key)
		rc = random_fill(&b->receiver.key, sizeof(b->receiver.key), err);
	if (rc) {
		backup_close(b);
		return rc;
	}
	b->receiver.ring = b->ring.addr;
	b->receiver.ring_bytes = ring_bytes;
	b->receiver.ring_term = ring_term;
	*offer = (struct replica_ring_offer){ .addr = (uintptr_t)b->ring.addr,
					      .bytes = ring_bytes,
					      .key = b->receiver.key,
					      .ring_term = ring_term,
					      .rkey = b->ring.region.rkey };
	rdma_qp_offer(&b->qp, &offer->qp);
	*out = b;
	return 0;
}

int backup_connect(struct backup *b, const struct replica_flow_offer *primary, struct error *err)
{
	int rc = rdma_qp_connect(&b->qp, &primary->qp, err);

	if (!rc) {
		b->primary = *primary;
		b->connected = true;
	}
	return rc;
}

const struct ring_receiver *backup_take(struct backup *b)
{
	return ring_receive(&b->receiver) ? &b->receiver : NULL;
}

static void poll_own(struct backup *b)
{
	struct ibv_wc wc[SENDS_MAX];
	int n = rdma_poll(b->cq.cq, SENDS_MAX, wc);

	for (int i = 0; i < n; i++) {
		b->under_way--;
		if (wc[i].status != IBV_WC_SUCCESS)
			b->connected = false; /* the primary is gone, or has cut us */
	}
}

static void write_word(struct backup *b, size_t offset, _Atomic uint64_t *word, uint64_t value)
{
	if (word_write(&b->qp, &b->words, word, value, b->primary.addr + offset, b->primary.rkey))
		b->connected = false;
	else
		b->under_way++;
}

/* Each word is a message in the way of those that bring batches. */
static bool is_time_to_tell(const struct backup *b)
{
	return b->receiver.taken - b->told_taken >= b->receiver.ring_bytes / TELL_PARTS ||
	       time_now_ns() - b->told_ns >= TELL_NS;
}

void backup_tell(struct backup *b, uint64_t applied)
{
	struct replica_flow *flow = b->words.addr;

	if (!b->connected || b->revoked || !is_time_to_tell(b))
		return;
	poll_own(b);
	/* The words that are on their way stay as they are. */
	if (b->under_way)
		return;
	b->told_ns = time_now_ns();
	if (b->told_taken != b->receiver.taken) {
		b->told_taken = b->receiver.taken;
		write_word(b, offsetof(struct replica_flow, taken), &flow->taken, b->told_taken);
	}
	if (b->connected && b->told_applied != applied) {
		b->told_applied = applied;
		write_word(b, offsetof(struct replica_flow, applied), &flow->applied, applied);
	}
}

int backup_revoke(struct backup *b, struct error *err)
{
	int rc;

	b->revoked = true;
	if (MUTANT(revoke_nothing))
		return 0;
	rc = rdma_qp_destroy(&b->qp);
	if (!rc) {
		b->qp = (struct rdma_qp){ 0 };
		rc = rdma_region_unregister(&b->ring.region);
	}
	if (rc)
		return error_set(
			err, rc,
			"the rights of the primary before could not be taken away: %s (this "
			"server must not take over; it ends)",
			error_name(rc));
	return 0;
}

void backup_close(struct backup *b)
{
	if (!b)
		return;
	rdma_qp_destroy(&b->qp);
	rdma_cq_destroy(&b->cq);
	rdma_buffer_destroy(&b->ring);
	rdma_buffer_destroy(&b->words);
	free(b->receiver.copy);
	free(b);
}
