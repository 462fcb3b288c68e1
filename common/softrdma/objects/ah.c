/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * An address handle is a path that was checked, and holds its PD.
 *
 * The global route header that soft0 puts in front of a received datagram is always that of IBTA
 * 8.3: version 6, next header 0x1B, payload length, sender's GID, receiver's GID. A RoCE v2 NIC
 * writes there what was on the wire, for an IPv4 GID an IPv4 header in the last 20 bytes; a
 * program that reads the header itself and runs on both must look at the version.
 */
#include "common/softrdma/objects/ah.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/softrdma/device/context.h"
#include "common/softrdma/objects/mr.h"
#include "common/softrdma/device/port.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/softrdma.h"

#define FLOW_MASK 0xfffffu
#define HOPS_MAX  255

struct ibv_ah *softrdma_create_ah(struct ibv_pd *base, struct ibv_ah_attr *attr)
{
	struct soft_pd *pd = soft_pd(base);
	struct soft_ah *ah;

	if (!process_alive(pd->epoch) || !soft_path_valid(attr)) {
		errno = EINVAL;
		return NULL;
	}
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	ah->base.context = base->context;
	ah->base.pd = base;
	ah->base.handle = (uint32_t)process_new_id();
	ah->epoch = pd->epoch;
	ah->attr = *attr;
	atomic_fetch_add(&pd->users, 1);
	return &ah->base;
}

int softrdma_destroy_ah(struct ibv_ah *base)
{
	struct soft_ah *ah = soft_ah(base);

	if (!process_alive(ah->epoch))
		return EINVAL;
	atomic_fetch_sub(&soft_pd(base->pd)->users, 1);
	free(ah);
	return 0;
}

/* The last entry of the GID table with @gid: on RoCE that of version 2. -1: none. */
static int gid_index(const union ibv_gid *gid)
{
	int index = (int)soft_gids() - 1;

	while (index >= 0 && memcmp(soft_gid((unsigned)index), gid, sizeof(*gid)) != 0)
		index--;
	return index;
}

/* Turn a received header around. Returns false where it is none, or came to somebody else. */
static bool grh_reply(const struct ibv_grh *grh, struct ibv_global_route *out)
{
	uint32_t word = ntohl(grh->version_tclass_flow);
	int index = gid_index(&grh->dgid);

	if (word >> 28 != GRH_VERSION || grh->next_hdr != GRH_NEXT || index < 0)
		return false;
	out->dgid = grh->sgid;
	out->sgid_index = (uint8_t)index;
	out->flow_label = word & FLOW_MASK;
	out->traffic_class = word >> 20 & 0xff;
	out->hop_limit = HOPS_MAX;
	return true;
}

int softrdma_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
			     struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port;
	attr->is_global = wc->wc_flags & IBV_WC_GRH ? 1 : 0;
	if (!process_alive(soft_context(context)->epoch) || port != SOFT_PORT ||
	    (attr->is_global && !grh_reply(grh, &attr->grh))) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}

struct ibv_ah *softrdma_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
					  uint8_t port)
{
	struct ibv_ah_attr attr;

	if (softrdma_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return softrdma_create_ah(pd, &attr);
}
