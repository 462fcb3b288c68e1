/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What this end knows of a queue pair that a tool is about to measure on, and what is wrong. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/base/log.h"
#include "common/layout/block.h"
#include "server/worker/conn.h"

#define MIB (1u << 20)

/* Whether its records can be here at all. */
static int check_room(const struct rpc_measure *plan, struct rpc_measured *out)
{
	uint64_t record = block_bytes(KEY_MIN, (uint32_t)plan->value_bytes), need;

	if (!__builtin_mul_overflow(record, plan->keys, &need) && need <= out->memory_max)
		return 0;
	out->verdict = -ENOMEM;
	snprintf(out->why, sizeof(out->why),
		 "%" PRIu64 " records of %" PRIu64 " bytes do not fit into the server's %" PRIu64
		 " MiB (measure with fewer --keys, or start kv-server with more --memory)",
		 plan->keys, plan->value_bytes, out->memory_max / MIB);
	return -ENOMEM;
}

static const char *op_name(uint32_t op)
{
	return op == MEASURE_GET ? "GETs" : op == MEASURE_PUT ? "PUTs" : "GETs and PUTs";
}

void conn_measure(const struct conn *c, const struct rpc_measure *plan, struct rpc_measured *out)
{
	const struct rdma_qp *qp = &c->qp;

	out->mtu = rdma_mtu_bytes(qp->mtu);
	out->read_depth = qp->rd_responder;
	out->credits = c->credits;
	out->gid_index = qp->source.has_gid ? (uint32_t)qp->source.gid_index : UINT32_MAX;
	out->ib_port = qp->dev->port;
	out->link_layer = qp->link_layer;
	out->connect = c->cm != NULL;
	if (plan->phase != MEASURE_BEGIN)
		return;
	if (measure_compare(plan, out) || check_room(plan, out)) {
		log_info("measure", "session %" PRIu64 " handle %u, %s: refused, %s", c->generation,
			 c->handle, plan->tool, out->why);
		return;
	}
	log_info("measure",
		 "session %" PRIu64 " handle %u, %s: %s of %" PRIu64 " B, %" PRIu64
		 " keys, %u in flight on each of %u queue pairs",
		 c->generation, c->handle, plan->tool, op_name(plan->op), plan->value_bytes,
		 plan->keys, plan->depth, plan->queue_pairs);
}
