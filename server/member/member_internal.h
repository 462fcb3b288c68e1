/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What member.c, of the thread, and member_role.c, of what the server is, share. */
#include <pthread.h>

#include "common/base/mailbox.h"
#include "server/etcd/follow.h"
#include "server/member/member.h"

/* A server or kv-cluster that dials: posted by the thread that accepts. */
struct member_caller {
	struct mail mail; /* must be first */
	int fd;
	struct wire_frame first;
};

/* What a person wants of this server's group, through kv-cluster, and waits for. */
struct member_wish {
	int fd; /* -1: nothing */
	enum wire_group_what what;
	uint64_t life; /* of the member that it is about */
};

struct member {
	struct member_config config;
	pthread_t thread;
	bool runs;
	int wake_fd; /* eventfd: of beats, proposals, lines, etcd */
	struct mailbox calls; /* struct member_caller */
	_Atomic unsigned called; /* in it */

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
	int64_t begun; /* the revision that was known first */
	bool was_member; /* a configuration has had it */
	struct follow *follow;
	uint64_t primary; /* the life that it follows; 0: it has left it */
	const struct pulse *pulse; /* that beat has of it */
	uint64_t learned_term; /* that beat knows */
	enum {
		NOTHING,
		TO_FOUND,
		TO_CHANGE, /* the configuration, and become nothing by it */
		TO_LOOK,
		TO_READ,
		TO_TAKE_OVER
	} asked; /* the proposer; not by `lead` */
	uint64_t look_ns; /* until it is asked again */
	uint64_t looked_ns; /* etcd was asked what there is, as the line to the primary has ended */
	uint64_t rest_until_ns; /* etcd has failed: it is not asked before */
	uint64_t alone_ns; /* it has the log of its last life, and goes on alone then; 0: unknown */
	uint64_t position; /* where the log ends with which it begins alone */
	struct mirror *mirror;
	struct lead *lead;
	uint64_t tidy_ns; /* it leads, and gives back then what it followed with; 0: it has */
	struct member_wish wish;
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
 * member_force - this server is to be all there is of its group, which it waits for: 0, and an
 * answer of etcd will come; or a negative errno with @err.
 */
void member_turn(struct member *m);
bool member_told(struct member *m, const struct group_known *now);
int member_force(struct member *m, struct error *err);

/*
 * What people ask (ask.c). member_ask - kv-cluster has dialled: @fd is taken over.
 * member_wish_known - the configuration is another one. member_wish_failed - what is wished will
 * not be, and why. Neither says anything where nothing is wished.
 */
void member_ask(struct member *m, int fd, const struct wire_group_ask *ask);
void member_wish_known(struct member *m);
void member_wish_failed(struct member *m, const struct error *why);
