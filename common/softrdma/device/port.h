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
};

/* soft_port_ib - is the link InfiniBand, not Ethernet? The same for the life of the process. */
bool soft_port_ib(void);

/* soft_gids - how many entries the GID table has, at most SOFT_GIDS. */
unsigned soft_gids(void);

/* soft_gid - entry @index below soft_gids() of the GID table. */
const union ibv_gid *soft_gid(unsigned index);

/* soft_gid_known - is @gid in the table? */
bool soft_gid_known(const union ibv_gid *gid);

/*
 * soft_path_valid - does @ah lead to this machine, which is all that soft0 reaches? On Ethernet it
 * must have a GRH to a GID of the table; on InfiniBand the LID decides, and a GRH, if there is one,
 * must be good too.
 */
bool soft_path_valid(const struct ibv_ah_attr *ah);

/* soft_port_fill - query_port for a struct of @size bytes, which may be of an older verbs.h. */
int soft_port_fill(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		   size_t size);
