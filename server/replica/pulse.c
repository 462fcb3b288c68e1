/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * One word under way at a time: where the network is slow, beats are left out, not piled up, and
 * the next one is the newest. An aligned word of 8 bytes is WRITTEN whole, and WRITEs of a queue
 * pair take effect in their order, so what is heard only grows.
 *
 * What is heard orders nothing else. A beat says that its sender had read its clock before, and an
 * answer that the beat was seen; both ends read their own clocks at the right side of it (lease.c).
 */
#include "server/replica/pulse.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/rdma/post.h"
#include "common/rdma/qp.h"
#include "common/rdma/region.h"
#include "server/replica/word.h"

#define CQ_ENTRIES 2u

struct pulse {
	struct rdma_buffer heard; /* a word, of which the other end may WRITE no more */
	struct rdma_buffer said; /* a word, from where it is WRITTEN */
	struct rdma_cq cq;
	struct rdma_qp qp;
	struct replica_pulse_offer other;
	bool connected, broken, under_way;
};

static _Atomic uint64_t *word_of(const struct rdma_buffer *b)
{
	return b->addr;
}

static int make(struct pulse *p, const struct rdma_device *dev, struct error *err)
{
	const struct rdma_qp_config config = {
		.cq = &p->cq, .max_send = 1, .max_recv = 1, .remote_access = IBV_ACCESS_REMOTE_WRITE
	};
	int rc = rdma_buffer_create(dev, sizeof(uint64_t),
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
				    "a word for another server", &p->heard, err);

	if (!rc)
		rc = rdma_buffer_create(dev, sizeof(uint64_t), IBV_ACCESS_LOCAL_WRITE,
					"a word of this server", &p->said, err);
	if (!rc)
		rc = rdma_cq_create(dev, CQ_ENTRIES, 0, false, &p->cq, err);
	return rc ? rc : rdma_qp_create(dev, &config, &p->qp, err);
}

int pulse_open(struct pulse **out, const struct rdma_device *dev, struct replica_pulse_offer *offer,
	       struct error *err)
{
	struct pulse *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_set(err, -ENOMEM, "there is no memory for beats");
	rc = make(p, dev, err);
	if (rc) {
		pulse_close(p);
		return rc;
	}
	*offer = (struct replica_pulse_offer){ .addr = (uintptr_t)p->heard.addr,
					       .rkey = p->heard.region.rkey };
	rdma_qp_offer(&p->qp, &offer->qp);
	*out = p;
	return 0;
}

int pulse_connect(struct pulse *p, const struct replica_pulse_offer *other, struct error *err)
{
	int rc;

	if (other->addr % sizeof(uint64_t))
		return error_set(err, -EPROTO,
				 "the other server offers a word that is not aligned");
	rc = rdma_qp_connect(&p->qp, &other->qp, err);
	if (rc)
		return rc;
	p->other = *other;
	p->connected = true;
	return 0;
}

void pulse_close(struct pulse *p)
{
	if (!p)
		return;
	rdma_qp_destroy(&p->qp);
	rdma_cq_destroy(&p->cq);
	rdma_buffer_destroy(&p->heard);
	rdma_buffer_destroy(&p->said);
	free(p);
}

static void poll_own(struct pulse *p)
{
	struct ibv_wc wc[CQ_ENTRIES];
	int n = p->under_way ? rdma_poll(p->cq.cq, CQ_ENTRIES, wc) : 0;

	for (int i = 0; i < n; i++) {
		p->under_way = false;
		p->broken |= wc[i].status != IBV_WC_SUCCESS;
	}
	p->broken |= n < 0;
}

bool pulse_may_say(struct pulse *p)
{
	poll_own(p);
	return p->connected && !p->broken && !p->under_way;
}

bool pulse_say(struct pulse *p, uint64_t n)
{
	if (!pulse_may_say(p))
		return false;
	p->broken = word_write(&p->qp, &p->said, word_of(&p->said), n, p->other.addr,
			       p->other.rkey) != 0;
	p->under_way = !p->broken;
	return p->under_way;
}

uint64_t pulse_heard(const struct pulse *p)
{
	/* acquire: the clock is read after it */
	return atomic_load_explicit(word_of(&p->heard), memory_order_acquire);
}

bool pulse_is_broken(struct pulse *p)
{
	poll_own(p);
	return p->broken;
}
