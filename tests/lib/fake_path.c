/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Where the packets of fake devices would go. */
#include "tests/lib/fake_internal.h"

#include <errno.h>
#include <string.h>

/* Whether a device has the GID on that network device; 0 is lo. Must hold the lock. */
static bool on_netdev(const union ibv_gid *gid, unsigned netdev, const union ibv_gid *soft)
{
	for (unsigned i = 0; i < fake.devices * FAKE_PORTS * FAKE_GIDS; i++) {
		const struct fake_device *d = &fake.device[i / (FAKE_PORTS * FAKE_GIDS)];
		const struct fake_port *p = &d->port[i / FAKE_GIDS % FAKE_PORTS];
		const struct ibv_gid_entry *e = &p->gid[i % FAKE_GIDS];

		if (p->own_gids && e->ndev_ifindex == netdev &&
		    memcmp(e->gid.raw, gid->raw, sizeof(gid->raw)) == 0)
			return true;
	}
	return netdev == 0 && memcmp(gid->raw, soft->raw, sizeof(gid->raw)) == 0;
}

static bool has_lid(uint16_t lid)
{
	for (unsigned i = 0; i < fake.devices * FAKE_PORTS; i++) {
		const struct fake_device *d = &fake.device[i / FAKE_PORTS];
		const struct ibv_port_attr *a = &d->port[i % FAKE_PORTS].attr;

		if (a->link_layer == IBV_LINK_LAYER_INFINIBAND && a->lid == lid &&
		    a->state == IBV_PORT_ACTIVE && i % FAKE_PORTS < d->ports)
			return true;
	}
	return false;
}

int fake_path(const struct fake_device *d, const struct ibv_ah_attr *ah,
	      const struct ibv_gid_entry *from, const union ibv_gid *soft)
{
	const struct fake_port *p = &d->port[ah->port_num - 1];

	if (p->attr.link_layer == IBV_LINK_LAYER_INFINIBAND)
		return has_lid(ah->dlid) ? 0 : ETIMEDOUT;
	if (!ah->is_global || fake_gid_empty(&from->gid))
		return EINVAL;
	return on_netdev(&ah->grh.dgid, p->own_gids ? from->ndev_ifindex : 0, soft) ? 0 : ETIMEDOUT;
}
