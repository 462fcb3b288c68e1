/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/rdma/traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#define PRIORITY_MAX 7u /* of Ethernet: three bits */

/* Returns 0, with the value of an entry that may be empty, or a negative errno. */
static int look_up(const struct rdma_device *dev, unsigned index, uint16_t *value)
{
	__be16 pkey = 0;

	if (index >= dev->port_attr.pkey_tbl_len ||
	    dev->ops->query_pkey(dev->context, dev->port, (int)index, &pkey))
		return -ERANGE;
	*value = ntohs(pkey);
	return 0;
}

unsigned rdma_pkey_table(const struct rdma_device *dev, struct rdma_pkey *out, unsigned max)
{
	unsigned count = 0;
	uint16_t value;

	for (unsigned i = 0; i < dev->port_attr.pkey_tbl_len && count < max; i++) {
		if (look_up(dev, i, &value) == 0 && !rdma_pkey_empty(value))
			out[count++] = (struct rdma_pkey){ .index = i, .value = value };
	}
	return count;
}

static int check_pkey(const struct rdma_device *dev, struct error *err)
{
	const unsigned index = dev->options.pkey_index;
	uint16_t value = 0;
	int rc = look_up(dev, index, &value);

	if (rc && index == 0)
		return 0; /* a device without such a table */
	if (rc)
		return error_set(err, rc,
				 "P_Key index %u: port %u of %s has a table of %u (kv-cli doctor "
				 "shows it; give an index of it with --pkey-index, or none for the "
				 "usual one)",
				 index, dev->port, dev->name, dev->port_attr.pkey_tbl_len);
	if (rdma_pkey_empty(value))
		return error_set(err, -ENETDOWN,
				 "P_Key index %u of port %u of %s is empty (kv-cli doctor shows "
				 "the table; give another index with --pkey-index, or let the "
				 "subnet manager make the port a member of the partition)",
				 index, dev->port, dev->name);
	return 0;
}

int rdma_traffic_check(const struct rdma_device *dev, struct error *err)
{
	const bool ethernet = dev->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	const struct rdma_options *o = &dev->options;

	if (ethernet && o->service_level > PRIORITY_MAX)
		return error_set(err, -ERANGE,
				 "service level %u: on Ethernet, as port %u of %s, it is the "
				 "priority, 0 to %u (give one of them)",
				 o->service_level, dev->port, dev->name, PRIORITY_MAX);
	if (!ethernet && o->traffic_class && o->gid_index == RDMA_GID_AUTO)
		return error_set(err, -EINVAL,
				 "traffic class %u: packets of InfiniBand, as of port %u of %s, "
				 "carry one only where a GID is named (give a --gid-index too; or "
				 "a service level, which is what its switches go by)",
				 o->traffic_class, dev->port, dev->name);
	return check_pkey(dev, err);
}

void rdma_traffic_words(const struct rdma_device *dev, char *text, size_t cap)
{
	const struct rdma_options *o = &dev->options;
	uint16_t value = 0;
	size_t used = 0;

	text[0] = '\0';
	if (o->pkey_index && look_up(dev, o->pkey_index, &value) == 0)
		used += (size_t)snprintf(text, cap, ", P_Key 0x%04x (index %u)", value,
					 o->pkey_index);
	if (o->service_level && used < cap)
		used += (size_t)snprintf(text + used, cap - used, ", service level %u",
					 o->service_level);
	if (o->traffic_class && used < cap)
		used += (size_t)snprintf(text + used, cap - used, ", traffic class %u",
					 o->traffic_class);
	if (used && used < cap && dev->software)
		snprintf(text + used, cap - used, " (without effect: it has no packets)");
}
