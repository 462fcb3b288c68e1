/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/layout/wire_measure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/layout/limits.h"
#include "common/layout/wire_tcp.h"

static const char *wrong(const struct rpc_measure *m)
{
	static const struct rpc_measure zero;

	if (m->phase != MEASURE_BEGIN && m->phase != MEASURE_LOOK)
		return "the phase of a measurement is unknown";
	if (m->op < MEASURE_GET || m->op > MEASURE_MIXED)
		return "the operation of a measurement is unknown";
	if (m->queue_pairs < 1 || m->queue_pairs > SESSION_HANDLES_MAX)
		return "a measurement uses 1 to 64 queue pairs";
	if (m->depth < 1)
		return "a measurement has at least one operation in flight";
	if (m->value_bytes > VALUE_MAX)
		return "values have at most 16 MiB";
	if (memcmp(m->reserved, zero.reserved, sizeof(zero.reserved)) != 0)
		return "reserved bytes of a measurement are set";
	return NULL;
}

int measure_decode(const void *value, uint32_t len, struct rpc_measure *out, const char **why)
{
	*why = "it is no measurement";
	if (len != sizeof(*out))
		return -EINVAL;
	memcpy(out, value, sizeof(*out));
	if (wire_text(out->tool, sizeof(out->tool)))
		return -EINVAL;
	*why = wrong(out);
	return *why ? -EINVAL : 0;
}

int measured_decode(const void *value, uint32_t len, struct rpc_measured *out)
{
	if (len != sizeof(*out))
		return -EPROTO;
	memcpy(out, value, sizeof(*out));
	if (out->verdict > 0 || wire_text(out->device, sizeof(out->device)) ||
	    wire_text(out->version, sizeof(out->version)) || wire_text(out->why, sizeof(out->why)))
		return -EPROTO;
	return 0;
}

static int differ(struct rpc_measured *there, const char *what, uint32_t client, uint32_t server)
{
	there->verdict = -EPROTO;
	snprintf(there->why, sizeof(there->why),
		 "the two ends of the queue pair differ: %s is %u at the client and %u at the "
		 "server (install the same GraceKV release on both)",
		 what, client, server);
	return -EPROTO;
}

int measure_compare(const struct rpc_measure *here, struct rpc_measured *there)
{
	if (here->mtu != there->mtu)
		return differ(there, "the MTU", here->mtu, there->mtu);
	if (here->read_depth != there->read_depth)
		return differ(there, "the READ depth", here->read_depth, there->read_depth);
	if (here->credits != there->credits)
		return differ(there, "the number of requests in flight", here->credits,
			      there->credits);
	return 0;
}
