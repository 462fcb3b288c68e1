/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The rings of others, written by the log's writer: its thread, or without a disk whoever has the
 * turn (log/turn.c).
 *
 * Each peer has a queue pair and a completion queue of its own, and a lock: the writer takes it to
 * post and to poll, the group's thread to poll as it looks (mirror_look()), since nobody else does
 * where nothing follows, and to say what the peer is from now on. Neither sleeps under it, nor
 * makes or destroys anything: a queue pair is destroyed after the writer was told, under the lock,
 * that there is none.
 *
 * A peer holds the log up to `held`: the end of the last batch whose WRITE has completed, which
 * says that all of it is in the peer's memory (InfiniBand specification, volume 1, 9.7.5.1.6: a
 * responder acknowledges a WRITE when it is there). Completions of one queue pair come in order.
 *
 * A batch that does not fit into the ring, or the send queue, waits for the peer, in its buffer.
 * The buffer is free when no peer waits for it or has it under way. So who learns, and is slow,
 * stops the log when all buffers wait for it: the group's thread takes it out before that, by
 * since_ns.
 *
 * What a peer that is cut held stays its `held`, and holds back the log while the peer must hold
 * it: between the end of its queue pair and the configuration without it, nothing is committed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/mutant.h"
#include "common/base/time.h"
#include "common/rdma/post.h"
#include "server/replica/mirror_internal.h"

#define POLL_MAX 16

static struct ring_batch *header_at(struct mirror *m, unsigned peer, uint64_t wr)
{
	return (struct ring_batch *)m->shared.addr + peer * HEADERS_MAX + wr % HEADERS_MAX;
}

/* Must hold the lock. */
static void fail(struct peer *p, const char *what, const char *why)
{
	if (p->failed)
		return;
	p->failed = true;
	snprintf(p->why, sizeof(p->why), "%s: %s", what, why);
}

/* Must hold the lock. One header, and what follows it. */
static void post_one(struct mirror *m, unsigned i, const struct ring_batch *header,
		     const struct batch *b, bool last)
{
	struct peer *p = &m->peer[i];
	struct ring_batch *at = header_at(m, i, p->posted);
	struct ibv_sge sge[2] = {
		{ .addr = (uintptr_t)at, .length = sizeof(*at), .lkey = m->shared.region.lkey },
		{ .addr = (uintptr_t)b->records, .length = b->say.bytes, .lkey = b->lkey },
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = p->posted,
		.sg_list = sge,
		.num_sge = last && b->say.bytes ? 2 : 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = p->ring_addr + header->place % p->sender.ring_bytes,
			     .rkey = p->ring_rkey },
	};
	int rc;

	*at = *header;
	p->sent[p->posted % SENDS_MAX] =
		(struct sent){ .end = last ? b->say.position + b->say.bytes : b->say.position,
			       .buffer = last ? b->buffer : LOG_BUFFERS };
	rc = rdma_post_send(p->qp.qp, &wr, &bad);
	if (rc)
		fail(p, "posting a WRITE", error_name(rc));
	else
		p->posted++;
	if (MUTANT(hold_when_posted))
		p->held = b->say.position + b->say.bytes;
}

bool peer_post(struct mirror *m, unsigned i, const struct batch *b)
{
	struct peer *p = &m->peer[i];
	struct ring_batch headers[2];
	unsigned count;

	if (p->posted - p->completed > SENDS_MAX - 2)
		return false;
	/* acquire: what the peer has copied out it does not read any more */
	p->sender.taken = atomic_load_explicit(&flow_of(m, i)->taken, memory_order_acquire);
	if (p->sender.taken > p->sender.place) {
		fail(p, "it says that it has taken what it was not sent", "its memory is broken");
		return false;
	}
	count = ring_send(&p->sender, &b->say, headers);
	for (unsigned k = 0; k < count && !p->failed; k++)
		post_one(m, i, &headers[k], b, k + 1 == count);
	return count;
}

/* Must hold the lock. */
static void post_waiting(struct mirror *m, unsigned i)
{
	struct peer *p = &m->peer[i];

	while (p->waits && !p->failed && peer_post(m, i, &p->waiting[0]))
		memmove(p->waiting, p->waiting + 1, --p->waits * sizeof(*p->waiting));
}

void peer_poll(struct mirror *m, unsigned i)
{
	struct peer *p = &m->peer[i];
	struct ibv_wc wc[POLL_MAX];
	int n = p->posted == p->completed ? 0 : rdma_poll(p->cq.cq, POLL_MAX, wc);

	if (n < 0)
		fail(p, "polling its completion queue", error_name(n));
	for (int k = 0; k < n && !p->failed; k++) {
		if (wc[k].status != IBV_WC_SUCCESS) {
			fail(p, "a WRITE", ibv_wc_status_str(wc[k].status));
			break;
		}
		p->held = p->sent[p->completed % SENDS_MAX].end;
		p->completed++;
	}
	if (!p->failed)
		post_waiting(m, i);
	if (p->posted == p->completed && !p->waits)
		p->since_ns = 0;
}

static int memory(void *ctx, void *base, uint64_t bytes)
{
	struct mirror *m = ctx;
	struct error err;

	if (!base) {
		for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++)
			mirror_cut(m, i); /* it might be under way from there */
		return rdma_region_unregister(&m->buffers);
	}
	return rdma_region_register(m->dev, base, bytes, IBV_ACCESS_LOCAL_WRITE,
				    "the log's batches", &m->buffers, &err);
}

/* Must hold the lock. What is only told may be left out: the next batch tells it as well. */
static void send_one(struct mirror *m, unsigned i, const struct batch *b)
{
	struct peer *p = &m->peer[i];

	if (!p->since_ns)
		p->since_ns = time_now_ns();
	if ((p->waits || !peer_post(m, i, b)) && b->say.bytes && p->waits < LOG_BUFFERS)
		p->waiting[p->waits++] = *b;
	peer_poll(m, i);
}

static void send(void *ctx, const struct log_sent *s)
{
	struct mirror *m = ctx;
	struct batch b = { .say = { .position = s->position,
				    .committed = s->committed,
				    .term = m->ring_term,
				    .clock_ms = s->clock_ms,
				    .bytes = s->bytes,
				    .records = s->count },
			   .records = s->records,
			   .lkey = m->buffers.lkey,
			   .buffer = s->buffer };

	/* seq_cst: see mirror_begin(): who is added meanwhile is given it, or begins behind it */
	atomic_store_explicit(&m->sent, s->position + s->bytes, memory_order_seq_cst);
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++) {
		struct peer *p = &m->peer[i];

		pthread_mutex_lock(&p->lock);
		if (peer_is_active(p) && s->position >= p->begins) {
			/* Once for all, and not where there is nobody. */
			if (s->bytes && !b.say.body)
				b.say.body = hash_bytes(s->records, s->bytes);
			send_one(m, i, &b);
		}
		pthread_mutex_unlock(&p->lock);
	}
}

static uint64_t held(void *ctx)
{
	struct mirror *m = ctx;
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++) {
		struct peer *p = &m->peer[i];

		pthread_mutex_lock(&p->lock);
		if (peer_is_active(p))
			peer_poll(m, i);
		/* acquire: pairs with mirror_must(): it need not since a configuration says so */
		if (atomic_load_explicit(&p->must, memory_order_acquire) && p->held < least)
			least = p->held;
		pthread_mutex_unlock(&p->lock);
	}
	return least;
}

/* Must hold the lock. */
static bool has_buffer(const struct peer *p, unsigned buffer)
{
	for (unsigned k = 0; k < p->waits; k++)
		if (p->waiting[k].buffer == buffer)
			return true;
	for (uint64_t wr = p->completed; wr != p->posted; wr++)
		if (p->sent[wr % SENDS_MAX].buffer == buffer)
			return true;
	return false;
}

static bool is_free(void *ctx, unsigned buffer)
{
	struct mirror *m = ctx;

	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++) {
		struct peer *p = &m->peer[i];
		bool has;

		pthread_mutex_lock(&p->lock);
		/* One that has failed may still read it, until its queue pair is gone. */
		if (peer_is_active(p))
			peer_poll(m, i);
		has = (p->stage == ACTIVE || p->stage == CUT) && has_buffer(p, buffer);
		pthread_mutex_unlock(&p->lock);
		if (has)
			return false;
	}
	return true;
}

int mirror_open(struct mirror **out, const struct rdma_device *dev, uint64_t ring_term,
		uint64_t end, struct error *err)
{
	struct mirror *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return error_set(err, -ENOMEM, "there is no memory for the log's mirrors");
	*m = (struct mirror){ .table = { m, memory, send, held, is_free },
			      .dev = dev,
			      .ring_term = ring_term,
			      .end = end,
			      .sent = end };
	rc = rdma_buffer_create(dev, HEADERS_BYTES + MIRROR_PEERS_MAX * FLOW_BYTES,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
				"words of backups", &m->shared, err);
	if (rc) {
		free(m);
		return rc;
	}
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++)
		pthread_mutex_init(&m->peer[i].lock, NULL);
	*out = m;
	return 0;
}

void mirror_close(struct mirror *m)
{
	if (!m)
		return;
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++) {
		mirror_cut(m, i);
		pthread_mutex_destroy(&m->peer[i].lock);
	}
	rdma_buffer_destroy(&m->shared);
	free(m);
}

const struct log_mirror *mirror_table(const struct mirror *m)
{
	return &m->table;
}
