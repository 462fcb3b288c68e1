/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What the group's thread wants of etcd, one thing at a time, done by a thread that may wait for
 * it, gkv-propose. So a slow etcd keeps nobody else waiting.
 */
#include <stdbool.h>

#include "server/group/registry.h"

struct proposer;

/*
 * proposer_start - @registry is the thread's until proposer_stop(). @wake_fd: an eventfd, readable
 * when there is an answer. Returns 0 or a negative errno with @err.
 * proposer_stop - at once, whatever etcd does: what is under way may come yet. NULL: nothing.
 */
int proposer_start(struct proposer **out, struct group_registry *registry, int wake_fd,
		   struct error *err);
void proposer_stop(struct proposer *p);

/*
 * proposer_read - what stands, linearizably. Nothing may be under way.
 * proposer_propose - @to in place of @from. It is proposed until its outcome is known. If another
 * proposal in place of the same @from is under way, this one is what is wanted now; it ends the
 * other one, or that one stands.
 * proposer_is_busy - there is no answer yet, or it was not taken.
 */
void proposer_read(struct proposer *p);
void proposer_propose(struct proposer *p, const struct group_known *from,
		      const struct group_config *to);
bool proposer_is_busy(struct proposer *p);

struct proposer_answer {
	/*
	 * 0: it was read, or @to stands: @now. -EAGAIN: another one stands, which may be one of
	 * ours from a proposal before: @now. Else with @err: it was not read; nothing that was
	 * proposed stands, or ever will.
	 */
	int rc;
	struct group_known now;
	struct error err;
};

/* proposer_take - the answer, once. False: there is none yet. */
bool proposer_take(struct proposer *p, struct proposer_answer *out);
