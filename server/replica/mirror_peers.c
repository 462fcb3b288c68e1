/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Peers come, count, and go: of the group's thread. mirror.c has the argument. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/replica/mirror_internal.h"

static int check_offer(const struct mirror *m, const struct replica_ring_offer *o,
		       struct error *err)
{
	if (o->ring_term == m->ring_term && o->key && o->bytes % RING_UNIT == 0 &&
	    o->bytes >= RING_BYTES_MIN && o->addr + o->bytes > o->addr)
		return 0;
	return error_set(err, -EPROTO,
			 "a server offers a ring of %llu bytes for term %llu where one of %llu at "
			 "least for term %llu is wanted (do all servers of the group have one "
			 "version?)",
			 (unsigned long long)o->bytes, (unsigned long long)o->ring_term,
			 (unsigned long long)RING_BYTES_MIN, (unsigned long long)m->ring_term);
}

static int make_pair(struct mirror *m, struct peer *p, const struct wire_qp *theirs,
		     struct error *err)
{
	const struct rdma_qp_config config = { .cq = &p->cq,
					       .max_send = SENDS_MAX,
					       .max_recv = 1,
					       .remote_access = IBV_ACCESS_REMOTE_WRITE };
	int rc = rdma_cq_create(m->dev, SENDS_MAX, 0, false, &p->cq, err);

	if (!rc)
		rc = rdma_qp_create(m->dev, &config, &p->qp, err);
	return rc ? rc : rdma_qp_connect(&p->qp, theirs, err);
}

static void unmake_pair(struct peer *p)
{
	rdma_qp_destroy(&p->qp);
	rdma_cq_destroy(&p->cq);
	p->qp = (struct rdma_qp){ 0 };
	p->cq = (struct rdma_cq){ 0 };
}

int mirror_add(struct mirror *m, unsigned peer, const struct replica_ring_offer *offer,
	       struct replica_flow_offer *out, struct error *err)
{
	struct peer *p = &m->peer[peer];
	int rc = check_offer(m, offer, err);

	assert(p->stage == NONE);
	if (rc)
		return rc;
	rc = make_pair(m, p, &offer->qp, err);
	if (rc) {
		unmake_pair(p);
		return rc;
	}
	*flow_of(m, peer) = (struct replica_flow){ 0 };
	pthread_mutex_lock(&p->lock);
	p->stage = ADDED;
	p->failed = false;
	p->sender = (struct ring_sender){ .ring_bytes = offer->bytes,
					  .key = offer->key,
					  .ring_term = m->ring_term,
					  .end = m->end };
	p->ring_addr = offer->addr;
	p->ring_rkey = offer->rkey;
	p->held = p->since_ns = p->posted = p->completed = 0;
	p->waits = 0;
	pthread_mutex_unlock(&p->lock);
	*out = (struct replica_flow_offer){ .addr = (uintptr_t)flow_of(m, peer),
					    .rkey = m->shared.region.rkey };
	rdma_qp_offer(&p->qp, &out->qp);
	return 0;
}

/* Must hold the lock. Posted, if not yet, and completed. */
static bool resend_step(struct mirror *m, unsigned i, const struct batch *b, bool *posted)
{
	struct peer *p = &m->peer[i];

	if (!*posted)
		*posted = peer_post(m, i, b);
	peer_poll(m, i);
	return *posted && p->posted == p->completed;
}

/* Of no more than is wanted: whoever resends keeps clients waiting. */
static int resend_room(struct mirror *m, struct peer *p, uint32_t bytes, struct error *err)
{
	if (p->resent.len >= bytes)
		return 0;
	rdma_buffer_destroy(&p->resent); /* nothing is under way from there */
	return rdma_buffer_create(m->dev, bytes, IBV_ACCESS_LOCAL_WRITE,
				  "records that are sent again", &p->resent, err);
}

int mirror_resend(struct mirror *m, unsigned peer, const struct ring_say *say, const void *records,
		  uint64_t deadline_ns, struct error *err)
{
	struct peer *p = &m->peer[peer];
	struct batch b = { .say = *say, .buffer = LOG_BUFFERS };
	bool posted = false, done = false, failed = false;
	int rc = resend_room(m, p, say->bytes, err);

	assert(p->stage == ADDED && say->bytes <= LOG_BATCH_RECORDS_MAX);
	if (rc)
		return rc;
	if (say->bytes)
		memcpy(p->resent.addr, records, say->bytes);
	b.records = p->resent.addr;
	b.lkey = p->resent.region.lkey;
	b.say.body = hash_bytes(records, say->bytes);
	while (!done && !failed && time_now_ns() < deadline_ns) {
		pthread_mutex_lock(&p->lock);
		done = resend_step(m, peer, &b, &posted);
		failed = p->failed;
		pthread_mutex_unlock(&p->lock);
		if (!done)
			time_give_way();
	}
	if (failed)
		return error_set(err, -EPIPE, "a member cannot be sent what it lacks: %s", p->why);
	return done ? 0 : error_set(err, -ETIMEDOUT, "a member does not take what it lacks");
}

/*
 * The writer stores `sent`, then takes the peer's lock and looks whether it is there. This makes it
 * be there, and reads `sent`, under the lock. So a batch for which the writer finds that it is not
 * there lies below what is read here; and one that lies below is not given to it either.
 */
uint64_t mirror_begin(struct mirror *m, unsigned peer)
{
	struct peer *p = &m->peer[peer];
	uint64_t from;

	rdma_buffer_destroy(&p->resent); /* nothing is under way from there */
	pthread_mutex_lock(&p->lock);
	p->stage = ACTIVE;
	from = p->begins = p->held = atomic_load_explicit(&m->sent, memory_order_seq_cst);
	pthread_mutex_unlock(&p->lock);
	return from;
}

void mirror_must(struct mirror *m, unsigned peer, bool must)
{
	/* seq_cst: before mirror_sent() of who makes it one that must. A release, too: held() */
	atomic_store_explicit(&m->peer[peer].must, must, memory_order_seq_cst);
}

void mirror_cut(struct mirror *m, unsigned peer)
{
	struct peer *p = &m->peer[peer];

	pthread_mutex_lock(&p->lock);
	if (p->stage == NONE) {
		pthread_mutex_unlock(&p->lock);
		return;
	}
	p->stage = CUT;
	pthread_mutex_unlock(&p->lock);
	/* The writer does not touch them any more. */
	unmake_pair(p);
	rdma_buffer_destroy(&p->resent);
	pthread_mutex_lock(&p->lock);
	p->waits = 0;
	p->completed = p->posted; /* nothing reads the buffers now */
	pthread_mutex_unlock(&p->lock);
}

void mirror_remove(struct mirror *m, unsigned peer)
{
	struct peer *p = &m->peer[peer];

	mirror_must(m, peer, false);
	pthread_mutex_lock(&p->lock);
	assert(p->stage == NONE || p->stage == CUT);
	p->stage = NONE;
	pthread_mutex_unlock(&p->lock);
}

uint64_t mirror_sent(struct mirror *m)
{
	return atomic_load_explicit(&m->sent, memory_order_seq_cst); /* see mirror_must() */
}

void mirror_look(struct mirror *m, unsigned peer, struct mirror_state *out)
{
	struct peer *p = &m->peer[peer];

	pthread_mutex_lock(&p->lock);
	/* Nobody else looks where nothing follows what was sent last. */
	if (peer_is_active(p) && !MUTANT(look_away))
		peer_poll(m, peer);
	*out = (struct mirror_state){ .held = p->held,
				      .since_ns = p->since_ns,
				      .failed = p->failed };
	memcpy(out->why, p->why, sizeof(out->why));
	pthread_mutex_unlock(&p->lock);
	/* relaxed: a figure */
	out->applied = atomic_load_explicit(&flow_of(m, peer)->applied, memory_order_relaxed);
}
