/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Other processes on soft0, as seen by the QPs here that are connected to theirs. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "common/softrdma/shared/shared.h"

/* A file of the peer, mapped here. */
struct soft_peer_map {
	uint64_t id, length;
	unsigned char *base;
	struct soft_peer_map *next; /* among the retired */
};

/* The eventfd of a completion channel of the peer. */
struct soft_peer_channel {
	struct soft_peer_channel *next;
	uint64_t id;
	unsigned refs;
	int fd;
};

struct soft_peer {
	/* constant */
	struct shared_arena *arena;
	struct shared_mr
		*mrs; /* its regions: in the arena, but our own where only we can change them */
	bool self;
	pid_t pid;
	uint32_t slot;
	uint64_t incarnation;
	uint64_t id;
	int kick_fd;
	int memory_fd; /* its /proc/PID/mem, or -1: see peer_memory.c */
	_Atomic bool dead; /* set once, by the service thread */

	struct soft_peer *next; /* list lock */
	unsigned refs; /* list lock */
	int fd, pid_fd; /* connection; -1 for self; pid_fd -1 where it cannot be had */

	pthread_mutex_t requests; /* protects the rest: one request at a time */
	uint32_t sequence;
	uint64_t file_retry_ns, file_pause_ns; /* no files are asked for before that time */
	struct soft_peer_channel *channels;
	struct soft_peer_map *retired; /* left the table, not yet unmapped */
	uint64_t files_gone; /* of the peer, when it was looked at last */
	/* read without lock by QPs that hold their sq lock: see soft_peer_sweep() */
	_Atomic(struct soft_peer_map *) maps[SHARED_MAPS];
};

/* soft_peers_start, soft_peers_stop - with the process. */
int soft_peers_start(void);
void soft_peers_stop(void);

/* soft_peers_fork_lock, _unlock, _child - around fork(); the child closes what it inherited. */
void soft_peers_fork_lock(void);
void soft_peers_fork_unlock(void);
void soft_peers_fork_child(void);

/*
 * soft_peer_get - the process that a QP number names, connected to if need be, in a second at most.
 * Returns NULL with errno set. Given back with soft_peer_put().
 */
struct soft_peer *soft_peer_get(uint32_t qpn);
void soft_peer_put(struct soft_peer *peer);

/* soft_peer_find - service thread: the peer of an id, with a reference, or NULL. */
struct soft_peer *soft_peer_find(uint64_t id);

/* soft_peer_kick_all - kick all peers: a file of ours is gone. */
void soft_peer_kick_all(void);

/* soft_peer_channel_get - returns an eventfd of @id, or -1. Kept until _put() of the same id. */
int soft_peer_channel_get(struct soft_peer *peer, uint64_t id);
void soft_peer_channel_put(struct soft_peer *peer, uint64_t id);

/*
 * soft_peer_sweep_all - unmap files that their owners gave up. Service thread.
 * Returns false when some are still in use: call again.
 */
bool soft_peer_sweep_all(void);

/* soft_peer_memory_open - at connect: the file of the peer's memory. Returns -1 without one. */
int soft_peer_memory_open(const struct soft_peer *peer);

/*
 * soft_peer_read, soft_peer_write - copy to or from memory of the peer through the kernel.
 * Whoever reads looks after it whether the peer lives. Returns the number of bytes, not 0, or a
 * negative errno: -ESRCH: the peer is gone.
 */
ssize_t soft_peer_read(const struct soft_peer *peer, const struct iovec *near, unsigned nears,
		       const struct iovec *far, unsigned fars);
ssize_t soft_peer_write(const struct soft_peer *peer, const struct iovec *near, unsigned nears,
			const struct iovec *far);

/* soft_peer_map_slow - see peer_map(). */
unsigned char *soft_peer_map_slow(struct soft_peer *peer, uint32_t index, uint64_t id,
				  uint64_t offset, uint64_t length);

/*
 * peer_map - the place in this process of a range of a peer's file, or NULL: not available, copy
 * through the kernel. Caller holds the sq lock of a QP and uses the result under it only.
 */
static inline unsigned char *peer_map(struct soft_peer *peer, uint32_t index, uint64_t id,
				      uint64_t offset, uint64_t length)
{
	struct soft_peer_map *map;

	if (index >= SHARED_MAPS)
		return NULL;
	/* acquire: pairs with the release in soft_peer_map_slow(): the map's fields */
	map = atomic_load_explicit(&peer->maps[index], memory_order_acquire);
	if (map && map->id == id && offset <= map->length && length <= map->length - offset)
		return map->base + offset;
	return soft_peer_map_slow(peer, index, id, offset, length);
}

static inline bool peer_dead(const struct soft_peer *peer)
{
	return atomic_load_explicit(&peer->dead, memory_order_acquire) ||
	       life_over(&peer->arena->life);
}
