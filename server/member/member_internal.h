/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What member.c, of the thread, and member_role.c, of what the server is, share. */
#include <pthread.h>

#include "common/base/mailbox.h"
#include "server/etcd/follow.h"
#include "server/member/member.h"

/* A server that dials: posted by who accepts. */
struct member_caller {
	struct mail mail; /* must be first */
	int fd;
	struct wire_peer_hello hello;
};

struct member {
	struct member_config config;
	pthread_t thread;
	bool runs;
	int wake_fd; /* eventfd: of beats, proposals, lines, etcd */
	struct mailbox calls; /* struct member_caller */

	/* Others' threads, which begin with it and end before it. */
	struct group_registry *asks; /* the proposer's */
	struct group_registry *judges; /* of the thread that follows the key */
	struct proposer *proposer;
	struct etcd_follow *etcd;

	/* The thread's. */
	struct beat *beat; /* NULL: the lease's length is not known yet */
	enum member_role role;
	struct group_known known; /* where knows is set; modified 0: there is none yet */
	bool knows;
	bool was_member; /* a configuration has had it */
	struct follow *follow;
	uint64_t primary; /* the life that it follows; 0: it has left it */
	const struct pulse *pulse; /* that beat has of it */
	uint64_t learned_term; /* that beat knows */
	enum { NOTHING, TO_FOUND, TO_READ, TO_TAKE_OVER } asked; /* the proposer; not by `lead` */
	uint64_t rest_until_ns; /* etcd has failed: it is not asked before */
	struct mirror *mirror;
	struct lead *lead;
	char waits_for[160];
	uint64_t told_ns; /* the log was told what it waits for */

	/* Under the lock. */
	pthread_mutex_t lock;
	bool stop;
	bool has_told;
	struct group_known told; /* by who follows the key */
	char silent[120]; /* why etcd does not answer; empty: it does */
	struct member_state state;
};

/*
 * member_turn - what can be done now. member_told - etcd has @now. False: say it once more later.
 * member_call - @c has dialled: its descriptor is taken over.
 */
void member_turn(struct member *m);
bool member_told(struct member *m, const struct group_known *now);
void member_call(struct member *m, struct member_caller *c);
