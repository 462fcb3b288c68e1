/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The configuration of one group in etcd: read, and proposed. registry.c says when the outcome of a
 * proposal is known. One thread at a time.
 */
#include "server/etcd/etcd.h"
#include "server/group/configuration.h"

struct group_registry;

/* A configuration as it stood in etcd. */
struct group_known {
	struct group_config config; /* where modified is not 0 */
	int64_t modified; /* mod_revision of its key; 0: there is none yet */
};

/*
 * group_registry_open - @cluster and @group: names, of letters, digits, '-', '_' and '.'. Returns 0
 * or a negative errno with @err, as etcd_open(); -EINVAL: a name is none.
 * group_registry_key - the key, to be followed.
 */
int group_registry_open(struct group_registry **out, const struct etcd_config *etcd,
			const char *cluster, const char *group, struct error *err);
void group_registry_close(struct group_registry *r);
const char *group_registry_key(const struct group_registry *r);
void group_registry_wake(struct group_registry *r); /* as etcd_wake() */

/*
 * group_registry_take - what was read by another one, or by group_registry_read(). Returns 0 and
 * @out; -EPROTO, -ENOTSUP: group_config_decode(); -ESTALE: it is older than one that was taken
 * before, so etcd has lost what it had: nothing is to be believed until a person has looked.
 * group_registry_read - linearizably. The same, and what etcd_get() returns.
 */
int group_registry_take(struct group_registry *r, const struct etcd_value *v,
			struct group_known *out, struct error *err);
int group_registry_read(struct group_registry *r, struct group_known *out, struct error *err);

/*
 * group_registry_propose - @to, of the next term, in place of @from; a nonce is drawn. @now: what
 * stands, where that is known.
 *	0		@to stands: @now
 *	-EAGAIN		another one stands: @now. @to will not come any more; for a moment it may
 *			have stood before that
 *	-EINPROGRESS	nobody knows: ask group_registry_settle(), or propose another one in place
 *			of @from, which ends this one when it stands
 *	else		as etcd_change() and group_registry_take(): it never will
 * group_registry_settle - of the last proposal, the same; it reads once.
 */
int group_registry_propose(struct group_registry *r, const struct group_known *from,
			   const struct group_config *to, struct group_known *now,
			   struct error *err);
int group_registry_settle(struct group_registry *r, struct group_known *now, struct error *err);
