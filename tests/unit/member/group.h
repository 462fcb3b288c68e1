/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Groups of three nodes in one process, with a real etcd: each has the thread of its group, leases
 * and rings on soft0, a log without a disk, and a port at which the others dial it. What stands for
 * a store is a set of numbers, each of which is a record of the log. One thread writes to whoever
 * is primary, while primaries and backups die and come back in another life: with nothing, or with
 * what they had, as if in a data directory.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/time.h"
#include "common/rdma/device.h"
#include "server/log/log.h"
#include "server/member/member.h"
#include "tests/unit/etcd/real.h"

#define NODES	    3u
#define LEASE_MS    300u
#define CALM_MS	    2000u
#define TIMEOUT_MS  5000u /* of etcd */
#define NUMBERS_MAX 4000000u
#define PATIENCE_NS (120 * NS_PER_S)

struct node {
	char name[8], address[280];
	struct rdma_device *dev;
	uint64_t life;
	struct member *member;
	int listen_fd;
	pthread_t acceptor;
	_Atomic bool deaf; /* the acceptor ends */
	struct log *_Atomic log; /* of a primary */
	_Atomic uint64_t published; /* position */
	_Atomic bool dead; /* what it commits from now on is no answer */
	_Atomic bool ended; /* as its member says */
	_Atomic int why; /* then: the code */
	_Atomic bool serves; /* it has sessions, which end some time after they were told to */
	_Atomic uint64_t rest_ns; /* they were told to; 0: they were not */
	_Atomic uint64_t until, clock;
	pthread_mutex_t lock;
	uint8_t *has; /* a byte for each number. Under the lock */
	/* As its data directory would have it. */
	bool was_member;
	uint64_t answered[2]; /* lives */
};

/* What nodes do; group_start() resets it, but for group_keep(). keeps - what they have stays over
 * their lives. dies_opening - whoever is to begin as primary ends instead; forgets - a life that
 * begins vouches for none before it, as after a power cut without --sync always. lease_ms - what
 * nodes that start found a group with. */
extern unsigned lease_ms;
extern _Atomic bool keeps, dies_opening, forgets;
extern void (*at_own)(struct node *n); /* it is about to propose to go on alone; NULL */

extern struct node node[NODES];
extern struct node *_Atomic primary;
extern struct real *etcd;
extern struct error err; /* of the last call that failed, in the test's thread */
extern uint8_t *acknowledged; /* by the writer, to whoever asks later: a byte for each number */
extern _Atomic unsigned lost, overlaps, leads; /* seen when a primary began; how many did */
extern _Atomic bool stop_writing;

/* nodes.c: nodes_begin, nodes_finish - around all tests. node_start - in another life. node_kill -
 * its process is killed, as far as the others can tell. node_add - it has @number. node_clear - it
 * has nothing. */
int nodes_begin(void **state);
int nodes_finish(void **state);
void node_start(unsigned i);
void node_kill(struct node *n);
void node_add(struct node *n, uint64_t number);
void node_clear(struct node *n);

/*
 * group.c: group_prepare - an etcd, and no node yet. group_start - all are in sync, and *@writer
 * writes. group_keep - the same, of nodes that keep what they have. group_start_calmly - with
 * leases of CALM_MS: if the machine stands still for longer than two leases, a backup is taken out,
 * and nothing goes on until etcd has that. group_end - all are in sync once more, and have all that
 * was acknowledged. group_kill - the nodes that are left, and etcd.
 * write_on - what the writer's thread runs.
 */
void group_prepare(bool keep, unsigned lease);
void group_start(pthread_t *writer);
void group_start_calmly(pthread_t *writer);
void group_keep(pthread_t *writer);
void group_end(pthread_t writer);
void group_kill(pthread_t writer);
void *write_on(void *arg);

/* kill_while_written - the writer lets go of it. known - what etcd has. check_so_far - whatever is
 * waited for until @end_ns: nobody has seen what must not be. await_in_sync - so many; who was
 * deposed or taken out starts again. await_written - writes go on. */
void kill_while_written(struct node *n);
struct group_known known(void);
void check_so_far(uint64_t end_ns);
void await_in_sync(unsigned count);
void await_written(void);
