/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/rdma/gid.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_MAX  4096 /* entries of a port; the largest known has 1024 */
#define IPOIB_LEN  20 /* bytes of IPoIB's hardware address (RFC 4391, 9.1.1) */
#define IPOIB_SKIP 4 /* the queue pair; the port's GID follows */

static bool gid_is_zero(const union ibv_gid *gid)
{
	return gid->global.subnet_prefix == 0 && gid->global.interface_id == 0;
}

bool gid_is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	return memcmp(gid->raw, mapped, sizeof(mapped)) == 0;
}

static bool gid_is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

void gid_text(const union ibv_gid *gid, char *text, size_t cap)
{
	inet_ntop(AF_INET6, gid->raw, text, (socklen_t)cap);
}

const char *gid_type_words(unsigned type)
{
	switch (type) {
	case IBV_GID_TYPE_IB:
		return "InfiniBand";
	case IBV_GID_TYPE_ROCE_V1:
		return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2:
		return "RoCE v2";
	}
	return "of an unknown type";
}

static bool gid_equal(const union ibv_gid *a, const union ibv_gid *b)
{
	return memcmp(a->raw, b->raw, sizeof(a->raw)) == 0;
}

/* A link-local address may be that of several network devices. */
static bool is_address(const struct ibv_gid_entry *entry, const struct gid_address *near)
{
	if (!near->known || !gid_equal(&entry->gid, &near->gid))
		return false;
	return !gid_is_link_local(&near->gid) || !near->netdev || !entry->ndev_ifindex ||
	       entry->ndev_ifindex == near->netdev;
}

void gid_judge(const struct ibv_gid_entry *entry, const struct gid_address *near,
	       struct gid_verdict *out)
{
	const union ibv_gid *gid = &entry->gid;
	bool same_netdev = near->netdev && entry->ndev_ifindex == near->netdev;
	bool same_address = is_address(entry, near);

	out->entry = *entry;
	out->rail =
		same_netdev || same_address || (!gid_is_zero(gid) && gid_equal(gid, &near->ib_gid));
	if (gid_is_zero(gid)) {
		out->rank = GID_UNUSABLE;
		out->reason = "empty";
	} else if (entry->gid_type == IBV_GID_TYPE_ROCE_V1) {
		out->rank = GID_V1;
		out->reason = "RoCE v1: not routed, and many networks drop it";
	} else if (entry->gid_type != IBV_GID_TYPE_ROCE_V2) {
		out->rank = GID_UNUSABLE;
		out->reason = "not a RoCE GID";
	} else if (same_address) {
		out->rank = GID_V2_EXCHANGE;
		out->reason = "RoCE v2, the address of the TCP exchange";
	} else if (gid_is_ipv4(gid) && same_netdev) {
		out->rank = GID_V2_IPV4_NETDEV;
		out->reason = "RoCE v2, IPv4, of the network device with the exchange's address";
	} else if (gid_is_ipv4(gid)) {
		out->rank = GID_V2_IPV4;
		out->reason = "RoCE v2, IPv4";
	} else if (gid_is_link_local(gid)) {
		out->rank = GID_V2_LINK_LOCAL;
		out->reason = "RoCE v2, IPv6 link-local: reaches this link only";
	} else {
		out->rank = GID_V2_IPV6;
		out->reason = "RoCE v2, IPv6";
	}
}

static void from_ipv4(const void *address, union ibv_gid *out)
{
	memset(out, 0, sizeof(*out));
	out->raw[10] = out->raw[11] = 0xff;
	memcpy(out->raw + 12, address, sizeof(struct in_addr));
}

/* Returns false where it is no address of these families. */
static bool from_sockaddr(const struct sockaddr *sa, union ibv_gid *out)
{
	if (sa && sa->sa_family == AF_INET)
		from_ipv4(&((const struct sockaddr_in *)sa)->sin_addr, out);
	else if (sa && sa->sa_family == AF_INET6)
		memcpy(out->raw, &((const struct sockaddr_in6 *)sa)->sin6_addr, sizeof(out->raw));
	else
		return false;
	return true;
}

bool gid_from_text(const char *text, union ibv_gid *out)
{
	char plain[64];
	struct in_addr v4;

	snprintf(plain, sizeof(plain), "%.*s", (int)strcspn(text, "%"), text);
	if (inet_pton(AF_INET, plain, &v4) != 1)
		return inet_pton(AF_INET6, plain, out->raw) == 1;
	from_ipv4(&v4, out);
	return true;
}

/* The GID of the port below a network device, where that carries IP over InfiniBand; else zeros. */
static void port_below(const struct ifaddrs *list, unsigned netdev, union ibv_gid *out)
{
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		const struct sockaddr_ll *ll = (const struct sockaddr_ll *)i->ifa_addr;

		if (ll && ll->sll_family == AF_PACKET && ll->sll_hatype == ARPHRD_INFINIBAND &&
		    ll->sll_halen == IPOIB_LEN && if_nametoindex(i->ifa_name) == netdev)
			memcpy(out->raw,
			       (const char *)ll + offsetof(struct sockaddr_ll, sll_addr) +
				       IPOIB_SKIP,
			       sizeof(out->raw)); /* the C library keeps all of it */
	}
}

/* Whether the scope of an address names the network device: by its name, or by its index. */
static bool is_scope(const char *scope, const char *netdev)
{
	char index[12];

	snprintf(index, sizeof(index), "%u", if_nametoindex(netdev));
	return strcmp(scope, netdev) == 0 || strcmp(scope, index) == 0;
}

struct gid_address gid_address(const char *text)
{
	const char *scope = text ? strchr(text, '%') : NULL;
	const union ibv_gid all_ipv4 = { .raw = { [10] = 0xff, [11] = 0xff } };
	struct gid_address a = { 0 };
	struct ifaddrs *list, *i;
	union ibv_gid gid;

	if (!text || !gid_from_text(text, &a.gid) || gid_is_zero(&a.gid) ||
	    gid_equal(&a.gid, &all_ipv4))
		return (struct gid_address){ 0 };
	a.known = true;
	if (getifaddrs(&list))
		return a;
	for (i = list; i && !a.netdev; i = i->ifa_next) {
		if (from_sockaddr(i->ifa_addr, &gid) && gid_equal(&gid, &a.gid) &&
		    (!scope || is_scope(scope + 1, i->ifa_name)))
			a.netdev = if_nametoindex(i->ifa_name);
	}
	if (a.netdev)
		port_below(list, a.netdev, &a.ib_gid);
	freeifaddrs(list);
	return a;
}

static int by_index(const void *a, const void *b)
{
	const struct ibv_gid_entry *x = a, *y = b;

	return x->gid_index < y->gid_index ? -1 : x->gid_index > y->gid_index;
}

int gid_table(const struct rdma_device *dev, struct ibv_gid_entry **out, struct error *err)
{
	size_t ports = dev->attr.phys_port_cnt ? dev->attr.phys_port_cnt : 1;
	size_t len = dev->port_attr.gid_tbl_len > 0 ? (size_t)dev->port_attr.gid_tbl_len : 0;
	size_t max = ports * (len < TABLE_MAX ? len : TABLE_MAX) + 1;
	struct ibv_gid_entry *entries = calloc(max, sizeof(*entries));
	ssize_t n, kept = 0;

	if (!entries)
		return error_set(err, -ENOMEM, "out of memory for a GID table");
	n = dev->ops->query_gid_table(dev->context, entries, max, 0);
	if (n < 0 || (size_t)n > max) {
		int rc = n < 0 ? (int)n : -EIO;

		free(entries);
		return error_set(err, rc, "reading the GID table of %s failed: %s", dev->name,
				 error_name(rc));
	}
	for (ssize_t i = 0; i < n; i++) {
		if (entries[i].port_num == dev->port && !gid_is_zero(&entries[i].gid))
			entries[kept++] = entries[i];
	}
	qsort(entries, (size_t)kept, sizeof(*entries), by_index);
	*out = entries;
	return (int)kept;
}

static void take(struct gid_choice *out, const struct ibv_gid_entry *e, bool grh, const char *how,
		 const char *why)
{
	char text[INET6_ADDRSTRLEN];

	out->source = (struct rdma_source){ .has_gid = true,
					    .grh = grh,
					    .gid_index = (int)e->gid_index,
					    .gid_type = (enum ibv_gid_type)e->gid_type,
					    .gid = e->gid };
	gid_text(&e->gid, text, sizeof(text));
	snprintf(out->why, sizeof(out->why), "GID index %u %s: %s%s", e->gid_index, text, how, why);
}

static int choose_named(const struct rdma_device *dev, const struct ibv_gid_entry *entries,
			int count, const struct gid_address *near, struct gid_choice *out,
			struct error *err)
{
	bool ethernet = dev->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	int index = dev->options.gid_index, last = dev->port_attr.gid_tbl_len - 1;
	struct gid_verdict verdict;

	for (int i = 0; i < count && index <= RDMA_GID_INDEX_MAX; i++) {
		if ((int)entries[i].gid_index != index)
			continue;
		gid_judge(&entries[i], near, &verdict);
		take(out, &entries[i], true, "as asked for, ",
		     ethernet ? verdict.reason : "InfiniBand with a GRH");
		out->rank = ethernet ? verdict.rank : GID_V2_IPV4;
		return 0;
	}
	return error_set(
		err, -ERANGE,
		"GID index %d of port %u of %s is %s; its table has indices 0 to %d, %d in "
		"use (kv-cli doctor shows them)",
		index, dev->port, dev->name, index <= last ? "empty" : "out of range",
		last < RDMA_GID_INDEX_MAX ? last : RDMA_GID_INDEX_MAX, count);
}

static int choose_roce(const struct rdma_device *dev, const struct ibv_gid_entry *entries,
		       int count, const struct gid_address *near, struct gid_choice *out,
		       struct error *err)
{
	struct gid_verdict best = { .rank = GID_UNUSABLE }, verdict;

	for (int i = 0; i < count && entries[i].gid_index <= RDMA_GID_INDEX_MAX; i++) {
		gid_judge(&entries[i], near, &verdict);
		if (verdict.rank > best.rank ||
		    (verdict.rank == best.rank && verdict.rail && !best.rail))
			best = verdict;
	}
	if (best.rank == GID_UNUSABLE)
		return error_set(err, -ENODATA,
				 "port %u of %s has no usable GID among the %d of its table (give "
				 "its network device an IP address and bring it up)",
				 dev->port, dev->name, count);
	take(out, &best.entry, true, "", best.reason);
	out->rank = best.rank;
	out->warn = best.rank <= GID_V2_LINK_LOCAL;
	return 0;
}

static void choose_infiniband(const struct rdma_device *dev, const struct ibv_gid_entry *entries,
			      int count, struct gid_choice *out)
{
	if (count > 0)
		take(out, &entries[0], false, "", "");
	out->rank = GID_V2_IPV4;
	snprintf(out->why, sizeof(out->why), "InfiniBand, routed by LID %u", dev->port_attr.lid);
}

int gid_choose(const struct rdma_device *dev, const char *address, struct gid_choice *out,
	       struct error *err)
{
	const bool ethernet = dev->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	struct gid_address near = gid_address(address);
	struct ibv_gid_entry *entries;
	int count = gid_table(dev, &entries, err), rc = 0;
	struct gid_verdict verdict;

	if (count < 0)
		return count;
	memset(out, 0, sizeof(*out));
	if (dev->options.gid_index != RDMA_GID_AUTO)
		rc = choose_named(dev, entries, count, &near, out, err);
	else if (ethernet)
		rc = choose_roce(dev, entries, count, &near, out, err);
	else
		choose_infiniband(dev, entries, count, out);
	for (int i = 0; i < count; i++) {
		gid_judge(&entries[i], &near, &verdict);
		out->rail |= verdict.rail && (!ethernet || verdict.rank != GID_UNUSABLE);
	}
	free(entries);
	return rc;
}

bool gid_explain(const struct rdma_device *dev, const struct ibv_gid_entry *entry,
		 const struct gid_address *near, const struct gid_choice *taken, char *text,
		 size_t cap)
{
	bool ethernet = dev->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	struct gid_verdict v;

	gid_judge(entry, near, &v);
	if (!ethernet)
		v.reason = "InfiniBand";
	if (taken && taken->source.has_gid && (int)entry->gid_index == taken->source.gid_index) {
		snprintf(text, cap, "taken: %s%s%s",
			 dev->options.gid_index == RDMA_GID_AUTO ? "" : "as asked for, ", v.reason,
			 ethernet	     ? ""
			 : taken->source.grh ? ", with a GRH"
					     : "; the peer is told it, packets go by LID");
		return true;
	}
	if (entry->gid_index > RDMA_GID_INDEX_MAX)
		snprintf(text, cap, "cannot be taken: an address vector has indices to %d",
			 RDMA_GID_INDEX_MAX);
	else if (ethernet && v.rank == GID_UNUSABLE)
		snprintf(text, cap, "cannot be taken: %s", v.reason);
	else if (!taken)
		snprintf(text, cap, "not taken: %s", v.reason);
	else if (dev->options.gid_index != RDMA_GID_AUTO)
		snprintf(text, cap, "not taken: %s; %d was asked for", v.reason,
			 taken->source.gid_index);
	else
		snprintf(text, cap, "not taken: %s; %d is %s", v.reason, taken->source.gid_index,
			 ethernet && v.rank < taken->rank ? "better"
			 : taken->rail			  ? "no worse"
							  : "the first such");
	return false;
}
