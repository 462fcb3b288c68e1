/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * GID choice. On RoCE a GID says which address and which version of the protocol packets carry;
 * the wrong one connects to nothing. Preference among the entries of one port:
 *
 *	1. RoCE v2, the very address that the exchange uses: TCP has just shown that the peer is
 *	   reached from it, and both ends of one TCP connection have addresses of one family;
 *	2. RoCE v2, an IPv4 address of the network device that holds the exchange's address;
 *	3. RoCE v2, any IPv4 address;
 *	4. RoCE v2, an IPv6 address;	5. RoCE v2, a link-local one;
 *	6. RoCE v1, with a warning.
 *
 * Among equals one of the network device that holds the exchange's address is taken, else the
 * first. On InfiniBand packets are routed by LID, and entry 0 is what the peer is told.
 * docs/internals/connecting.md says why.
 */
#include <stddef.h>

#include "common/rdma/device.h"

enum gid_rank {
	GID_UNUSABLE,
	GID_V1,
	GID_V2_LINK_LOCAL,
	GID_V2_IPV6,
	GID_V2_IPV4,
	GID_V2_IPV4_NETDEV,
	GID_V2_EXCHANGE,
};

/* An address in the form that a GID has. Zeroed: not known. */
struct gid_address {
	bool known;
	union ibv_gid gid; /* IPv4 as ::ffff:A.B.C.D */
	unsigned netdev; /* index of the network device that holds it; 0: none of this machine */
	union ibv_gid ib_gid; /* of the port under it, where that carries IP over InfiniBand */
};

struct gid_verdict {
	struct ibv_gid_entry entry;
	enum gid_rank rank;
	bool rail; /* it belongs to the network device that holds the exchange's address */
	const char *reason; /* static words */
};

struct gid_choice {
	struct rdma_source source;
	enum gid_rank rank; /* of a port routed by LID: GID_V2_IPV4, as good as any */
	bool rail; /* the port has a usable GID of the network device with the exchange's address */
	bool warn; /* it may well not work: a warning is due */
	char why[192]; /* in words */
};

/*
 * gid_from_text - the GID that stands for an IPv4 or IPv6 address; a scope after it counts for
 * nothing. Returns false where @text is no address.
 */
bool gid_from_text(const char *text, union ibv_gid *out);

/*
 * gid_address - @text: an IPv4 or IPv6 address, with a scope, a name or an index, or without, or
 * NULL, or a name. One that means all addresses is not known either.
 */
struct gid_address gid_address(const char *text);

/* gid_judge - rank one entry, of a RoCE port, for an exchange that uses the address @near. */
void gid_judge(const struct ibv_gid_entry *entry, const struct gid_address *near,
	       struct gid_verdict *out);

/* gid_is_ipv4 - whether it is an IPv4-mapped address. */
bool gid_is_ipv4(const union ibv_gid *gid);

/* gid_text - "0000:0000:...": the GID as people read it. @text: at least 48 bytes. */
void gid_text(const union ibv_gid *gid, char *text, size_t cap);

/* gid_type_words - "RoCE v2", ...: static. @type: enum ibv_gid_type, also one that is unknown. */
const char *gid_type_words(unsigned type);

/*
 * gid_table - the entries of dev->port that are not empty, in the order of their indices: one call
 * to the kernel. Returns their number and *@out, which the caller frees; or a negative errno.
 */
int gid_table(const struct rdma_device *dev, struct ibv_gid_entry **out, struct error *err);

/*
 * gid_choose - where packets to the peer of an exchange come from.
 * @address: this side's address in the exchange, as text; NULL: not known.
 * dev->options.gid_index RDMA_GID_AUTO chooses; otherwise that index is taken or refused. The
 * table is read again: addresses come and go.
 * Returns 0; -ERANGE: no such index; -ENODATA: no usable GID. @err says what the table holds.
 * Any thread.
 */
int gid_choose(const struct rdma_device *dev, const char *address, struct gid_choice *out,
	       struct error *err);

/*
 * gid_explain - what auto thinks of an entry of dev->port, in words: "taken: ...", "not taken:
 * ...", "cannot be taken: ...". @near: of the exchange. @taken: what gid_choose() took; NULL:
 * nothing could be. Returns whether it is that one.
 */
bool gid_explain(const struct rdma_device *dev, const struct ibv_gid_entry *entry,
		 const struct gid_address *near, const struct gid_choice *taken, char *text,
		 size_t cap);
