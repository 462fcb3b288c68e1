/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A member that is not primary: it dials the one that is, learns from it or goes on where it was,
 * and applies what is committed, on a thread of its own, gkv-apply. follow.c has the argument.
 *
 * All functions here are another thread's, the group's.
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/rdma/exchange.h"
#include "server/replica/backup.h"
#include "server/replica/follower.h"
#include "server/replica/pulse.h"

struct follow;

/* What it does to store and clients: gkv-apply calls them, or follow_leave() after it.
 * Each returns 0, or a negative errno: it cannot, and the member is not fit to go on. */
struct follow_hooks {
	void *ctx;
	/* It learns from the primary of @term: the log comes from @position on. */
	int (*begins)(void *ctx, uint64_t term, uint64_t position, struct error *err);
	int (*client)(void *ctx, const struct snapshot_client *item); /* before any record */
	int (*apply)(void *ctx, const struct log_record *r); /* committed, in their order */
	/* A piece of the walk over the primary at @address, a few milliseconds of it. 1: there is
	 * more; 0: all of it was given to the store; negative, with @err. */
	int (*walk)(void *ctx, const char *address, struct error *err);
	/* After that: all that was given is in the store, and nothing of a walk comes any more. */
	int (*learned)(void *ctx, struct error *err);
};

struct follow_config {
	const struct rdma_device *dev; /* of rings and pulses: backup.h */
	uint64_t ring_bytes;
	struct wire_peer_hello who;
	int wake_fd; /* eventfd, readable when follow_look() says something else */
	struct follow_hooks hooks;
};

/* follow_create - a new member: it has nothing. Returns 0 or a negative errno with @err.
 * follow_destroy - after follow_leave(), if it has dialled. NULL: nothing. */
int follow_create(struct follow **out, const struct follow_config *config, struct error *err);
void follow_destroy(struct follow *f);

/*
 * follow_dial - the primary is at @address, "HOST:PORT": dial it, again and again, and follow it.
 * After follow_create(), or follow_leave() of one that has learned. Returns 0 or a negative errno
 * with @err.
 * follow_leave - this primary loses its rights here; what it has sent is kept, and nothing of its
 * is taken from now on. The pulse must not be used any more. Waits for the thread, which ends soon.
 * Returns 0; negative with @err: its rights could not be taken away: the server must end, without
 * taking over.
 * follow_rest - after follow_leave(): it dials nobody any more, soon at least, and gives back what
 * that would have needed. Takes as long as some hundred MiB of memory do.
 */
int follow_dial(struct follow *f, const char *address, struct error *err);
int follow_leave(struct follow *f, struct error *err);
void follow_rest(struct follow *f);

enum follow_stage {
	FOLLOW_NOBODY,
	FOLLOW_DIALS,
	FOLLOW_LEARNS,
	FOLLOW_FOLLOWS, /* it has all that its primary had committed, or goes on from there */
	FOLLOW_UNFIT, /* it must end, or start again: `err` */
};

struct follow_state {
	enum follow_stage stage;
	bool learned; /* it has been at FOLLOW_FOLLOWS */
	uint64_t term; /* of the ring; 0: there is none yet */
	uint32_t lease_ms, rho_ppm; /* with it */
	struct pulse *pulse; /* with it: of beats, until follow_leave() */
	bool line_ended; /* the primary has closed it, or its machine has: see follow.c */
	struct follower_state log;
	struct error err;
	struct error dismissed; /* code 0: the primary has not said that a person takes it out */
};

void follow_look(struct follow *f, struct follow_state *out);

/* follow_held - what it holds of the log: after follow_leave(), until follow_dial(). */
struct follower *follow_held(struct follow *f);
