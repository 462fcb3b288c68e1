/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/rdma/gid.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#define GIDS_SHOWN_MAX 256 /* entries of a table that are looked at */

static bool gid_is_zero(const union ibv_gid *gid)
{
	return gid->global.subnet_prefix == 0 && gid->global.interface_id == 0;
}

static bool gid_is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	return memcmp(gid->raw, mapped, sizeof(mapped)) == 0;
}

static bool gid_is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

void gid_judge(const struct ibv_gid_entry *entry, unsigned netdev, struct gid_verdict *out)
{
	out->entry = *entry;
	if (gid_is_zero(&entry->gid)) {
		out->rank = GID_UNUSABLE;
		out->reason = "empty";
	} else if (entry->gid_type == IBV_GID_TYPE_ROCE_V1) {
		out->rank = GID_V1;
		out->reason = "RoCE v1: not routed, and many networks drop it";
	} else if (entry->gid_type != IBV_GID_TYPE_ROCE_V2) {
		out->rank = GID_UNUSABLE;
		out->reason = "not a RoCE GID";
	} else if (gid_is_ipv4(&entry->gid)) {
		bool same = netdev && entry->ndev_ifindex == netdev;

		out->rank = same ? GID_V2_IPV4_NETDEV : GID_V2_IPV4;
		out->reason = same ? "RoCE v2, IPv4, of the network device with the exchange's "
				     "address"
				   : "RoCE v2, IPv4";
	} else if (gid_is_link_local(&entry->gid)) {
		out->rank = GID_V2_LINK_LOCAL;
		out->reason = "RoCE v2, IPv6 link-local: reaches this link only";
	} else {
		out->rank = GID_V2_IPV6;
		out->reason = "RoCE v2, IPv6";
	}
}

void gid_text(const union ibv_gid *gid, char *text, size_t cap)
{
	inet_ntop(AF_INET6, gid->raw, text, (socklen_t)cap);
}

unsigned gid_netdev_of(const char *address)
{
	struct ifaddrs *list, *i;
	char text[INET6_ADDRSTRLEN];
	unsigned index = 0;

	if (!address || getifaddrs(&list))
		return 0;
	for (i = list; i && !index; i = i->ifa_next) {
		const void *raw;

		if (!i->ifa_addr)
			continue;
		if (i->ifa_addr->sa_family == AF_INET)
			raw = &((struct sockaddr_in *)i->ifa_addr)->sin_addr;
		else if (i->ifa_addr->sa_family == AF_INET6)
			raw = &((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;
		else
			continue;
		if (inet_ntop(i->ifa_addr->sa_family, raw, text, sizeof(text)) &&
		    strcmp(text, address) == 0)
			index = if_nametoindex(i->ifa_name);
	}
	freeifaddrs(list);
	return index;
}

static void take(struct rdma_device *dev, const struct gid_verdict *v, const char *why)
{
	char text[INET6_ADDRSTRLEN];
	size_t used = strlen(dev->choice);

	dev->gid = v->entry.gid;
	dev->gid_index = (int)v->entry.gid_index;
	dev->gid_type = v->entry.gid_type;
	dev->has_gid = true;
	gid_text(&dev->gid, text, sizeof(text));
	snprintf(dev->choice + used, sizeof(dev->choice) - used, "; GID index %d %s: %s%s",
		 dev->gid_index, text, why, v->reason);
}

/* Reads one entry. Returns 0, or a negative errno: -ENODATA past the end or an empty place. */
static int read_entry(struct rdma_device *dev, unsigned index, struct ibv_gid_entry *entry)
{
	int rc = dev->ops->query_gid_ex(dev->context, dev->port, index, entry, 0);

	return rc < 0 ? (errno ? -errno : -ENODATA) : -rc;
}

static int take_named(struct rdma_device *dev, unsigned netdev, struct error *err)
{
	struct gid_verdict verdict = { .rank = GID_UNUSABLE };
	struct ibv_gid_entry entry;
	int index = dev->options.gid_index;
	int rc = -ENODATA;

	if (index < dev->port_attr.gid_tbl_len && index <= 255) /* an address vector has 8 bits */
		rc = read_entry(dev, (unsigned)index, &entry);
	if (rc == 0)
		gid_judge(&entry, netdev, &verdict);
	if (rc || gid_is_zero(&entry.gid))
		return error_set(err, -ERANGE,
				 "GID index %d of port %u of %s is %s; its table has indices 0 to "
				 "%d (ibv_devinfo -v shows them)",
				 index, dev->port, dev->name,
				 index < dev->port_attr.gid_tbl_len ? "empty" : "out of range",
				 dev->port_attr.gid_tbl_len - 1);
	take(dev, &verdict, "as asked for, ");
	return 0;
}

int gid_choose(struct rdma_device *dev, const char *address, struct error *err)
{
	struct gid_verdict best = { .rank = GID_UNUSABLE }, verdict;
	unsigned netdev = gid_netdev_of(address);
	struct ibv_gid_entry entry;

	if (dev->options.gid_index != RDMA_GID_AUTO)
		return take_named(dev, netdev, err);
	if (dev->port_attr.link_layer != IBV_LINK_LAYER_ETHERNET) {
		size_t used = strlen(dev->choice);

		dev->gid_index = 0;
		snprintf(dev->choice + used, sizeof(dev->choice) - used,
			 "; InfiniBand, routed by LID %u", dev->port_attr.lid);
		return 0;
	}
	for (int i = 0; i < dev->port_attr.gid_tbl_len && i < GIDS_SHOWN_MAX; i++) {
		if (read_entry(dev, (unsigned)i, &entry))
			continue;
		gid_judge(&entry, netdev, &verdict);
		if (verdict.rank > best.rank)
			best = verdict;
	}
	if (best.rank == GID_UNUSABLE)
		return error_set(
			err, -ENODATA,
			"port %u of %s has no usable GID among %d (give its network device "
			"an IP address and bring it up)",
			dev->port, dev->name, dev->port_attr.gid_tbl_len);
	take(dev, &best, "");
	return 0;
}

static bool is_ours(struct rdma_device *dev, unsigned index)
{
	struct ibv_gid_entry entry;

	return read_entry(dev, index, &entry) == 0 && entry.gid_type == dev->gid_type &&
	       memcmp(&entry.gid, &dev->gid, sizeof(entry.gid)) == 0;
}

int rdma_device_refresh(struct rdma_device *dev, struct error *err)
{
	char text[INET6_ADDRSTRLEN];

	if (!dev->has_gid || is_ours(dev, (unsigned)dev->gid_index))
		return 0;
	gid_text(&dev->gid, text, sizeof(text));
	for (int i = 0; i < dev->port_attr.gid_tbl_len && i < GIDS_SHOWN_MAX; i++) {
		if (!is_ours(dev, (unsigned)i))
			continue;
		dev->gid_index = i;
		return 1;
	}
	return error_set(err, -EADDRNOTAVAIL,
			 "GID %s is not in the table of port %u of %s any more (was the address "
			 "taken from its network device?)",
			 text, dev->port, dev->name);
}
