/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/process/process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/softrdma/device/context.h"
#include "common/softrdma/faults/fate.h"
#include "common/softrdma/process/file.h"
#include "common/softrdma/objects/channel.h"
#include "common/softrdma/process/peer.h"
#include "common/softrdma/process/service.h"
#include "common/softrdma/datagram/ud.h"
#include "common/softrdma/process/wire.h"

struct soft_process soft_process;

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

void soft_kick(int fd)
{
	uint64_t one = 1;
	ssize_t n = write(fd, &one, sizeof(one));

	(void)n; /* EAGAIN: it has been kicked 2^64 times already */
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&process_lock);
	soft_peers_fork_lock();
	soft_ud_fork_lock();
}

static void fork_parent(void)
{
	soft_ud_fork_unlock();
	soft_peers_fork_unlock();
	pthread_mutex_unlock(&process_lock);
}

/* The child has no arena (it was not inherited) and no service thread: it starts from nothing. */
static void fork_child(void)
{
	uint32_t epoch = soft_process.epoch + 1;

	if (soft_process.users) {
		soft_service_fork_child();
		close(soft_process.listen_fd);
		close(soft_process.kick_fd);
		close(soft_process.arena.fd);
	}
	soft_ud_fork_child();
	soft_peers_fork_child();
	soft_files_fork_child();
	soft_channels_fork_child();
	soft_contexts_fork_child();
	memset(&soft_process, 0, sizeof(soft_process));
	soft_process.epoch = epoch;
	pthread_mutex_unlock(&process_lock);
}

static void fork_setup(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static void process_ids_destroy(void)
{
	soft_ids_destroy(&soft_process.qp_ids);
	soft_ids_destroy(&soft_process.mr_ids);
	soft_ids_destroy(&soft_process.cq_ids);
	soft_ids_destroy(&soft_process.srq_ids);
}

/*
 * QP numbers and keys carry few bits of generation, so their indices are reused late. QP numbers 0
 * and 1 mean something else on hardware, and key 0 is no key.
 */
static int process_ids_init(void)
{
	if (soft_ids_init(&soft_process.qp_ids, 2, SHARED_QPS, SHARED_QPS) < 0 ||
	    soft_ids_init(&soft_process.mr_ids, 1, SHARED_MRS, 256) < 0 ||
	    soft_ids_init(&soft_process.cq_ids, 0, SHARED_CQS, 1) < 0 ||
	    soft_ids_init(&soft_process.srq_ids, 0, SHARED_SRQS, 1) < 0) {
		process_ids_destroy();
		return -ENOMEM;
	}
	return 0;
}

/* Costs something only where it is touched. A forked child has no business in it. */
static int process_mrs_init(void)
{
	size_t size = SHARED_MRS * sizeof(*soft_process.mrs);
	void *mrs = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mrs == MAP_FAILED)
		return -errno;
	madvise(mrs, size, MADV_DONTFORK);
	soft_process.mrs = mrs;
	return 0;
}

static void process_mrs_destroy(void)
{
	munmap(soft_process.mrs, SHARED_MRS * sizeof(*soft_process.mrs));
	soft_process.mrs = NULL;
}

static int process_start(void)
{
	int rc = soft_fates_start();

	if (rc < 0)
		return rc;
	rc = soft_wire_claim(&soft_process.slot);
	if (rc == -EUSERS)
		fprintf(stderr,
			"softrdma: %d processes have soft0 open, more cannot: end some of them\n",
			SHARED_SLOTS);
	if (rc < 0)
		return rc;
	soft_process.listen_fd = rc;
	rc = soft_arena_create(&soft_process.arena, soft_process.slot);
	if (rc < 0)
		goto err_listen;
	soft_process.incarnation = own_arena()->incarnation;
	soft_process.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (soft_process.kick_fd < 0) {
		rc = -errno;
		goto err_arena;
	}
	rc = process_ids_init();
	if (rc < 0)
		goto err_kick;
	rc = process_mrs_init();
	if (rc < 0)
		goto err_ids;
	rc = soft_peers_start();
	if (rc < 0)
		goto err_mrs;
	rc = soft_service_start();
	if (rc < 0)
		goto err_peers;
	/* With Yama, peers of the same user may copy only if we say so. Without it, an error. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	return 0;

err_peers:
	soft_peers_stop();
err_mrs:
	process_mrs_destroy();
err_ids:
	process_ids_destroy();
err_kick:
	close(soft_process.kick_fd);
err_arena:
	soft_arena_destroy(&soft_process.arena);
err_listen:
	close(soft_process.listen_fd);
	return rc;
}

int soft_process_get(void)
{
	int rc = 0;

	pthread_once(&fork_once, fork_setup);
	pthread_mutex_lock(&process_lock);
	if (soft_process.users == 0)
		rc = process_start();
	if (rc == 0)
		soft_process.users++;
	pthread_mutex_unlock(&process_lock);
	return rc;
}

void soft_process_put(void)
{
	pthread_mutex_lock(&process_lock);
	if (--soft_process.users == 0) {
		soft_service_stop();
		soft_peers_stop();
		close(soft_process.epoll_fd);
		process_mrs_destroy();
		process_ids_destroy();
		close(soft_process.listen_fd);
		close(soft_process.kick_fd);
		soft_arena_destroy(&soft_process.arena);
		soft_process.qps_end = 0;
	}
	pthread_mutex_unlock(&process_lock);
}
