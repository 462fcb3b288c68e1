/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * RDMA devices that a test makes up, in the place of libibverbs: ports, GIDs, LIDs, P_Keys, network
 * devices, completion vectors and NUMA nodes are what the test says, each control call may be slow
 * or fail, and asynchronous events come when the test wants them. Queue pairs, regions and queues
 * are soft0's, so that data flows.
 *
 * A program takes it by `dependencies: [fake_device_dep, ...]`. It defines rdma_provider_verbs
 * (common/rdma/provider.h), so that provider_verbs.c is not linked, and getifaddrs() with its
 * relatives. Where FAKE_DEVICES_FILE names a file, a program reads its lines at the first
 * look at the devices, and goes on to read what a test appends to it: kv-server-fake and
 * kv-cli-fake are used so by tests of whole processes.
 *
 * A line is one of these, and # begins a comment; 0x begins a number. In C, fake_say() takes it:
 *
 *	device NAME [ports=N] [vectors=N] [numa=N]	makes it, or changes it
 *	port NAME N [state=down|init|armed|active] [link=ethernet|infiniband] [lid=N] [mtu=BYTES]
 *		[pkeys=N]
 *	gid NAME PORT INDEX v2|v1|ib|none [ADDRESS [NETDEV]]	an entry of the port's table
 *	pkey NAME PORT INDEX VALUE	an entry of its P_Keys; 0: empty, as all but the first
 *	netdev NAME INDEX ADDRESS [GID]	this machine has it, and no others but lo and those said so;
 *		GID: of its port, where it carries IP over InfiniBand. A line for each address
 *	delay CALL US		each such call takes that many microseconds
 *	fail CALL ERRNO [FIRST [EVERY]]	the FIRST-th from now on (1 where it is missing) and each
 *		EVERY-th after it (1; 0: that one only) fails with ERRNO, by name; "fail CALL 0"
 *		ends that. What was to be destroyed stays, and works
 *	event NAME TYPE [PORT]	lid_change, gid_change, pkey_change, sm_change,
 *		client_reregister, port_active, port_error, device_fatal: to all that opened it.
 *		After device_fatal their calls fail with EIO, but for those that take something
 *		away; queue pairs work on: who is told must not count on their silence
 *
 * CALL is one of open_device, query_device, query_port, query_gids, alloc_pd, reg_mr, dereg_mr,
 * create_channel, create_cq, destroy_cq, create_srq, destroy_srq, create_qp, to_init, to_rtr,
 * to_rts, to_err, to_reset, destroy_qp.
 *
 * A port that no `gid` was said of has soft0's GIDs on lo, and its peer may be on soft0. Otherwise
 * RTR fails with ETIMEDOUT where the peer's address (GID, or LID on InfiniBand) is nobody's, and
 * where the GIDs belong to different network devices: each is a network of its own.
 *
 * All functions may be called by any thread. What a line does not understand ends the program.
 */
#include <stdbool.h>

#include <infiniband/verbs.h>

/* fake_say - one line, as with printf. */
void fake_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* fake_reset - no devices, delays, failures and network devices; counts are 0. Nothing is open. */
void fake_reset(void);

/* fake_calls - how often it was called since fake_reset(), also in vain. */
unsigned fake_calls(const char *call);

/* fake_failed - how many of them were made to fail. */
unsigned fake_failed(const char *call);

/* fake_modified - the last attributes of @call (to_init, ...). Returns the mask; 0: none yet. */
int fake_modified(const char *call, struct ibv_qp_attr *attr);

/* fake_opened - contexts that are open. */
unsigned fake_opened(void);

/* fake_vector_queues - completion queues made so far on that vector of any device. */
unsigned fake_vector_queues(unsigned vector);
