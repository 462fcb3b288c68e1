/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Address handles: see ah.c. */
#include <infiniband/verbs.h>
#include <stdint.h>

#define GRH_VERSION 6u
#define GRH_NEXT    0x1b /* a base transport header follows */

struct soft_ah {
	struct ibv_ah base;
	uint32_t epoch;
	struct ibv_ah_attr attr; /* a valid path, constant */
};

static inline struct soft_ah *soft_ah(struct ibv_ah *base)
{
	return (struct soft_ah *)base;
}
