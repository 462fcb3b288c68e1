/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Completion channels: an eventfd that counts the events of the CQs on it. */
#include <infiniband/verbs.h>
#include <stdint.h>

#include "common/softrdma/shared/lock.h"

struct soft_cq;

struct soft_channel {
	struct ibv_comp_channel base;
	uint32_t epoch;
	uint64_t id; /* never used again */
	struct soft_channel *next; /* list lock of channel.c */
	struct lock lock; /* protects the rest, and comp_delivered of the CQs on it */
	struct soft_cq *cqs;
};

/* soft_channel_dup - a copy of the eventfd of channel @id, or -1. */
int soft_channel_dup(uint64_t id);

/* soft_channel_add, soft_channel_remove - a CQ joins or leaves. */
void soft_channel_add(struct soft_channel *channel, struct soft_cq *cq);
void soft_channel_remove(struct soft_channel *channel, struct soft_cq *cq);

void soft_channels_fork_child(void);
