/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What a primary does for its group: it lets members in, puts them in sync, takes out those that
 * do not follow, and finds that another one is primary. lead.c has the argument.
 *
 * All functions are one thread's, the group's, and none waits for etcd or for a member. The thread
 * calls lead_turn() when one of the descriptors of lead_watch() is readable, or wake_fd, and each
 * LEAD_TURN_MS.
 */
#include <poll.h>

#include "server/member/admit.h"
#include "server/member/beat.h"
#include "server/member/proposer.h"

#define LEAD_TURN_MS 5
#define LEAD_FDS_MAX MIRROR_PEERS_MAX

struct lead;

struct lead_config {
	/* They stay until lead_stop(). Nobody counts yet for beat, nobody is in the mirror. */
	struct beat *beat;
	struct mirror *mirror;
	struct proposer *proposer; /* its wake_fd is this one, too */
	const struct rdma_device *dev; /* of rings and pulses */
	int wake_fd; /* eventfd */

	struct group_known known; /* in which this server is primary */
	uint64_t self; /* its life */
	uint64_t cluster[2];
	const char *group;
	uint64_t memory; /* bytes that its store may have: a member needs as many */
	/* It has taken over: what this holds is brought to all that are in sync. NULL: it has
	 * founded the group, or come back: it is alone. */
	const struct follower *brings;
	struct admit_table table;

	/*
	 * opened - all that are in sync have all that this server holds: its log may be opened,
	 * with mirror_table(), and it may apply and answer. Once; nobody learns before it.
	 * changed - the group's configuration is another one, and this server is its primary.
	 * deposed - it is not any more: the server answers nobody from the return on. Once;
	 * lead_turn() does nothing after it.
	 * rest - true: no client is answered from the return on, or begins a session, and those
	 * that there are end; false: it goes on. rested - none is left after rest(true); wake_fd
	 * says so, too. stays - what a person wanted will not be: @why.
	 */
	void (*opened)(void *ctx);
	void (*changed)(void *ctx, const struct group_known *now);
	void (*deposed)(void *ctx, const struct group_known *now);
	void (*rest)(void *ctx, bool rests);
	bool (*rested)(void *ctx);
	void (*stays)(void *ctx, const struct error *why);
	void *ctx;
};

/* lead_start - returns 0 or -ENOMEM with @err. lead_stop - all lines end; waits for their threads.
 * Nothing more is committed, since all who had to hold the log still have to. NULL: nothing. */
int lead_start(struct lead **out, const struct lead_config *config, struct error *err);
void lead_stop(struct lead *l);

/* lead_hello - a member has said it over @fd, which is non-blocking: taken over. */
void lead_hello(struct lead *l, int fd, const struct wire_peer_hello *hello);

/* lead_told - etcd has @now, as somebody has read. */
void lead_told(struct lead *l, const struct group_known *now);

/*
 * What a person wants of the group. Both return 0, and changed() or deposed() say when it stands;
 * or a negative errno with @err.
 *
 * lead_remove - take @node out: it is told that it is, and that it shall not come back by itself.
 * lead_switch - give way to the member @node, or where that is "" to the one that has most.
 * stays() says that it will not be. @life: that of the member.
 */
int lead_remove(struct lead *l, const char *node, uint64_t *life, struct error *err);
int lead_switch(struct lead *l, const char *node, uint64_t *life, struct error *err);

unsigned lead_watch(const struct lead *l, struct pollfd out[LEAD_FDS_MAX]);
void lead_turn(struct lead *l);

enum lead_stage {
	LEAD_FREE, /* nobody */
	LEAD_AWAITED, /* it is in sync, and has not come to this primary yet */
	LEAD_WAITS, /* it has come, and waits for the configuration */
	LEAD_COMES, /* it connects, and gets what it lacks */
	LEAD_LEARNS, /* it walks */
	LEAD_CATCHES_UP, /* it counts, and gets what was sent before that */
	LEAD_IN_SYNC,
	LEAD_CUT, /* nothing more is sent; it is in the configuration yet */
};

/* lead_look - what becomes of the member at place @peer, for people. */
struct lead_state {
	enum lead_stage stage;
	uint64_t life;
	char node[GROUP_NODE_MAX];
	struct mirror_state mirror; /* from LEAD_COMES on */
	uint64_t granted_ns; /* beat_granted() */
	char why[96]; /* LEAD_CUT */
};

void lead_look(const struct lead *l, unsigned peer, struct lead_state *out);
