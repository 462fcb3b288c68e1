/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the files of the fake device layer share: fake_device.h says what it is. */
#include <pthread.h>

#include "tests/lib/fake_device.h"

#define FAKE_DEVICES 8u
#define FAKE_PORTS   2u
#define FAKE_GIDS    16u
#define FAKE_NETDEVS 16u
#define FAKE_VECTORS 64u
#define FAKE_PKEYS   16u

enum fake_call {
	FAKE_OPEN_DEVICE,
	FAKE_QUERY_DEVICE,
	FAKE_QUERY_PORT,
	FAKE_QUERY_GIDS,
	FAKE_ALLOC_PD,
	FAKE_REG_MR,
	FAKE_DEREG_MR,
	FAKE_CREATE_CHANNEL,
	FAKE_CREATE_CQ,
	FAKE_DESTROY_CQ,
	FAKE_CREATE_SRQ,
	FAKE_DESTROY_SRQ,
	FAKE_CREATE_QP,
	FAKE_TO_RESET, /* in the order of enum ibv_qp_state, with FAKE_TO_ERR */
	FAKE_TO_INIT,
	FAKE_TO_RTR,
	FAKE_TO_RTS,
	FAKE_TO_ERR,
	FAKE_DESTROY_QP,
	FAKE_CALLS,
};

extern const char *const fake_call_names[FAKE_CALLS];

struct fake_port {
	struct ibv_port_attr attr;
	struct ibv_gid_entry gid[FAKE_GIDS];
	bool own_gids; /* otherwise soft0's */
	unsigned pkeys;
	uint16_t pkey[FAKE_PKEYS]; /* 0: empty */
};

struct fake_device {
	struct ibv_device base;
	unsigned ports, vectors;
	int numa_node;
	struct fake_port port[FAKE_PORTS];
};

struct fake_rule {
	unsigned calls, failed;
	unsigned delay_us;
	int error; /* 0: succeeds */
	unsigned first, every; /* in calls since fake_reset() */
	struct ibv_qp_attr attr; /* of the last one, where it modifies */
	int mask;
};

struct fake_netdev {
	char name[16];
	unsigned index;
	char address[46];
	union ibv_gid ib_gid; /* of its port, where it carries IP over InfiniBand; else zeros */
};

/* Protected by lock. */
extern struct fake_state {
	pthread_mutex_t lock;
	unsigned devices, netdevs;
	struct fake_device device[FAKE_DEVICES];
	struct fake_netdev netdev[FAKE_NETDEVS];
	struct fake_rule rule[FAKE_CALLS];
	unsigned vector_queues[FAKE_VECTORS];
} fake;

/* fake_call_named - by its name, or the program ends. */
struct fake_rule *fake_call_named(const char *name);

/*
 * fake_begin - count the call and let it take its time. Returns 0, or the positive errno that it
 * fails with. Sets errno. Must not hold the lock.
 */
int fake_begin(enum fake_call call);

/* fake_raise - an asynchronous event to all that opened the device. Must hold the lock. */
void fake_raise(const struct fake_device *device, enum ibv_event_type type, int port);

static inline bool fake_gid_empty(const union ibv_gid *gid)
{
	return gid->global.subnet_prefix == 0 && gid->global.interface_id == 0;
}

/*
 * fake_path - whether an address vector of @device leads to somebody: 0, or the positive errno.
 * @from: the entry that it names. @soft: soft0's own GID. Must hold the lock.
 */
int fake_path(const struct fake_device *device, const struct ibv_ah_attr *ah,
	      const struct ibv_gid_entry *from, const union ibv_gid *soft);

/* fake_follow - read FAKE_DEVICES_FILE, once, and go on to. Must not hold the lock. */
void fake_follow(void);
