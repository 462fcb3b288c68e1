/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/measure.h"

#include <stdio.h>

#include "common/base/time.h"
#include "server/server.h"

void server_measure(void *ctx, struct rpc_measured *out)
{
	struct server *s = ctx;
	struct index_stats ix;
	struct memory_stats m;
	uint64_t extents, unused, taken;

	memory_stats_get(s->store.memory, &m);
	index_stats_get(s->store.index, &ix);
	extents = m.extent_bytes[EXTENT_INDEX] + m.extent_bytes[EXTENT_DIR] +
		  m.extent_bytes[EXTENT_DATA];
	unused = m.slabs_free * SLAB_BYTES; /* of another moment: an extent may have come since */
	taken = extents > unused ? extents - unused : 0;
	out->cpu_ns = time_cpu_ns();
	out->workers = s->sessions.worker_count;
	out->software = s->dev->software;
	out->memory_max = m.bytes_max;
	out->memory_free = taken < m.bytes_max ? m.bytes_max - taken : 0;
	out->records = ix.records;
	snprintf(out->device, sizeof(out->device), "%s", s->dev->name);
	snprintf(out->version, sizeof(out->version), "%s", GRACEKV_VERSION);
}
