/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Files of a peer that are mapped here, by the place they have in the peer's table and by an id
 * that is never used again, so that a stale mapping is never taken for another file.
 *
 * A mapping is used under the sq lock of some QP and at no other time. The sweep takes a mapping
 * whose file its owner gave up out of the table, and unmaps it once it has seen every sq lock free
 * (taken it) after that: whoever takes one later does not find the mapping any more.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/softrdma/process/peer.h"
#include "common/softrdma/process/peer_request.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/objects/qp.h"
#include "common/softrdma/process/service.h"

/* A post waits this long for a file, once; then it copies through the kernel for a while. */
#define FILE_MS	       100
#define FILE_PAUSE_MIN (100 * NS_PER_MS)
#define FILE_PAUSE_MAX (16 * NS_PER_S)
#define SWEEP_TRIES    1000

void soft_peer_map_free(struct soft_peer_map *map)
{
	if (!map)
		return;
	munmap(map->base, map->length);
	free(map);
}

static struct soft_peer_map *map_file(int fd, uint64_t id, uint64_t end)
{
	struct soft_peer_map *map = calloc(1, sizeof(*map));
	struct stat st;
	void *base;

	if (!map)
		return NULL;
	if (fstat(fd, &st) < 0 || st.st_size <= 0 || (uint64_t)st.st_size < end)
		goto err_map;
	base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		goto err_map;
	madvise(base, (size_t)st.st_size, MADV_DONTFORK);
	map->id = id;
	map->length = (uint64_t)st.st_size;
	map->base = base;
	return map;

err_map:
	free(map);
	return NULL;
}

unsigned char *soft_peer_map_slow(struct soft_peer *peer, uint32_t index, uint64_t id,
				  uint64_t offset, uint64_t length)
{
	uint64_t now = time_now_ns(), end = offset + length;
	struct soft_peer_map *map = NULL, *old;
	struct wire_reply reply;
	int fds[WIRE_FDS_MAX];

	/* The service thread waits for nobody: others wait for it. */
	if (end < offset || soft_service_is_self())
		return NULL;
	pthread_mutex_lock(&peer->requests);
	old = atomic_load_explicit(&peer->maps[index], memory_order_relaxed);
	if (old && old->id == id && end <= old->length) {
		map = old;
		goto out;
	}
	if (now < peer->file_retry_ns)
		goto out;
	if (soft_peer_request(peer, WIRE_FILE, id, FILE_MS, &reply, fds) == 0 && fds[0] >= 0) {
		map = map_file(fds[0], id, end);
		close(fds[0]);
	}
	if (!map) {
		peer->file_pause_ns =
			peer->file_pause_ns ? peer->file_pause_ns * 2 : FILE_PAUSE_MIN;
		if (peer->file_pause_ns > FILE_PAUSE_MAX)
			peer->file_pause_ns = FILE_PAUSE_MAX;
		peer->file_retry_ns = time_now_ns() + peer->file_pause_ns;
		goto out;
	}
	peer->file_pause_ns = 0;
	if (old) {
		old->next = peer->retired;
		peer->retired = old;
	}
	/* release: pairs with the acquire in peer_map() */
	atomic_store_explicit(&peer->maps[index], map, memory_order_release);
out:
	pthread_mutex_unlock(&peer->requests);
	return map ? map->base + offset : NULL;
}

/* Has every QP been seen without its sq lock taken? */
static bool sweep_passed(void)
{
	bool passed = true;

	if (!lock_try(&soft_process.walk))
		return false;
	for (uint32_t i = 0; i < soft_process.qps_end && passed; i++) {
		struct soft_qp *qp = atomic_load(&soft_process.qps[i]);
		int tries = SWEEP_TRIES;

		if (!qp)
			continue;
		while (!lock_try(&qp->sq) && --tries)
			time_relax();
		if (tries)
			lock_drop(&qp->sq);
		else
			passed = false;
	}
	lock_drop(&soft_process.walk);
	return passed;
}

/* Take what the owner gave up out of the table. Holds requests. */
static void sweep_collect(struct soft_peer *peer)
{
	uint64_t gone = atomic_load(&peer->arena->files_gone);

	if (gone == peer->files_gone)
		return;
	peer->files_gone = gone;
	for (uint32_t i = 0; i < SHARED_MAPS; i++) {
		struct soft_peer_map *map;

		map = atomic_load_explicit(&peer->maps[i], memory_order_relaxed);
		if (!map || map->id == atomic_load(&peer->arena->map_id[i]))
			continue;
		atomic_store(&peer->maps[i], NULL);
		map->next = peer->retired;
		peer->retired = map;
	}
}

bool soft_peer_sweep(struct soft_peer *peer)
{
	struct soft_peer_map *map;
	bool done = true;

	if (peer->self)
		return true;
	if (pthread_mutex_trylock(&peer->requests) != 0)
		return false;
	sweep_collect(peer);
	if (peer->retired)
		done = sweep_passed();
	while (done && (map = peer->retired) != NULL) {
		peer->retired = map->next;
		soft_peer_map_free(map);
	}
	pthread_mutex_unlock(&peer->requests);
	return done;
}
