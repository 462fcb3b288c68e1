/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/call/measure.h"

#include <errno.h>

#include "client/src/call/rpc_run.h"

static int ask(struct gkv *h, const struct rpc_measure *plan, struct rpc_measured *out)
{
	struct rpc_call c = {
		.op = RPC_MEASURE,
		.value = plan,
		.value_len = sizeof(*plan),
		.room = sizeof(*out),
	};
	int rc = rpc_run(h, &c);

	if (rc == -EOPNOTSUPP)
		return error_set(&h->error, rc,
				 "the server does not know measurements (install the same GraceKV "
				 "release on both)");
	if (rc)
		return rc;
	if (!c.result || measured_decode(c.result, c.reply->value_len, out))
		return error_set(&h->error, -EPROTO,
				 "the server's answer to a measurement is none of this release "
				 "(install the same GraceKV release on both)");
	return 0;
}

int measure_tell(struct gkv *h, const struct rpc_measure *plan, struct rpc_measured *out)
{
	struct rpc_measure mine = *plan;
	int rc = handle_begin(h);

	if (rc)
		return rc;
	rc = handle_ready(h); /* of another queue pair other values may hold */
	mine.mtu = rdma_mtu_bytes(h->link.qp.mtu);
	mine.read_depth = h->link.qp.rd_initiator;
	mine.credits = h->link.credits;
	if (rc == 0)
		rc = ask(h, &mine, out);
	if (rc == 0 && mine.phase == MEASURE_BEGIN && out->verdict == 0)
		measure_compare(&mine, out);
	if (rc == 0 && out->verdict)
		rc = error_set(&h->error, out->verdict, "%s", out->why);
	return handle_end(h, rc);
}
