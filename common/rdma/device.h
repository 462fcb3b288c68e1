/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* An opened RDMA device with one port and one protection domain. */
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "common/base/error.h"
#include "common/rdma/provider.h"

#define RDMA_GID_AUTO	       (-1)
#define RDMA_GID_INDEX_MAX     255 /* ibv_global_route.sgid_index has 8 bits */
#define RDMA_PKEY_INDEX_MAX    65535 /* ibv_qp_attr.pkey_index has 16 */
#define RDMA_SERVICE_LEVEL_MAX 15
#define RDMA_TRAFFIC_CLASS_MAX 255

struct rdma_options {
	const char *device; /* NULL or "auto": see rdma_device_open() */
	unsigned ib_port; /* 0: chosen as a device is, among those that are ACTIVE */
	int gid_index; /* RDMA_GID_AUTO, or 0 to RDMA_GID_INDEX_MAX of the port's GID table */
	unsigned mtu_bytes; /* 0: the port's active MTU; otherwise 256 to 4096, a power of two */
	/* What packets carry (traffic.h). By the CM: its own, where these are 0. */
	unsigned pkey_index; /* of the port's P_Key table; by the CM: 0 only */
	unsigned service_level; /* 0 to 15; on Ethernet the priority, 0 to 7 */
	unsigned traffic_class; /* 0 to 255, of the GRH; on RoCE v2 four times the DSCP */
	unsigned timeout; /* local ACK timeout, 4.096 us * 2^timeout, 1 to 31 */
	unsigned retry_cnt; /* 0 to 7 */
	unsigned rnr_retry; /* 0 to 7, 7 is for ever */
	const char *why; /* why this device is named, in words; static; NULL: "as asked for" */
	const char *spare; /* what else helps where memory cannot be registered; kept; or NULL */
	bool cm_gids; /* the RDMA CM chooses a GID for each queue pair: none is chosen here */
};

/* rdma_options_default - everything automatic; timeout 14, retry count 7, RNR retry 6. */
struct rdma_options rdma_options_default(void);

/*
 * Where a queue pair's packets come from: an entry of the port's GID table, or the port's LID.
 * gid_choose() fills it (gid.h).
 */
struct rdma_source {
	bool has_gid; /* gid and gid_type are known: the peer is told */
	bool grh; /* packets carry a GRH: always on RoCE, on InfiniBand where an index was named */
	int gid_index;
	enum ibv_gid_type gid_type;
	union ibv_gid gid;
};

struct rdma_device {
	const struct rdma_provider *ops;
	struct rdma_options options;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	uint8_t port;
	int numa_node; /* that the device is attached to; -1: not known, or none */
	bool software; /* soft0 */
	bool instead; /* soft0, because real devices could not be used: worth a warning */
	bool guessed; /* one of several, and no address said which: worth a warning */
	struct rdma_source source; /* chosen for the address that it was opened with */
	enum ibv_mtu mtu;
	char name[64];
	char choice[640]; /* which device and GID, and why, in words */
};

/*
 * rdma_device_open - open the device that @options name, and choose its port and GID.
 * @options: device NULL or "auto" takes the rail of @address among the ACTIVE ports of real
 *	devices (choose.h), else soft0; a named device is taken or it is an error, never another
 *	one. Where soft0 is taken although there are real devices, choice says why the last of them
 *	was not.
 * @address: the address that the exchange listens on or connects from, in text, or NULL.
 * Returns 0; -ENODEV: no such device, -ENETDOWN: the port is not ACTIVE, -ERANGE: no such port,
 * GID index or MTU, -ENODATA: no usable GID; what rdma_traffic_check() and the provider returned.
 * @err lists what there is. Free with rdma_device_close() after everything that was made on it.
 */
int rdma_device_open(struct rdma_device **out, const struct rdma_options *options,
		     const char *address, struct error *err);
void rdma_device_close(struct rdma_device *dev);

/*
 * Steps of opening and their sentences, for callers that look at devices without using them
 * (survey.h).
 * rdma_context_open - context, name, software and attr of @ibdev, into a device with ops.
 * rdma_port_query - port and port_attr of an opened one.
 * rdma_port_down - -ENETDOWN: the port, as it was queried, is not ACTIVE.
 * rdma_port_check - whether a device of @count ports has @port. Returns 0 or -ERANGE.
 * rdma_device_missing - -ENODEV; @seen: the names of those that are there.
 */
int rdma_context_open(struct rdma_device *dev, struct ibv_device *ibdev, struct error *err);
int rdma_port_query(struct rdma_device *dev, unsigned port, struct error *err);
int rdma_port_down(const struct rdma_device *dev, struct error *err);
int rdma_port_check(const char *name, unsigned count, unsigned port, struct error *err);
int rdma_device_missing(const char *name, const char *seen, struct error *err);

/*
 * rdma_port_refresh - its port as it is now: LID and MTU may have changed since it was opened.
 * Nobody else may use port_attr and mtu meanwhile. Returns 0; -ENETDOWN: it is not ACTIVE; -ERANGE:
 * the MTU that the options name does not fit any more; what the provider returned.
 */
int rdma_port_refresh(struct rdma_device *dev, struct error *err);

/* rdma_device_event_fd - readable while an asynchronous event waits. */
static inline int rdma_device_event_fd(const struct rdma_device *dev)
{
	return dev->context->async_fd;
}

struct rdma_event {
	const char *text; /* what happened, in words, static */
	bool fatal; /* the device, or a completion queue, can not be used any more */
	bool port; /* of the port: worth a line in the log */
	bool last_receive; /* a failed queue pair has given back its last receive */
	void *context; /* then: struct rdma_qp_config.context of it */
};

/* rdma_device_event - take one asynchronous event, without blocking. 0, or -EAGAIN: none. */
int rdma_device_event(const struct rdma_device *dev, struct rdma_event *out);

/* rdma_read_pieces - local places that one READ may be scattered to, at least 1. */
static inline unsigned rdma_read_pieces(const struct rdma_device *dev)
{
	int pieces =
		dev->attr.max_sge_rd < dev->attr.max_sge ? dev->attr.max_sge_rd : dev->attr.max_sge;

	return pieces > 1 ? (unsigned)pieces : 1;
}

/* rdma_mtu_bytes - 256 to 4096 for an enum ibv_mtu. */
static inline unsigned rdma_mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << (unsigned)mtu;
}
