/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/member/join.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/layout/root.h"

static int say(struct joined *j, const struct wire_frame *f, uint64_t deadline_ns,
	       struct error *err)
{
	return exchange_send(j->fd, f, deadline_ns, err);
}

static int hear(struct joined *j, enum wire_type want, struct wire_frame *out, uint64_t deadline_ns,
		struct error *err)
{
	return exchange_recv(j->fd, &j->reader, want, out, deadline_ns, err);
}

static int introduce(struct joined *j, const struct join_config *config, uint64_t deadline_ns,
		     struct error *err)
{
	struct wire_frame f = { .type = WIRE_PEER_HELLO, .peer_hello = config->who };
	int rc;

	f.peer_hello.layout_version = LAYOUT_VERSION;
	f.peer_hello.layout_hash = layout_hash();
	rc = say(j, &f, deadline_ns, err);
	if (rc == 0)
		rc = hear(j, WIRE_PEER_JOINED, &f, deadline_ns, err);
	if (rc == 0)
		j->as = f.peer_joined;
	return rc;
}

/* Ring and pulse, with what the primary must know of them. */
static int make_ends(struct joined *j, const struct join_config *config,
		     struct wire_peer_offer *out, struct error *err)
{
	struct replica_ring_offer ring;
	struct replica_pulse_offer pulse;
	int rc = backup_open(&j->backup, config->dev, config->ring_bytes, config->spare, j->as.term,
			     &ring, err);

	if (rc == 0)
		rc = pulse_open(&j->pulse, config->dev, &pulse, err);
	if (rc)
		return rc;
	*out = (struct wire_peer_offer){
		.ring_qp = ring.qp,
		.pulse_qp = pulse.qp,
		.ring_addr = ring.addr,
		.ring_bytes = ring.bytes,
		.ring_key = ring.key,
		.ring_term = ring.ring_term,
		.ring_rkey = ring.rkey,
		.pulse_addr = pulse.addr,
		.pulse_rkey = pulse.rkey,
	};
	return 0;
}

static int connect_ends(struct joined *j, const struct wire_peer_answer *a, struct error *err)
{
	const struct replica_flow_offer flow = { a->flow_qp, a->flow_addr, a->flow_rkey };
	const struct replica_pulse_offer pulse = { a->pulse_qp, a->pulse_addr, a->pulse_rkey };
	int rc = backup_connect(j->backup, &flow, err);

	return rc ? rc : pulse_connect(j->pulse, &pulse, err);
}

static int exchange(struct joined *j, const struct join_config *config, uint64_t deadline_ns,
		    struct error *err)
{
	struct wire_frame f = { .type = WIRE_PEER_OFFER };
	int rc = make_ends(j, config, &f.peer_offer, err);

	if (rc == 0)
		rc = say(j, &f, deadline_ns, err);
	if (rc == 0)
		rc = hear(j, WIRE_PEER_ANSWER, &f, deadline_ns, err);
	if (rc == 0)
		rc = connect_ends(j, &f.peer_answer, err);
	if (rc)
		return rc;
	f = (struct wire_frame){ .type = WIRE_PEER_READY, .peer_place = { .term = j->as.term } };
	rc = say(j, &f, deadline_ns, err);
	if (rc == 0)
		rc = hear(j, WIRE_PEER_BEGIN, &f, deadline_ns, err);
	if (rc == 0 && f.peer_place.term != j->as.term)
		rc = error_set(err, -EPROTO,
			       "the primary begins term %llu on a line of term %llu (it must be "
			       "dialled again)",
			       (unsigned long long)f.peer_place.term,
			       (unsigned long long)j->as.term);
	if (rc == 0)
		j->begins = f.peer_place.position;
	return rc;
}

int join_begin(struct joined *out, int fd, const struct join_config *config, uint64_t deadline_ns,
	       struct error *err)
{
	int rc;

	*out = (struct joined){ .fd = fd };
	rc = introduce(out, config, deadline_ns, err);
	if (rc == 0)
		rc = exchange(out, config, deadline_ns, err);
	if (rc)
		join_end(out);
	return rc;
}

int join_clients(struct joined *j, int (*each)(void *ctx, const struct snapshot_client *item),
		 void *ctx, uint64_t patience_ns, struct error *err)
{
	struct wire_frame f = { 0 };
	int rc = 0;

	while (rc == 0 && !f.peer_clients.last) {
		rc = hear(j, WIRE_PEER_CLIENTS, &f, time_now_ns() + patience_ns, err);
		for (uint32_t i = 0; rc == 0 && i < f.peer_clients.count; i++) {
			rc = each(ctx, &f.peer_clients.item[i]);
			if (rc)
				error_set(err, rc, "a client of the primary cannot be taken: %s",
					  error_name(rc));
		}
	}
	return rc ? rc : hear(j, WIRE_PEER_WALK, &f, time_now_ns() + patience_ns, err);
}

int join_caught_up(struct joined *j, uint64_t applied, uint64_t deadline_ns, struct error *err)
{
	const struct wire_frame f = { .type = WIRE_PEER_CAUGHT_UP,
				      .peer_place = { j->as.term, applied } };

	return say(j, &f, deadline_ns, err);
}

void join_unfit(struct joined *j, const struct error *why)
{
	exchange_refuse(j->fd, 0, why->code, why->text);
}

void join_end(struct joined *j)
{
	pulse_close(j->pulse);
	backup_close(j->backup);
	if (j->fd >= 0)
		close(j->fd);
	*j = (struct joined){ .fd = -1 };
}
