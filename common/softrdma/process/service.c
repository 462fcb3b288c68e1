/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * One thread a process. It answers the requests of peers (arena, channels, files), learns of the
 * death of peers, receives datagrams, and when kicked or, while send queues wait, every
 * millisecond, looks after the queue pairs (progress.c). It takes no part in the data path of
 * connections: a stopped process serves one-sided operations. It blocks all signals, waits for a
 * peer only where a queue pair has failed whose memory is being written to (fence.c), and only
 * tries locks that a thread could hold while waiting for another process.
 */
#include "common/softrdma/process/service.h"

#include <errno.h>
#include <stdio.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/softrdma/faults/event.h"
#include "common/softrdma/objects/channel.h"
#include "common/softrdma/process/file.h"
#include "common/softrdma/process/peer.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/path/progress.h"
#include "common/softrdma/datagram/ud.h"
#include "common/softrdma/process/wire.h"

#define EVENTS	     32
#define TICK_MS	     1
#define INCOMING_MAX (2 * SHARED_SLOTS) /* of a process, one that it gave up and a new one */

/* epoll tags: kinds in the top byte, below it a descriptor, the id of a peer, the index of a QP */
enum { TAG_LISTEN = 1, TAG_KICK, TAG_INCOMING, TAG_PEER, TAG_DATAGRAMS };
#define TAG(kind, value) ((uint64_t)(kind) << 56 | (uint64_t)(value))
#define TAG_VALUE(tag)	 ((tag) & ((1ull << 56) - 1))

static _Thread_local bool service_self;

/* Connections of peers to us. Only the service thread touches them. */
static struct {
	int fds[INCOMING_MAX];
	unsigned count;
} incoming;

bool soft_service_is_self(void)
{
	return service_self;
}

static int service_add(int fd, uint64_t tag, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = tag };

	return epoll_ctl(soft_process.epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int soft_service_watch(int fd, uint32_t events, uint64_t peer_id)
{
	/* Once: the first word is final. */
	return service_add(fd, TAG(TAG_PEER, peer_id), events | EPOLLONESHOT);
}

int soft_service_datagrams(int fd, uint32_t index)
{
	return service_add(fd, TAG(TAG_DATAGRAMS, index), EPOLLIN);
}

int soft_service_datagrams_watch(int fd, uint32_t index, bool watch)
{
	struct epoll_event event = { .events = watch ? EPOLLIN : 0,
				     .data.u64 = TAG(TAG_DATAGRAMS, index) };

	return epoll_ctl(soft_process.epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0 ? -errno : 0;
}

void soft_service_forget(int fd)
{
	epoll_ctl(soft_process.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static bool admit_all; /* SOFTRDMA_SHARE; constant while the thread runs */

/*
 * A process that is let in gets our arena, to write: it could steer what we and our other peers do
 * with our memory. So only our own user is let in, and root, who could do so anyway.
 */
static bool service_admits(int fd)
{
	struct ucred who = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(who);
	static bool told;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
		return false;
	if (who.uid == geteuid() || who.uid == 0 || admit_all)
		return true;
	if (!told)
		fprintf(stderr,
			"softrdma: process %d of user %u is refused: it could write the memory of "
			"this one, which is user %u's (run both as one user, or set "
			"SOFTRDMA_SHARE=all here, where all users are trusted)\n",
			(int)who.pid, who.uid, geteuid());
	told = true;
	return false;
}

static void service_accept(void)
{
	int fd;

	while ((fd = accept4(soft_process.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >=
	       0) {
		if (incoming.count == INCOMING_MAX || !service_admits(fd) ||
		    service_add(fd, TAG(TAG_INCOMING, fd), EPOLLIN) < 0) {
			close(fd);
			continue;
		}
		incoming.fds[incoming.count++] = fd;
	}
	/* out of descriptors or memory: the caller waits in the backlog, and epoll says so at
	 * once */
	if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
		time_sleep(TICK_MS * NS_PER_MS);
}

static void service_drop(int fd)
{
	for (unsigned i = 0; i < incoming.count; i++) {
		if (incoming.fds[i] == fd)
			incoming.fds[i] = incoming.fds[--incoming.count];
	}
	soft_service_forget(fd);
	close(fd);
}

static int service_reply(int fd, const struct wire_request *request)
{
	struct wire_reply reply = { .sequence = request->sequence,
				    .incarnation = soft_process.incarnation };
	int fds[WIRE_FDS_MAX] = { -1, -1 }, own = -1, rc;
	unsigned count = 1;

	switch (request->op) {
	case WIRE_HELLO:
		fds[0] = soft_process.arena.fd;
		fds[1] = soft_process.kick_fd;
		count = 2;
		break;
	case WIRE_CHANNEL:
		fds[0] = own = soft_channel_dup(request->arg);
		break;
	case WIRE_FILE:
		fds[0] = own = soft_file_dup(request->arg);
		break;
	default:
		break;
	}
	if (fds[0] < 0) {
		reply.error = -ENOENT;
		count = 0;
	}
	rc = soft_wire_send(fd, &reply, sizeof(reply), fds, count);
	if (own >= 0)
		close(own);
	return rc;
}

static void service_incoming(int fd)
{
	struct wire_request request;
	int fds[WIRE_FDS_MAX], rc;

	rc = soft_wire_receive(fd, &request, sizeof(request), fds);
	if (rc == -EAGAIN)
		return;
	for (unsigned i = 0; i < WIRE_FDS_MAX; i++) {
		if (fds[i] >= 0)
			close(fds[i]); /* nobody asked for them */
	}
	if (rc < 0 || service_reply(fd, &request) < 0)
		service_drop(fd);
}

static void service_kicked(void)
{
	uint64_t count;
	/* Once: it takes all of the count, and a peer may have made the descriptor a blocking
	 * one. */
	ssize_t n = read(soft_process.kick_fd, &count, sizeof(count));

	(void)n;
}

static void service_event(uint64_t tag)
{
	struct soft_peer *peer;

	switch (tag >> 56) {
	case TAG_LISTEN:
		service_accept();
		break;
	case TAG_KICK:
		service_kicked();
		break;
	case TAG_INCOMING:
		service_incoming((int)TAG_VALUE(tag));
		break;
	case TAG_PEER:
		peer = soft_peer_find(TAG_VALUE(tag));
		if (!peer)
			break;
		/* release: pairs with peer_dead() */
		atomic_store_explicit(&peer->dead, true, memory_order_release);
		soft_progress_peer_died();
		soft_peer_put(peer);
		break;
	case TAG_DATAGRAMS:
		soft_ud_service((uint32_t)TAG_VALUE(tag));
		break;
	default:
		break;
	}
}

static void *service_run(void *unused)
{
	bool again = false, resting = false;

	service_self = true;
	if (soft_life_begin(&own_arena()->life))
		perror("softrdma: set_robust_list failed: the death of this process shows late");
	pthread_setname_np(pthread_self(), "softrdma");
	/* acquire: pairs with soft_service_stop() */
	while (!atomic_load_explicit(&soft_process.stop, memory_order_acquire)) {
		struct epoll_event events[EVENTS];
		bool tick = again || resting || atomic_load(&soft_process.stalled) ||
			    soft_events_pending();
		int n = epoll_wait(soft_process.epoll_fd, events, EVENTS, tick ? TICK_MS : -1);

		for (int i = 0; i < n; i++)
			service_event(events[i].data.u64);
		soft_events_tick();
		again = !soft_progress_all();
		again = !soft_peer_sweep_all() || again;
		resting = soft_ud_tick();
	}
	while (incoming.count)
		service_drop(incoming.fds[0]);
	return unused;
}

int soft_service_start(void)
{
	const char *share = getenv("SOFTRDMA_SHARE");
	sigset_t all, before;
	int rc;

	soft_process.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (soft_process.epoll_fd < 0)
		return -errno;
	atomic_store(&soft_process.stop, false);
	admit_all = share && strcmp(share, "all") == 0;
	rc = service_add(soft_process.listen_fd, TAG(TAG_LISTEN, 0), EPOLLIN);
	if (rc == 0)
		rc = service_add(soft_process.kick_fd, TAG(TAG_KICK, 0), EPOLLIN);
	if (rc == 0) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		rc = -pthread_create(&soft_process.service, NULL, service_run, NULL);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	if (rc < 0)
		close(soft_process.epoll_fd);
	return rc;
}

void soft_service_stop(void)
{
	/* release: pairs with the acquire in service_run() */
	atomic_store_explicit(&soft_process.stop, true, memory_order_release);
	soft_kick(soft_process.kick_fd);
	pthread_join(soft_process.service, NULL);
}

void soft_service_fork_child(void)
{
	for (unsigned i = 0; i < incoming.count; i++)
		close(incoming.fds[i]);
	incoming.count = 0;
	close(soft_process.epoll_fd);
}
