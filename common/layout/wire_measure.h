/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What a tool that measures tells the server, and what it is told: RPC_MEASURE (wire_rpc.h).
 *
 * The request's value, 128 B, inline:
 *     0  tool         16 B  its name, NUL-terminated
 *    16  phase         4 B  enum measure_phase
 *    20  op            4 B  enum measure_op
 *    24  queue_pairs   4 B  that it uses, 1 to SESSION_HANDLES_MAX
 *    28  depth         4 B  operations in flight on each, at least 1
 *    32  mtu           4 B  bytes: of this queue pair, as the client has settled it
 *    36  read_depth    4 B  READs in flight that the client may start on it
 *    40  credits       4 B  requests in flight on it
 *    44  threads       4 B
 *    48  keys          8 B  records
 *    56  value_bytes   8 B  of each, at most VALUE_MAX
 *    64  iterations    8 B  0: as many as fit into
 *    72  duration_ms   8 B  0: as long as the iterations take
 *    80  rate          8 B  operations a second that it holds to; 0: as many as can be
 *    88  reserved     40 B  zero
 *
 * The reply's value, 512 B, written into the client's staging memory:
 *     0  verdict       4 B  0, or a negative errno: the server refuses, and says why
 *     4  mtu           4 B  of its end of this queue pair; bytes
 *     8  read_depth    4 B  READs in flight that it answers on it
 *    12  credits       4 B  requests in flight that it has receives for
 *    16  workers       4 B
 *    20  software      4 B  1: the device is soft0
 *    24  gid_index     4 B  of its end; UINT32_MAX: none
 *    28  ib_port       4 B
 *    32  link_layer    4 B  IBV_LINK_LAYER_*
 *    36  connect       4 B  0: the TCP exchange connected the queue pair, 1: the RDMA CM
 *    40  cpu_ns        8 B  CPU time of its process so far, user and system
 *    48  memory_max    8 B  bytes for records and index
 *    56  memory_free   8 B  of them
 *    64  records       8 B
 *    72  device       64 B  NUL-terminated
 *   136  version      32 B  NUL-terminated
 *   168  why         344 B  NUL-terminated; "" where it does not refuse
 */
#include <stdint.h>

#include "common/layout/fields.h"

enum measure_phase {
	MEASURE_BEGIN = 1, /* is about to measure on this queue pair: both ends are compared */
	MEASURE_LOOK = 2, /* only wants to know */
};

enum measure_op { MEASURE_GET = 1, MEASURE_PUT = 2, MEASURE_MIXED = 3 };

struct rpc_measure {
	char tool[16];
	uint32_t phase;
	uint32_t op;
	uint32_t queue_pairs;
	uint32_t depth;
	uint32_t mtu;
	uint32_t read_depth;
	uint32_t credits;
	uint32_t threads;
	uint64_t keys;
	uint64_t value_bytes;
	uint64_t iterations;
	uint64_t duration_ms;
	uint64_t rate;
	uint64_t reserved[5];
};

LAYOUT(struct rpc_measure, 128, tool, 0, phase, 16, op, 20, queue_pairs, 24, depth, 28, mtu, 32,
       read_depth, 36, credits, 40, threads, 44, keys, 48, value_bytes, 56, iterations, 64,
       duration_ms, 72, rate, 80, reserved, 88);

struct rpc_measured {
	int32_t verdict;
	uint32_t mtu;
	uint32_t read_depth;
	uint32_t credits;
	uint32_t workers;
	uint32_t software;
	uint32_t gid_index;
	uint32_t ib_port;
	uint32_t link_layer;
	uint32_t connect;
	uint64_t cpu_ns;
	uint64_t memory_max;
	uint64_t memory_free;
	uint64_t records;
	char device[64];
	char version[32];
	char why[344];
};

LAYOUT(struct rpc_measured, 512, verdict, 0, mtu, 4, read_depth, 8, credits, 12, workers, 16,
       software, 20, gid_index, 24, ib_port, 28, link_layer, 32, connect, 36, cpu_ns, 40,
       memory_max, 48, memory_free, 56, records, 64, device, 72, version, 136, why, 168);

/*
 * measure_decode - the value of a request, @len bytes, untrusted, any alignment; its text is plain
 * then (wire_text()). Returns 0, or -EINVAL with @why: a static sentence.
 */
int measure_decode(const void *value, uint32_t len, struct rpc_measure *out, const char **why);

/* measured_decode - the same of a reply's value. Returns 0 or -EPROTO. */
int measured_decode(const void *value, uint32_t len, struct rpc_measured *out);

/*
 * measure_compare - whether both ends of a queue pair fit: each calls it. Returns 0; -EPROTO: their
 * MTU, READ depth or credits differ, and @there->why names both values.
 */
int measure_compare(const struct rpc_measure *here, struct rpc_measured *there);
