/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What packets carry beside addresses: the P_Key of their partition, the service level, the traffic
 * class. Each side chooses its own, by options; both of a pair must be of one partition.
 *
 * A P_Key is named by its index in the port's table, as in verbs, and not by its value: it is what
 * perftest and others take, one name for the table of GIDs and this one, and without a look-up that
 * would have to guess between a full and a limited member of one partition. kv-cli doctor shows
 * which value stands where.
 */
#include <stddef.h>

#include "common/rdma/device.h"

#define RDMA_PKEY_FULL 0x8000u /* of its value: a full member; two limited ones never meet */

struct rdma_pkey {
	unsigned index;
	uint16_t value; /* in the host's order */
};

/* rdma_pkey_empty - whether it is none: packets with it are dropped. */
static inline bool rdma_pkey_empty(uint16_t value)
{
	return (value & ~RDMA_PKEY_FULL) == 0;
}

/*
 * rdma_pkey_table - the entries of dev->port that are not empty, in the order of their indices, at
 * most @max. Returns their number.
 */
unsigned rdma_pkey_table(const struct rdma_device *dev, struct rdma_pkey *out, unsigned max);

/*
 * rdma_traffic_check - whether dev->port can send with what dev->options say.
 * Returns 0; -ERANGE: no such index of the P_Key table, or service level on Ethernet; -ENETDOWN:
 * the entry is empty; -EINVAL: a traffic class, and packets without a GRH.
 */
int rdma_traffic_check(const struct rdma_device *dev, struct error *err);

/* rdma_traffic_words - ", P_Key 0x8001 (index 2), service level 3": what is not usual; else "". */
void rdma_traffic_words(const struct rdma_device *dev, char *text, size_t cap);
