/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A peer is another process, known by slot and incarnation. It is made when the first QP connects
 * to it and lives as long as QPs hold it. That it has died shows in its arena at once (life.c).
 * Its connection stays open: when it breaks, or when the peer's pid_fd says so, the service thread
 * calls the peer dead too, and ends what waits for it. Descriptors of
 * the peer (arena, kick, channels, files) come over the connection, one request at a time, each
 * with a deadline, because a stopped peer does not answer.
 */
#include "common/softrdma/process/peer.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/softrdma/objects/channel.h"
#include "common/softrdma/process/peer_request.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/process/service.h"
#include "common/softrdma/process/wire.h"

#define CONNECT_MS 1000
#define CHANNEL_MS 1000

static struct {
	pthread_mutex_t connecting; /* one connect at a time */
	pthread_mutex_t lock; /* protects list and the refs of all in it */
	struct soft_peer *list;
} peers = { .connecting = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER };

/* Close those from the place @from on. */
static void fds_close(int *fds, unsigned from)
{
	for (unsigned i = from; i < WIRE_FDS_MAX; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

int soft_peer_request(struct soft_peer *peer, enum wire_op op, uint64_t arg, int timeout_ms,
		      struct wire_reply *reply, int *fds)
{
	struct wire_request request = { .op = op, .sequence = ++peer->sequence, .arg = arg };
	uint64_t deadline = time_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	int rc = soft_wire_send(peer->fd, &request, sizeof(request), NULL, 0);

	if (rc < 0)
		return rc;
	for (;;) {
		struct pollfd wait = { .fd = peer->fd, .events = POLLIN };
		uint64_t now = time_now_ns();

		if (now >= deadline)
			return -ETIMEDOUT;
		if (poll(&wait, 1, (int)((deadline - now) / NS_PER_MS) + 1) < 0 && errno != EINTR)
			return -errno;
		rc = soft_wire_receive(peer->fd, reply, sizeof(*reply), fds);
		if (rc == -EAGAIN)
			continue;
		if (rc < 0)
			return rc;
		if (reply->sequence == request.sequence && !reply->error) {
			fds_close(fds, op == WIRE_HELLO ? 2 : 1); /* more than there can be */
			return 0;
		}
		fds_close(fds, 0);
		if (reply->sequence == request.sequence)
			return reply->error < 0 ? reply->error : -EPROTO;
		/* else the late reply to a request that was given up */
	}
}

static void peer_free(struct soft_peer *peer)
{
	for (unsigned i = 0; i < SHARED_MAPS; i++)
		soft_peer_map_free(atomic_load_explicit(&peer->maps[i], memory_order_relaxed));
	while (peer->retired) {
		struct soft_peer_map *map = peer->retired;

		peer->retired = map->next;
		soft_peer_map_free(map);
	}
	assert(!peer->channels);
	if (!peer->self) {
		if (peer->arena)
			soft_arena_unmap(peer->arena);
		if (peer->kick_fd >= 0)
			close(peer->kick_fd);
		if (peer->memory_fd >= 0)
			close(peer->memory_fd);
	}
	if (peer->fd >= 0) {
		soft_service_forget(peer->fd);
		close(peer->fd);
	}
	if (peer->pid_fd >= 0) {
		soft_service_forget(peer->pid_fd);
		close(peer->pid_fd);
	}
	pthread_mutex_destroy(&peer->requests);
	free(peer);
}

static struct soft_peer *peer_new(uint32_t slot)
{
	struct soft_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	pthread_mutex_init(&peer->requests, NULL);
	peer->id = process_new_id();
	peer->slot = slot;
	peer->refs = 1;
	peer->fd = peer->pid_fd = peer->kick_fd = peer->memory_fd = -1;
	return peer;
}

static void peer_list(struct soft_peer *peer)
{
	pthread_mutex_lock(&peers.lock);
	peer->next = peers.list;
	peers.list = peer;
	pthread_mutex_unlock(&peers.lock);
}

/* Say hello on a fresh connection: learn the peer, its arena, its kick descriptor. */
static int peer_hello(struct soft_peer *peer)
{
	struct ucred credentials;
	socklen_t len = sizeof(credentials);
	struct wire_reply reply;
	int fds[WIRE_FDS_MAX], rc;

	if (getsockopt(peer->fd, SOL_SOCKET, SO_PEERCRED, &credentials, &len) < 0)
		return -errno;
	peer->pid = credentials.pid;
	/* It answers after this, so the descriptor is not that of a later owner of the pid. */
	if (peer->pid > 0)
		peer->pid_fd = (int)syscall(SYS_pidfd_open, peer->pid, 0);
	rc = soft_peer_request(peer, WIRE_HELLO, 0, CONNECT_MS, &reply, fds);
	if (rc < 0)
		return rc;
	peer->incarnation = reply.incarnation;
	peer->kick_fd = fds[1];
	if (fds[0] < 0)
		return -EPROTO;
	peer->arena = soft_arena_map(fds[0], peer->slot, reply.incarnation);
	rc = peer->arena ? 0 : -errno;
	close(fds[0]);
	if (rc < 0)
		return rc;
	peer->mrs = peer->arena->mr;
	peer->memory_fd = soft_peer_memory_open(peer);
	return 0;
}

static struct soft_peer *peer_connect(uint32_t slot)
{
	struct soft_peer *peer = peer_new(slot);
	int rc;

	if (!peer)
		return NULL;
	peer->fd = soft_wire_connect(slot, CONNECT_MS);
	rc = peer->fd < 0 ? peer->fd : peer_hello(peer);
	if (rc == 0)
		rc = soft_service_watch(peer->fd, EPOLLRDHUP, peer->id);
	if (rc == 0 && peer->pid_fd >= 0)
		rc = soft_service_watch(peer->pid_fd, EPOLLIN, peer->id);
	if (rc < 0) {
		peer_free(peer);
		errno = -rc;
		return NULL;
	}
	peer_list(peer);
	return peer;
}

/* Is its connection broken already, before the service thread got to see it? */
static bool peer_gone(const struct soft_peer *peer)
{
	struct pollfd look = { .fd = peer->fd, .events = 0 };

	return peer_dead(peer) || (peer->fd >= 0 && poll(&look, 1, 0) > 0);
}

static struct soft_peer *peer_known(uint32_t slot)
{
	struct soft_peer *peer;

	pthread_mutex_lock(&peers.lock);
	for (peer = peers.list; peer; peer = peer->next) {
		if (peer->slot == slot && !peer_gone(peer)) {
			peer->refs++;
			break;
		}
	}
	pthread_mutex_unlock(&peers.lock);
	return peer;
}

struct soft_peer *soft_peer_get(uint32_t qpn)
{
	uint32_t slot = qpn_slot(qpn);
	struct soft_peer *peer;

	pthread_mutex_lock(&peers.connecting);
	peer = peer_known(slot);
	if (!peer)
		peer = peer_connect(slot);
	pthread_mutex_unlock(&peers.connecting);
	return peer;
}

struct soft_peer *soft_peer_find(uint64_t id)
{
	struct soft_peer *peer;

	pthread_mutex_lock(&peers.lock);
	for (peer = peers.list; peer && peer->id != id; peer = peer->next)
		;
	if (peer)
		peer->refs++;
	pthread_mutex_unlock(&peers.lock);
	return peer;
}

void soft_peer_put(struct soft_peer *peer)
{
	struct soft_peer **link;
	bool last;

	pthread_mutex_lock(&peers.lock);
	last = --peer->refs == 0;
	if (last) {
		for (link = &peers.list; *link != peer; link = &(*link)->next)
			;
		*link = peer->next;
	}
	pthread_mutex_unlock(&peers.lock);
	if (last)
		peer_free(peer);
}

void soft_peer_kick_all(void)
{
	pthread_mutex_lock(&peers.lock);
	for (struct soft_peer *peer = peers.list; peer; peer = peer->next)
		soft_kick(peer->kick_fd);
	pthread_mutex_unlock(&peers.lock);
}

bool soft_peer_sweep_all(void)
{
	bool done = true;

	pthread_mutex_lock(&peers.lock);
	for (struct soft_peer *peer = peers.list; peer; peer = peer->next)
		done = soft_peer_sweep(peer) && done;
	pthread_mutex_unlock(&peers.lock);
	return done;
}

int soft_peer_channel_get(struct soft_peer *peer, uint64_t id)
{
	struct soft_peer_channel *channel;
	struct wire_reply reply;
	int fds[WIRE_FDS_MAX] = { -1, -1 }, fd = -1;

	pthread_mutex_lock(&peer->requests);
	for (channel = peer->channels; channel && channel->id != id; channel = channel->next)
		;
	if (channel) {
		channel->refs++;
		fd = channel->fd;
		goto out;
	}
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		goto out;
	if (peer->self)
		fds[0] = soft_channel_dup(id);
	else if (soft_peer_request(peer, WIRE_CHANNEL, id, CHANNEL_MS, &reply, fds) < 0)
		fds[0] = -1;
	if (fds[0] < 0) {
		free(channel);
		goto out;
	}
	channel->id = id;
	channel->refs = 1;
	fd = channel->fd = fds[0];
	channel->next = peer->channels;
	peer->channels = channel;
out:
	pthread_mutex_unlock(&peer->requests);
	return fd;
}

void soft_peer_channel_put(struct soft_peer *peer, uint64_t id)
{
	struct soft_peer_channel **link, *channel;

	pthread_mutex_lock(&peer->requests);
	for (link = &peer->channels; (channel = *link) != NULL; link = &channel->next) {
		if (channel->id != id)
			continue;
		if (--channel->refs == 0) {
			*link = channel->next;
			close(channel->fd);
			free(channel);
		}
		break;
	}
	pthread_mutex_unlock(&peer->requests);
}

int soft_peers_start(void)
{
	struct soft_peer *self = peer_new(soft_process.slot);

	if (!self)
		return -ENOMEM;
	self->self = true;
	self->pid = getpid();
	self->arena = own_arena();
	self->mrs = soft_process.mrs;
	self->incarnation = soft_process.incarnation;
	self->kick_fd = soft_process.kick_fd;
	peer_list(self);
	soft_process.self = self;
	return 0;
}

void soft_peers_stop(void)
{
	soft_peer_put(soft_process.self);
	soft_process.self = NULL;
	assert(!peers.list);
}

void soft_peers_fork_lock(void)
{
	pthread_mutex_lock(&peers.connecting);
	pthread_mutex_lock(&peers.lock);
}

void soft_peers_fork_unlock(void)
{
	pthread_mutex_unlock(&peers.lock);
	pthread_mutex_unlock(&peers.connecting);
}

void soft_peers_fork_child(void)
{
	/* A copy of a connection in the child would hide the death of the parent. */
	for (struct soft_peer *peer = peers.list; peer; peer = peer->next) {
		if (peer->fd >= 0)
			close(peer->fd);
		if (peer->pid_fd >= 0)
			close(peer->pid_fd);
		if (!peer->self && peer->kick_fd >= 0)
			close(peer->kick_fd);
		if (peer->memory_fd >= 0)
			close(peer->memory_fd);
	}
	peers.list = NULL;
	soft_peers_fork_unlock();
}
