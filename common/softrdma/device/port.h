/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The one port of soft0: its link layer, its addresses, and which paths lead anywhere. */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SOFT_PORT = 1,
	SOFT_LID = 1, /* where the link is InfiniBand */
	SOFT_LID_MOVED = 9, /* after IBV_EVENT_LID_CHANGE */
};

/* In the arena: what has become of the port of its process. */
enum {
	PORT_DOWN = 1,
	PORT_LID_MOVED = 2,
	PORT_GIDS_MOVED = 4,
};

/* soft_port_ib - is the link InfiniBand, not Ethernet? The same for the life of the process. */
bool soft_port_ib(void);

/* soft_gids - how many entries the GID table has, at most SOFT_GIDS. */
unsigned soft_gids(void);

/* soft_gid - entry @index below soft_gids() of the GID table. */
const union ibv_gid *soft_gid(unsigned index);

/* soft_gid_known - is @gid in the table of some process of this network? */
bool soft_gid_known(const union ibv_gid *gid);

/*
 * soft_path_valid - does @ah lead to this machine, which is all that soft0 reaches? On Ethernet it
 * must have a GRH to a GID of the table; on InfiniBand the LID decides, and a GRH, if there is one,
 * must be good too.
 */
bool soft_path_valid(const struct ibv_ah_attr *ah);

/* soft_path_leads - does @ah, which is valid, lead to a port that is now as @port says (PORT_*)? */
bool soft_path_leads(const struct ibv_ah_attr *ah, uint32_t port);

/* soft_port_down - is the port of this process down? */
bool soft_port_down(void);

/* soft_port_change - the port of this process is from now on as an event of @type says. */
void soft_port_change(enum ibv_event_type type);

/* soft_port_fill - query_port for a struct of @size bytes, which may be of an older verbs.h. */
int soft_port_fill(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		   size_t size);
