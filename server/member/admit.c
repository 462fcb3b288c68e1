/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/member/admit.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "common/base/mutant.h"
#include "common/base/time.h"

#define LOOK_MS 2 /* between two looks at what is published */

static int say(const struct admitted *a, const struct wire_frame *f, uint64_t deadline_ns,
	       struct error *err)
{
	return exchange_send(a->fd, f, deadline_ns, err);
}

static int hear(struct admitted *a, enum wire_type want, struct wire_frame *out,
		uint64_t deadline_ns, struct error *err)
{
	return exchange_recv(a->fd, &a->reader, want, out, deadline_ns, err);
}

/* It learns why, unless it was the one that said so, or does not hear any more. */
static int tell(const struct admitted *a, int rc, const struct error *err)
{
	if (rc && rc != -ECONNRESET)
		exchange_refuse(a->fd, 0, rc, err->text);
	return rc;
}

static int make_ends(struct admitted *a, const struct admit_config *config,
		     const struct wire_peer_offer *o, struct wire_peer_answer *out,
		     struct error *err)
{
	const struct replica_ring_offer ring = { .qp = o->ring_qp,
						 .addr = o->ring_addr,
						 .bytes = o->ring_bytes,
						 .key = o->ring_key,
						 .ring_term = o->ring_term,
						 .rkey = o->ring_rkey };
	const struct replica_pulse_offer theirs = { o->pulse_qp, o->pulse_addr, o->pulse_rkey };
	struct replica_pulse_offer ours;
	struct replica_flow_offer flow;
	int rc = mirror_add(config->mirror, config->peer, &ring, &flow, err);

	if (rc == 0)
		rc = pulse_open(&a->pulse, config->dev, &ours, err);
	if (rc == 0)
		rc = pulse_connect(a->pulse, &theirs, err);
	if (rc)
		return rc;
	*out = (struct wire_peer_answer){
		.flow_qp = flow.qp,
		.pulse_qp = ours.qp,
		.flow_addr = flow.addr,
		.pulse_addr = ours.addr,
		.flow_rkey = flow.rkey,
		.pulse_rkey = ours.rkey,
	};
	return 0;
}

int admit_connect(struct admitted *out, int fd, const struct admit_config *config,
		  uint64_t deadline_ns, struct error *err)
{
	struct wire_frame f = { .type = WIRE_PEER_JOINED, .peer_joined = config->as };
	int rc;

	*out = (struct admitted){ .fd = fd };
	rc = say(out, &f, deadline_ns, err);
	if (rc == 0)
		rc = hear(out, WIRE_PEER_OFFER, &f, deadline_ns, err);
	if (rc == 0) {
		const struct wire_peer_offer offer = f.peer_offer;

		f = (struct wire_frame){ .type = WIRE_PEER_ANSWER };
		rc = make_ends(out, config, &offer, &f.peer_answer, err);
	}
	if (rc == 0)
		rc = say(out, &f, deadline_ns, err);
	if (rc == 0)
		rc = hear(out, WIRE_PEER_READY, &f, deadline_ns, err);
	return tell(out, rc, err);
}

int admit_begin(struct admitted *a, const struct admit_config *config, uint64_t deadline_ns,
		struct error *err)
{
	struct wire_frame f = { .type = WIRE_PEER_BEGIN };
	int rc = 0;

	if (config->brings)
		rc = succession_bring(config->mirror, config->peer, config->brings, deadline_ns,
				      err);
	if (rc)
		return tell(a, rc, err);
	a->begins = mirror_begin(config->mirror, config->peer);
	f.peer_place = (struct wire_peer_place){ config->as.term, a->begins };
	return tell(a, say(a, &f, deadline_ns, err), err);
}

static int await_published(const struct admitted *a, const struct admit_table *table,
			   uint64_t deadline_ns, struct error *err)
{
	struct pollfd line = { .fd = a->fd, .events = POLLRDHUP };

	while (table->published(table->ctx) < a->begins && !MUTANT(walk_early)) {
		if (time_now_ns() >= deadline_ns)
			return error_set(err, -ETIMEDOUT,
					 "what was written before the member came is not "
					 "published in time (the disk, or another member, is "
					 "slow: it may try again)");
		if (poll(&line, 1, LOOK_MS) > 0)
			return error_set(err, -ECONNRESET,
					 "the line ends while what was written before is "
					 "waited for");
	}
	return 0;
}

/* Items on their way, in frames. */
struct parcel {
	struct admitted *a;
	uint64_t patience_ns;
	struct error *err;
	struct wire_frame frame;
};

static int send_off(struct parcel *p)
{
	int rc = say(p->a, &p->frame, time_now_ns() + p->patience_ns, p->err);

	p->frame = (struct wire_frame){ .type = WIRE_PEER_CLIENTS };
	return rc;
}

static int pack(void *ctx, const struct snapshot_client *items, unsigned count)
{
	struct parcel *p = ctx;
	struct wire_peer_clients *c = &p->frame.peer_clients;
	int rc = 0;

	for (unsigned i = 0; i < count && rc == 0; i++) {
		if (c->count == WIRE_PEER_ITEMS)
			rc = send_off(p);
		c->item[c->count++] = items[i];
	}
	return rc;
}

int admit_clients(struct admitted *a, const struct admit_config *config,
		  const struct admit_table *table, uint64_t patience_ns, struct error *err)
{
	struct parcel p = { a, patience_ns, err, { .type = WIRE_PEER_CLIENTS } };
	const struct wire_frame walk = { .type = WIRE_PEER_WALK,
					 .peer_place = { config->as.term, a->begins } };
	int rc = await_published(a, table, time_now_ns() + patience_ns, err);

	if (rc == 0) {
		error_set(err, -ENOMEM, "there is no memory for the table of clients");
		rc = table->clients(table->ctx, pack, &p);
	}
	if (rc == 0) {
		p.frame.peer_clients.last = 1;
		rc = send_off(&p);
	}
	if (rc == 0)
		rc = say(a, &walk, time_now_ns() + patience_ns, err);
	return tell(a, rc, err);
}

int admit_heard(struct admitted *a, uint64_t *applied, struct error *err)
{
	struct wire_frame f;
	int rc = exchange_read(a->fd, &a->reader, &f, err);

	if (rc <= 0)
		return rc;
	if (f.type == WIRE_PEER_CAUGHT_UP) {
		*applied = f.peer_place.position;
		return 1;
	}
	if (f.type == WIRE_REFUSE)
		return exchange_refusal(&f.refuse, err);
	if (f.type == WIRE_BYE)
		return error_set(err, -ECONNRESET, "it ends");
	return error_set(err, -EPROTO, "it sends a frame of type %u, which is not due", f.type);
}

void admit_end(struct admitted *a, const struct admit_config *config)
{
	mirror_cut(config->mirror, config->peer);
	pulse_close(a->pulse);
	if (a->fd >= 0)
		close(a->fd);
	*a = (struct admitted){ .fd = -1 };
}
