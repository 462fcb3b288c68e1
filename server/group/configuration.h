/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The configuration of a group, as etcd has it: a JSON object, one key for each group. It is
 * changed as a whole, to the one of the next term, by whom it names as writer.
 *
 *	{"format": 2, "term": 12, "primary": LIFE, "lease_ms": 300, "rho_ppm": 10000,
 *	 "min_in_sync": 1,
 *	 "members": [{"node": "a", "life": LIFE, "address": "HOST:PORT", "in_sync": true}, ...],
 *	 "before": [{"node": "b", "life": LIFE, "address": "HOST:PORT"}, ...],
 *	 "writer": LIFE, "nonce": "16 hex digits", "why": "text for people"}
 *
 * LIFE is 16 hexadecimal digits, as a string: what a node has drawn when it started. A member is a
 * node in one life; a server that was started again is another member, and lacks what was
 * acknowledged meanwhile.
 *
 * "before" has who was primary before the present one, the last one first, as far back as none of
 * those after it is known to have answered anybody. The first configuration that a primary writes
 * after it has begun to answer has nobody there.
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

#define GROUP_MEMBERS_MAX 8u
#define GROUP_NODE_MAX	  64u /* bytes, the 0 included */
#define GROUP_ADDRESS_MAX 280u
#define GROUP_WHY_MAX	  160u
#define GROUP_LEASE_MIN	  10u /* ms */
#define GROUP_LEASE_MAX	  60000u
#define GROUP_RHO_MAX	  500000u /* ppm */

struct group_member {
	uint64_t life; /* not 0 */
	bool in_sync; /* else it learns */
	char node[GROUP_NODE_MAX];
	char address[GROUP_ADDRESS_MAX]; /* "HOST:PORT", for clients and for members */
};

struct group_config {
	uint64_t term; /* from 1 */
	uint64_t primary; /* the life of a member in sync */
	uint32_t lease_ms;
	uint32_t rho_ppm; /* rates of two clocks differ by so much at most */
	uint32_t min_in_sync; /* with fewer, the primary included, writes are refused */
	uint32_t count;
	uint32_t before_count;
	struct group_member member[GROUP_MEMBERS_MAX];
	struct group_member before[GROUP_MEMBERS_MAX]; /* members no more */
	uint64_t writer, nonce; /* a life, and what tells two proposals of one writer apart */
	char why[GROUP_WHY_MAX];
};

/*
 * group_config_decode - from etcd. Untrusted: whatever it is, @out is one that the rules below
 * allow, or -EPROTO is returned, with @err. -ENOTSUP: of a later version of GraceKV.
 * group_config_encode - to be freed. NULL: there is no memory.
 */
int group_config_decode(const char *bytes, size_t len, struct group_config *out, struct error *err);
char *group_config_encode(const struct group_config *c);

/* group_find, group_find_node - a member, or NULL. group_in_sync - how many are. */
const struct group_member *group_find(const struct group_config *c, uint64_t life);
const struct group_member *group_find_node(const struct group_config *c, const char *node);
unsigned group_in_sync(const struct group_config *c);

/*
 * What may become of a configuration: @c becomes that of the next term, by @writer. 0, or a
 * negative errno with @err: then @c is as it was.
 *
 * group_found - there was none: @first is alone, and primary. lease_ms, rho_ppm and
 *	min_in_sync are set.
 * group_add - @m learns. An earlier life of its node goes, but for the primary's: -EBUSY. -ENOSPC:
 *	there are as many members as there may be.
 * group_promote - a member that learns is in sync. -EINVAL: it is none.
 * group_remove - a member goes. -EINVAL: it is none, or the primary.
 * group_take_over - @writer, which is in sync, is primary, and the primary goes. -EPERM: it is not
 *	in sync, or the primary itself.
 * group_switch - the primary gives way to @to, which is in sync, and goes: it comes back in another
 *	life. -EPERM.
 * group_return - the primary has its log again, with all that it acknowledged, in another life, and
 *	is alone: all others go. -EPERM: @before is not that primary.
 * group_give_back - the primary has answered nobody, as its node says, which is @now in another
 *	life: the one before it is primary, in the life that it had, which may be over. -EPERM: @now
 *	is of another node, or nobody is known to have been before it.
 * group_again - the same, of the next term: nothing that an earlier life of @now has proposed in
 *	place of @c stands any more. -EPERM: @now is not of the primary's node.
 * group_force - a person says that @now is all there is: what others had may be lost.
 */
void group_found(struct group_config *c, const struct group_member *first);
int group_add(struct group_config *c, uint64_t writer, const struct group_member *m,
	      struct error *err);
int group_promote(struct group_config *c, uint64_t writer, uint64_t life, struct error *err);
int group_remove(struct group_config *c, uint64_t writer, uint64_t life, const char *why,
		 struct error *err);
int group_take_over(struct group_config *c, uint64_t writer, const char *why, struct error *err);
int group_switch(struct group_config *c, uint64_t writer, uint64_t to, struct error *err);
int group_return(struct group_config *c, uint64_t before, const struct group_member *now,
		 struct error *err);
int group_give_back(struct group_config *c, const struct group_member *now, struct error *err);
int group_again(struct group_config *c, const struct group_member *now, struct error *err);
void group_force(struct group_config *c, const struct group_member *now);

/* group_answers - nobody before the primary is asked for any more. No change by itself: it goes
 * with the next one. */
void group_answers(struct group_config *c);
