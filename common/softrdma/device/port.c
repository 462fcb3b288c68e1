/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The port is the same on every machine, since a QP on soft0 reaches nothing but this machine. As a
 * rule it is Ethernet, with the GID table of a RoCE NIC on the interface lo: each address twice,
 * as RoCE v1 and as RoCE v2. SOFTRDMA_LINK=ib makes it InfiniBand, with a LID and one GID.
 *
 * The two are different networks. They have no GID in common and RoCE has no LID, so that an
 * address of one is refused by the other; and the processes of one do not find those of the other
 * (wire.c), so that attributes made up by hand lead nowhere.
 *
 * SOFTRDMA_FAULT can take the port down and move it: its LID is then another one, and the GIDs that
 * a network gives (IPv4, or the prefix of a subnet) are others, until it moves back. What a port is
 * now stands in the arena of its process, so that a queue pair that is connected to where the port
 * was finds nobody.
 */
#include "common/softrdma/device/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/softrdma/device/context.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/softrdma.h"

#define PKEY_DEFAULT 0xffff
#define NETDEV	     "lo"

/* fe80::ff:fe00:1, from the address 02:00:00:00:00:01 */
#define GID_LINK_LOCAL                                                                \
	{                                                                             \
		.raw = { 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1 } \
	}
/* ::ffff:127.0.0.1 */
#define GID_IPV4(last)                                                               \
	{                                                                            \
		.raw = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, last } \
	}
/* a subnet prefix, and a port GUID that is not the node GUID */
#define GID_IB(prefix)                                                                  \
	{                                                                               \
		.raw = { 0xfe, prefix, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 2 } \
	}

struct soft_gid_entry {
	union ibv_gid gid;
	enum ibv_gid_type type;
};

/* The tables as the port is at first, and once it has moved. */
#define ROCE_GIDS(last)                                           \
	{                                                         \
		{ GID_LINK_LOCAL, IBV_GID_TYPE_ROCE_V1 },         \
			{ GID_LINK_LOCAL, IBV_GID_TYPE_ROCE_V2 }, \
			{ GID_IPV4(last), IBV_GID_TYPE_ROCE_V1 }, \
			{ GID_IPV4(last), IBV_GID_TYPE_ROCE_V2 }, \
	}
static const struct soft_gid_entry roce_gids[2][SOFT_GIDS] = { ROCE_GIDS(1), ROCE_GIDS(2) };
static const struct soft_gid_entry ib_gids[2][1] = { { { GID_IB(0x80), IBV_GID_TYPE_IB } },
						     { { GID_IB(0xc0), IBV_GID_TYPE_IB } } };

static bool link_ib;
static pthread_once_t link_read = PTHREAD_ONCE_INIT;

static void link_parse(void)
{
	const char *link = getenv("SOFTRDMA_LINK");

	if (!link || !*link || strcmp(link, "roce") == 0)
		return;
	link_ib = strcmp(link, "ib") == 0;
	if (!link_ib)
		fprintf(stderr,
			"softrdma: SOFTRDMA_LINK=%s is ignored: the link is roce (Ethernet, the "
			"default) or ib (InfiniBand)\n",
			link);
}

bool soft_port_ib(void)
{
	pthread_once(&link_read, link_parse);
	return link_ib;
}

unsigned soft_gids(void)
{
	return soft_port_ib() ? 1 : SOFT_GIDS;
}

static const struct soft_gid_entry *gid_table(uint32_t port)
{
	bool moved = port & PORT_GIDS_MOVED;

	return soft_port_ib() ? ib_gids[moved] : roce_gids[moved];
}

/* PORT_* of this process. */
static uint32_t port_now(void)
{
	/* relaxed: a reader at the same time may come before */
	return atomic_load_explicit(&own_arena()->port, memory_order_relaxed);
}

static const struct soft_gid_entry *gid_entry(unsigned index)
{
	return &gid_table(port_now())[index];
}

static uint32_t lid(uint32_t port)
{
	return port & PORT_LID_MOVED ? SOFT_LID_MOVED : SOFT_LID;
}

const union ibv_gid *soft_gid(unsigned index)
{
	return &gid_entry(index)->gid;
}

static bool gid_among(const union ibv_gid *gid, uint32_t port)
{
	for (unsigned i = 0; i < soft_gids(); i++) {
		if (memcmp(gid, &gid_table(port)[i].gid, sizeof(*gid)) == 0)
			return true;
	}
	return false;
}

bool soft_gid_known(const union ibv_gid *gid)
{
	return gid_among(gid, 0) || gid_among(gid, PORT_GIDS_MOVED);
}

bool soft_path_leads(const struct ibv_ah_attr *ah, uint32_t port)
{
	return (!soft_port_ib() || ah->dlid == lid(port)) &&
	       (!ah->is_global || gid_among(&ah->grh.dgid, port));
}

bool soft_port_down(void)
{
	return port_now() & PORT_DOWN;
}

void soft_port_change(enum ibv_event_type type)
{
	_Atomic uint32_t *port = &own_arena()->port;

	switch (type) {
	case IBV_EVENT_PORT_ERR:
		atomic_fetch_or(port, PORT_DOWN);
		break;
	case IBV_EVENT_PORT_ACTIVE:
		atomic_fetch_and(port, ~PORT_DOWN);
		break;
	case IBV_EVENT_LID_CHANGE:
		atomic_fetch_xor(port, PORT_LID_MOVED);
		break;
	case IBV_EVENT_GID_CHANGE:
		atomic_fetch_xor(port, PORT_GIDS_MOVED);
		break;
	default:
		break;
	}
}

bool soft_path_valid(const struct ibv_ah_attr *ah)
{
	bool ib = soft_port_ib();

	if (ah->port_num != SOFT_PORT ||
	    (ib && ah->dlid != lid(0) && ah->dlid != lid(PORT_LID_MOVED)))
		return false;
	if (!ah->is_global)
		return ib;
	return ah->grh.sgid_index < soft_gids() && soft_gid_known(&ah->grh.dgid);
}

int soft_port_fill(struct ibv_context *base, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct ibv_port_attr full = {
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = (int)soft_gids(),
		.max_msg_sz = SOFT_MSG_MAX,
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.active_width = 1, /* 1X */
		.active_speed = 1, /* the slowest: no promise */
		.phys_state = 5, /* LinkUp */
	};

	if (port != SOFT_PORT || !process_alive(soft_context(base)->epoch))
		return EINVAL;
	if (context_lost(base))
		return EIO;
	if (soft_port_down()) {
		full.state = IBV_PORT_DOWN;
		full.phys_state = 2; /* Polling */
	}
	if (soft_port_ib()) {
		full.link_layer = IBV_LINK_LAYER_INFINIBAND;
		full.lid = (uint16_t)lid(port_now());
		full.sm_lid = SOFT_LID;
	} else {
		full.link_layer = IBV_LINK_LAYER_ETHERNET;
		full.port_cap_flags = IBV_PORT_IP_BASED_GIDS;
		full.flags = IBV_QPF_GRH_REQUIRED;
	}
	memset(attr, 0, size);
	memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
	return 0;
}

int softrdma_query_port(struct ibv_context *base, uint8_t port, struct ibv_port_attr *attr)
{
	return soft_port_fill(base, port, attr, sizeof(*attr));
}

int softrdma_query_gid(struct ibv_context *base, uint8_t port, int index, union ibv_gid *gid)
{
	if (port != SOFT_PORT || index < 0 || (unsigned)index >= soft_gids() ||
	    !process_alive(soft_context(base)->epoch)) {
		errno = EINVAL;
		return -1;
	}
	*gid = *soft_gid((unsigned)index);
	return 0;
}

int softrdma_query_gid_ex(struct ibv_context *base, uint32_t port, uint32_t index,
			  struct ibv_gid_entry *entry, uint32_t flags)
{
	if (port != SOFT_PORT || flags || !process_alive(soft_context(base)->epoch))
		return EINVAL;
	if (index >= soft_gids())
		return ENODATA;
	*entry = (struct ibv_gid_entry){ .gid = *soft_gid(index),
					 .gid_index = index,
					 .port_num = port,
					 .gid_type = gid_entry(index)->type };
	if (!soft_port_ib())
		entry->ndev_ifindex = if_nametoindex(NETDEV);
	return 0;
}

ssize_t softrdma_query_gid_table(struct ibv_context *base, struct ibv_gid_entry *entries,
				 size_t max, uint32_t flags, size_t entry_size)
{
	unsigned count = soft_gids();

	if (flags || !entry_size || max < count || !process_alive(soft_context(base)->epoch))
		return -EINVAL;
	memset(entries, 0, count * entry_size);
	for (unsigned i = 0; i < count; i++) {
		struct ibv_gid_entry entry;
		unsigned char *to = (unsigned char *)entries + i * entry_size;

		softrdma_query_gid_ex(base, SOFT_PORT, i, &entry, 0);
		memcpy(to, &entry, entry_size < sizeof(entry) ? entry_size : sizeof(entry));
	}
	return (ssize_t)count;
}

int softrdma_query_pkey(struct ibv_context *base, uint8_t port, int index, __be16 *pkey)
{
	if (port != SOFT_PORT || index != 0 || !process_alive(soft_context(base)->epoch)) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htons(PKEY_DEFAULT);
	return 0;
}

int softrdma_get_pkey_index(struct ibv_context *base, uint8_t port, __be16 pkey)
{
	__be16 own;

	if (softrdma_query_pkey(base, port, 0, &own))
		return -1;
	if (pkey != own) {
		errno = ENOENT;
		return -1;
	}
	return 0;
}
