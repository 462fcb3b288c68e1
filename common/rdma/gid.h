/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * GID choice. On RoCE a GID says which address and which version of the protocol packets carry;
 * the wrong one connects to nothing. Preference, on one port: RoCE v2 with an IPv4-mapped address
 * of the network device that holds the exchange's address; any RoCE v2 IPv4-mapped; RoCE v2 IPv6;
 * RoCE v2 IPv6 link-local; RoCE v1, with a warning. On InfiniBand index 0.
 */
#include <stddef.h>

#include "common/rdma/device.h"

enum gid_rank {
	GID_UNUSABLE,
	GID_V1,
	GID_V2_LINK_LOCAL,
	GID_V2_IPV6,
	GID_V2_IPV4,
	GID_V2_IPV4_NETDEV
};

struct gid_verdict {
	struct ibv_gid_entry entry;
	enum gid_rank rank;
	const char *reason; /* static words */
};

/*
 * gid_judge - rank one entry. @netdev: index of the network device that holds the exchange's
 * address, 0: unknown.
 */
void gid_judge(const struct ibv_gid_entry *entry, unsigned netdev, struct gid_verdict *out);

/* gid_text - "0000:0000:...": the GID as people read it. @text: at least 48 bytes. */
void gid_text(const union ibv_gid *gid, char *text, size_t cap);

/* gid_netdev_of - index of the network device that holds @address (text), or 0. */
unsigned gid_netdev_of(const char *address);

/*
 * gid_choose - fill dev->gid, gid_index, has_gid, and append to dev->choice.
 * dev->options.gid_index RDMA_GID_AUTO chooses; otherwise that index is taken or refused.
 * Returns 0; -ERANGE: no such index; -ENODATA: no usable GID. @err says what the table holds.
 */
int gid_choose(struct rdma_device *dev, const char *address, struct error *err);
