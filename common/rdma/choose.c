/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/rdma/choose.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "common/rdma/gid.h"
#include "common/rdma/traffic.h"

const struct rdma_provider *const rdma_providers[RDMA_PROVIDERS] = { &rdma_provider_verbs,
								     &rdma_provider_soft };

struct search {
	const char *name; /* NULL: auto */
	const char *address; /* NULL or "": none was given */
	bool near; /* it is that of one network device, or may be */
	char seen[256]; /* all names */
	bool tried; /* a device that was meant */
	unsigned active; /* ports */
	struct rdma_device best; /* its context is open; NULL: none was found yet */
	struct gid_choice choice; /* of best */
	struct error no_gid; /* of the first ACTIVE port that cannot be used */
	struct error failed; /* of the last device that could not be used, but for soft0 */
};

int rdma_device_missing(const char *name, const char *seen, struct error *err)
{
	return error_set(err, -ENODEV,
			 "there is no RDMA device '%s' (here are: %s; soft0 is the software device "
			 "and always there)",
			 name, seen);
}

static bool better(const struct search *f, const struct gid_choice *choice)
{
	if (!f->best.context)
		return true;
	if (!f->near)
		return false;
	if (choice->rail != f->choice.rail)
		return choice->rail;
	return choice->rank > f->choice.rank;
}

/* Returns 0: it can be used. */
static int look_at_port(struct search *f, struct rdma_device *dev, unsigned port, struct error *err)
{
	struct gid_choice choice = { 0 };
	int rc = rdma_port_query(dev, port, err);

	if (rc)
		return rc;
	if (dev->port_attr.state != IBV_PORT_ACTIVE)
		return rdma_port_down(dev, err);
	f->active++;
	if (!dev->options.cm_gids)
		rc = gid_choose(dev, f->address, &choice, err);
	if (rc) {
		if (!f->no_gid.code)
			f->no_gid = *err;
		return rc;
	}
	if (better(f, &choice)) {
		f->best = *dev;
		f->choice = choice;
	}
	return 0;
}

/* The port asked for, or all. Returns 0: one of them can be used; else why the last can not. */
static int look_at_ports(struct search *f, struct rdma_device *dev, struct error *err)
{
	unsigned first = dev->options.ib_port ? dev->options.ib_port : 1;
	unsigned last = dev->options.ib_port ? dev->options.ib_port : dev->attr.phys_port_cnt;
	int rc = rdma_port_check(dev->name, dev->attr.phys_port_cnt, first, err);
	bool usable = false;

	if (rc)
		return rc;
	for (unsigned port = first; port <= last; port++) {
		rc = look_at_port(f, dev, port, err);
		usable |= rc == 0;
	}
	return usable ? 0 : rc;
}

static int look_at_device(struct search *f, const struct rdma_device *like,
			  struct ibv_device *ibdev, struct error *err)
{
	struct ibv_context *before = f->best.context;
	const struct rdma_provider *ops = like->ops;
	struct rdma_device dev = *like;
	int rc = rdma_context_open(&dev, ibdev, err);

	if (rc)
		return rc;
	rc = look_at_ports(f, &dev, err);
	if (f->best.context != dev.context)
		ops->close_device(dev.context);
	else if (before)
		ops->close_device(before);
	return rc;
}

/* Where nothing is found, and a device was tried, @err says why not. */
static void look_at_provider(struct search *f, struct rdma_device *like, struct error *err)
{
	struct ibv_device **list = like->ops->get_device_list(NULL);

	if (!list)
		return; /* no RDMA subsystem in this kernel */
	for (unsigned i = 0; list[i]; i++) {
		const char *candidate = like->ops->get_device_name(list[i]);
		size_t used = strlen(f->seen);
		int rc;

		snprintf(f->seen + used, sizeof(f->seen) - used, "%s%s", used ? ", " : "",
			 candidate);
		if (f->name && strcmp(f->name, candidate) != 0)
			continue;
		f->tried = true;
		rc = look_at_device(f, like, list[i], err);
		if (f->name)
			break;
		if (rc && like->ops != &rdma_provider_soft)
			f->failed = *err;
	}
	like->ops->free_device_list(list);
}

/* Which of several ports it is. */
static void rail_words(const struct search *f, char *text, size_t cap)
{
	const bool given = f->address && f->address[0];
	char netdev[IF_NAMESIZE];

	if (f->choice.rail && if_indextoname(gid_address(f->address).netdev, netdev))
		snprintf(text, cap, "its network device %s holds %s", netdev, f->address);
	else if (f->choice.rail)
		snprintf(text, cap, "it has the GID of %s", f->address);
	else if (f->active == 1)
		snprintf(text, cap, "no other has an ACTIVE port");
	else if (f->near)
		snprintf(text, cap,
			 "the best GID, while none of %u ACTIVE ports is of the network device "
			 "that holds %s (take an address of the rail that is meant, or --device)",
			 f->active, f->address);
	else if (given)
		snprintf(text, cap,
			 "the first of %u ACTIVE ports, as %s names no network device (--listen on "
			 "an address of the rail that is meant, or take --device)",
			 f->active, f->address);
	else
		snprintf(text, cap, "the first of %u ACTIVE ports", f->active);
}

/* Which device, and why, and then which GID. */
static void say(const struct search *f, struct rdma_device *dev)
{
	const char *gid =
		dev->options.cm_gids ? "the CM chooses a GID for each queue pair" : f->choice.why;
	char why[ERROR_TEXT_MAX], traffic[96];

	if (f->name)
		snprintf(why, sizeof(why), "%s",
			 dev->options.why ? dev->options.why : "as asked for");
	else if (dev->software)
		snprintf(why, sizeof(why), "%.200s, so the software device",
			 dev->instead ? f->failed.text : "no RDMA device with an ACTIVE port");
	else
		rail_words(f, why, sizeof(why));
	rdma_traffic_words(dev, traffic, sizeof(traffic));
	snprintf(dev->choice, sizeof(dev->choice), "device %s port %u: %.256s%s; %.150s", dev->name,
		 dev->port, why, traffic, gid);
}

/* Both ends are on this machine then, and choose alike. */
static bool is_loopback(const union ibv_gid *gid)
{
	return gid_is_ipv4(gid) ? gid->raw[12] == 127
				: IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)gid->raw);
}

int rdma_device_choose(struct rdma_device *dev, const char *address, struct error *err)
{
	const struct gid_address near = gid_address(address);
	struct search f = { .name = dev->options.device, .address = address, .near = near.known };

	if (f.name && (!f.name[0] || strcmp(f.name, "auto") == 0))
		f.name = NULL;
	for (unsigned i = 0; i < RDMA_PROVIDERS && !f.active && !(f.name && f.tried); i++) {
		dev->ops = rdma_providers[i];
		look_at_provider(&f, dev, err);
	}
	if (!f.tried)
		return rdma_device_missing(f.name ? f.name : "auto", f.seen, err);
	if (!f.best.context) {
		if (f.no_gid.code)
			*err = f.no_gid;
		return err->code;
	}
	*dev = f.best;
	dev->source = f.choice.source;
	dev->instead = !f.name && dev->software && f.failed.code;
	dev->guessed = !f.name && f.active > 1 && address && address[0] && !f.choice.rail &&
		       !is_loopback(&near.gid);
	say(&f, dev);
	return 0;
}
