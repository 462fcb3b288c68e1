/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What there is: every RDMA device with its ports and GIDs, also those that could not be used.
 * For people who look for a fault (kv-cli doctor). To connect, use rdma_device_open().
 */
#include <net/if.h>

#include "common/rdma/device.h"
#include "common/rdma/gid.h"
#include "common/rdma/traffic.h"

#define SURVEY_DEVICES_MAX 64
#define SURVEY_PKEYS_MAX   128 /* of a port */

struct survey_gid {
	struct ibv_gid_entry entry;
	char text[48];
	char netdev[IF_NAMESIZE]; /* "": none, or it has gone */
	bool taken; /* by gid_choose() */
	char why[192]; /* taken or not, in words: gid_explain() */
};

struct survey_port {
	unsigned number;
	struct error error; /* code 0: attr holds */
	struct ibv_port_attr attr;
	struct error gid_error; /* code 0: one was chosen, and gids hold */
	struct gid_choice choice;
	unsigned gid_count;
	struct survey_gid *gids; /* not empty ones */
	unsigned pkey_count;
	struct rdma_pkey pkeys[SURVEY_PKEYS_MAX]; /* not empty ones */
};

struct survey_device {
	const struct rdma_provider *ops;
	char name[64];
	bool software; /* soft0 */
	enum ibv_node_type node_type;
	struct error error; /* code 0: attr and ports hold */
	struct ibv_device_attr attr;
	unsigned port_count;
	struct survey_port *ports;
};

struct survey {
	struct error verbs_error; /* code 0: libibverbs could list its devices */
	unsigned count;
	bool cut; /* there are more than SURVEY_DEVICES_MAX */
	struct survey_device devices[SURVEY_DEVICES_MAX];
};

/*
 * survey_take - look at all devices, or at @only one (NULL: all). @options: gid_index as for a
 * connection. @address: of the exchange, as rdma_device_open(); NULL: not known. A device that
 * cannot be opened is in it, with why. Not on the data path.
 * Returns 0; -ENOMEM; -ENODEV: there is none of the name @only, @err lists what there is. Free
 * with survey_free().
 */
int survey_take(struct survey **out, const char *only, const struct rdma_options *options,
		const char *address, struct error *err);
void survey_free(struct survey *s);

/* survey_speed_mbps - of a port: lanes times the speed of each; 0: not known. */
unsigned survey_speed_mbps(const struct ibv_port_attr *attr);
