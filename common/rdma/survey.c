/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/rdma/survey.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned survey_speed_mbps(const struct ibv_port_attr *attr)
{
	static const unsigned lane[8] = { 2500, 5000, 10000, 10000, 14063, 25781, 53125, 106250 };
	static const unsigned lanes[5] = { 1, 4, 8, 12, 2 };
	unsigned speed = 0, width = 0;

	for (unsigned i = 0; i < 8; i++)
		speed = attr->active_speed == 1u << i ? lane[i] : speed;
	for (unsigned i = 0; i < 5; i++)
		width = attr->active_width == 1u << i ? lanes[i] : width;
	return speed * width;
}

/* The entries of the table, each with what gid_choose() thinks of it. */
static int look_at_gids(const struct rdma_device *dev, const char *address,
			struct survey_port *port)
{
	const struct gid_address near = gid_address(address);
	const struct gid_choice *taken = port->gid_error.code ? NULL : &port->choice;
	struct ibv_gid_entry *entries;
	int count = gid_table(dev, &entries, &port->gid_error);

	if (count < 0)
		return 0; /* the sentence is in its place */
	port->gids = calloc((size_t)count + 1, sizeof(*port->gids));
	if (!port->gids) {
		free(entries);
		return -ENOMEM;
	}
	port->gid_count = (unsigned)count;
	for (unsigned i = 0; i < port->gid_count; i++) {
		struct survey_gid *g = &port->gids[i];

		g->entry = entries[i];
		gid_text(&g->entry.gid, g->text, sizeof(g->text));
		if (!if_indextoname(g->entry.ndev_ifindex, g->netdev))
			g->netdev[0] = '\0';
		g->taken = gid_explain(dev, &g->entry, &near, taken, g->why, sizeof(g->why));
	}
	free(entries);
	return 0;
}

static int look_at_port(struct rdma_device *dev, const char *address, struct survey_port *port)
{
	if (rdma_port_query(dev, port->number, &port->error))
		return 0; /* the sentence is in its place */
	port->attr = dev->port_attr;
	port->pkey_count = rdma_pkey_table(dev, port->pkeys, SURVEY_PKEYS_MAX);
	gid_choose(dev, address, &port->choice, &port->gid_error);
	return look_at_gids(dev, address, port);
}

static int look_at_ports(struct rdma_device *dev, const char *address, struct survey_device *out)
{
	int rc = 0;

	out->ports = calloc((size_t)dev->attr.phys_port_cnt + 1, sizeof(*out->ports));
	if (!out->ports)
		return -ENOMEM;
	out->port_count = dev->attr.phys_port_cnt;
	for (unsigned i = 0; i < out->port_count && rc == 0; i++) {
		out->ports[i].number = i + 1;
		rc = look_at_port(dev, address, &out->ports[i]);
	}
	return rc;
}

static int look_at_device(struct survey_device *out, struct ibv_device *ibdev,
			  const struct rdma_options *options, const char *address)
{
	struct rdma_device dev = { .ops = out->ops, .options = *options };
	int rc;

	out->node_type = ibdev->node_type;
	if (rdma_context_open(&dev, ibdev, &out->error))
		return 0; /* the sentence is in its place */
	out->attr = dev.attr;
	rc = look_at_ports(&dev, address, out);
	dev.ops->close_device(dev.context);
	return rc;
}

/* The devices of one provider. @seen: the names of all, wanted or not. */
static int look_at_provider(struct survey *s, const struct rdma_provider *ops, const char *only,
			    const struct rdma_options *options, const char *address, char *seen,
			    size_t seen_cap)
{
	struct ibv_device **list;
	int rc = 0;

	errno = 0;
	list = ops->get_device_list(NULL);
	if (!list) {
		rc = errno ? -errno : -EIO;
		if (rc == -ENOMEM)
			return rc;
		error_set(&s->verbs_error, rc, "ibv_get_device_list failed: %s", error_name(rc));
		return 0;
	}
	for (unsigned i = 0; list[i] && rc == 0; i++) {
		const char *name = ops->get_device_name(list[i]);
		struct survey_device *d = &s->devices[s->count];
		size_t used = strlen(seen);

		snprintf(seen + used, seen_cap - used, "%s%s", used ? ", " : "", name);
		if (only && strcmp(only, name) != 0)
			continue;
		s->cut = s->count == SURVEY_DEVICES_MAX;
		if (s->cut)
			break;
		s->count++;
		d->ops = ops;
		d->software = ops == &rdma_provider_soft;
		snprintf(d->name, sizeof(d->name), "%s", name);
		rc = look_at_device(d, list[i], options, address);
	}
	ops->free_device_list(list);
	return rc;
}

int survey_take(struct survey **out, const char *only, const struct rdma_options *options,
		const char *address, struct error *err)
{
	struct survey *s = calloc(1, sizeof(*s));
	char seen[512] = "";
	int rc = s ? 0 : -ENOMEM;

	for (unsigned i = 0; i < RDMA_PROVIDERS && rc == 0; i++)
		rc = look_at_provider(s, rdma_providers[i], only, options, address, seen,
				      sizeof(seen));
	if (rc == 0 && only && s->count == 0)
		rc = rdma_device_missing(only, seen, err);
	else if (rc)
		error_set(err, rc, "out of memory for a look at the devices");
	if (rc) {
		survey_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

void survey_free(struct survey *s)
{
	for (unsigned i = 0; s && i < s->count; i++) {
		for (unsigned j = 0; j < s->devices[i].port_count; j++)
			free(s->devices[i].ports[j].gids);
		free(s->devices[i].ports);
	}
	free(s);
}
