/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* doctor: which rail would be taken, by taking it. */
#include <stdio.h>
#include <string.h>

#include "common/rdma/choose.h"
#include "common/rdma/gid.h"
#include "tools/kv-cli/doctor.h"

/* Only what may be wrong is said. */
static void vet_address(const struct rdma_device *dev, const char *address, json_t *findings)
{
	const struct gid_address near = gid_address(address);
	char about[80], netdev[IF_NAMESIZE] = "";
	struct gid_choice choice;
	struct error err;

	snprintf(about, sizeof(about), "address %.64s", address);
	if (!near.known)
		finding_add(findings, FINDING_NOTE, about,
			    "listen on an address of the rail that is meant, or give --device",
			    "it names no network device: the first device with an ACTIVE port is "
			    "taken, whatever the client's rail");
	else if (!near.netdev)
		finding_add(findings, FINDING_NOTE, about, "ip address shows what there is",
			    "no network device of this machine holds it");
	else if (!dev->software && gid_choose(dev, address, &choice, &err) == 0 && !choice.rail)
		finding_add(findings, FINDING_NOTE, about,
			    "take an address of the rail that is meant (rdma link shows network "
			    "devices), or --device on both sides",
			    "its network device %s belongs to no ACTIVE port that could be taken: "
			    "both sides may take different rails",
			    if_indextoname(near.netdev, netdev) ? netdev : "is gone, and");
}

bool doctor_rail(const char *name, const char *address, const struct rdma_options *options,
		 char device[64], char *choice, json_t *findings)
{
	struct rdma_options o = *options;
	struct rdma_device *dev;
	struct error err;

	o.device = name;
	if (rdma_device_open(&dev, &o, address, &err)) {
		snprintf(choice, ERROR_TEXT_MAX, "%s", err.text);
		return false;
	}
	memcpy(device, dev->name, sizeof(dev->name));
	snprintf(choice, ERROR_TEXT_MAX, "%s", dev->choice);
	if (address)
		vet_address(dev, address, findings);
	rdma_device_close(dev);
	return true;
}
