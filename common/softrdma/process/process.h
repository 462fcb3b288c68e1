/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What one process has on soft0 as a whole: its arena, its slot, its tables of objects, its service
 * thread. Made with the first open context, gone with the last.
 *
 * Lock order: poll of an extended CQ and batch of an extended QP, under which the user's code runs;
 * process lock; open contexts; peer connecting; walk; sq of a QP (a holder of walk only tries it,
 * and a holder of sq may take walk for a moment: see `walk`); datagram sockets; seat of a UD QP;
 * rq; cq; peer list; peer requests; the small locks of ids, arena, files, channels, async queues.
 *
 * After fork() the child starts from nothing: `epoch` has grown, each object carries the epoch that
 * it was made in, and every function refuses an object of another one.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/softrdma/shared/arena.h"
#include "common/softrdma/shared/ids.h"
#include "common/softrdma/shared/lock.h"
#include "common/softrdma/shared/shared.h"

struct soft_qp;
struct soft_cq;
struct soft_srq;
struct soft_peer;

struct soft_process {
	uint32_t epoch; /* changes in a forked child only */
	uint32_t slot;
	uint64_t incarnation;
	struct arena arena;
	struct shared_mr *mrs; /* our regions, as in the arena, where others could change them */
	struct soft_peer *self; /* this process as a peer of itself */

	unsigned users; /* open contexts; process lock, which guards start and stop of all this */
	int listen_fd, kick_fd, epoll_fd;
	pthread_t service;
	_Atomic bool stop;

	struct ids qp_ids, mr_ids, cq_ids, srq_ids;
	_Atomic uint32_t next_pd;
	_Atomic uint64_t next_id; /* of channels, files and peers */

	/*
	 * walk: its holder may use any object of the tables below; objects leave the tables under
	 * it before they are freed. A QP's peer changes under its sq *and* walk. A holder only
	 * tries sq locks, so that a holder of an sq lock may wait for walk.
	 */
	struct lock walk;
	_Atomic(struct soft_qp *) qps[SHARED_QPS];
	_Atomic(struct soft_cq *) cqs[SHARED_CQS];
	_Atomic(struct soft_srq *) srqs[SHARED_SRQS];
	uint32_t qps_end; /* one past the largest index in use so far; walk */

	/* QPs whose send queue waits for its peer: bit set under the QP's sq */
	_Atomic uint32_t stalled;
	_Atomic uint64_t stalled_bits[SHARED_QPS / 64];
};

extern struct soft_process soft_process;

/* soft_process_get - one more context. Returns 0 or a negative errno. */
int soft_process_get(void);
void soft_process_put(void);

/* soft_kick - wake the service thread behind a kick descriptor. */
void soft_kick(int fd);

/* process_alive - is an object of @epoch usable in this process? */
static inline bool process_alive(uint32_t epoch)
{
	return __builtin_expect(epoch == soft_process.epoch, 1);
}

static inline uint64_t process_new_id(void)
{
	return atomic_fetch_add_explicit(&soft_process.next_id, 1, memory_order_relaxed) + 1;
}

static inline struct shared_arena *own_arena(void)
{
	return soft_process.arena.shared;
}

/* own_mr - the entry that a key of ours names, for what this process itself does to its memory. */
static inline struct shared_mr *own_mr(uint32_t key)
{
	return &soft_process.mrs[mr_key_index(key)];
}
