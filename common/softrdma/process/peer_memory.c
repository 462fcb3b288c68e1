/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Memory of a peer that is not mapped here, copied by the kernel. Two ways, which differ in how
 * they name the peer:
 *
 * process_vm_readv() names it by its pid. The peer may die, be reaped, and its pid be that of
 * another process before the call gets there. A READ looks after the copy whether the peer lives:
 * if it does, the pid was its own all the time. What was changed cannot be taken back by looking.
 *
 * So WRITE and SEND go through /proc/PID/mem, opened when the peer was connected to. The file
 * belongs to the address space and to no number: when the last process that uses it has ended, or
 * has executed another program, write() returns 0. That what was opened is the peer's is checked by
 * its contents: the random incarnation is read through the file, from the address that the arena
 * has in the peer, which no other process has in that place. (/proc may be of another pid
 * namespace, or the pid may have changed hands before the file was opened.)
 *
 * /proc/PID/mem overrides page protection where process_vm_writev() does not: a private mapping
 * that its owner has made read-only since it was registered as writable is changed nevertheless.
 * RDMA hardware does so too, since it holds on to the pages from registration on. Files do not
 * change by it (the kernel makes a private copy of the page) and neither does any other process.
 *
 * Where the file cannot be had (no /proc, hidepid) process_vm_writev() is used, after a look
 * whether the peer lives: between the two there is a window, of the kind described above.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "common/softrdma/process/peer.h"

int soft_peer_memory_open(const struct soft_peer *peer)
{
	off_t at = (off_t)(peer->arena->address + offsetof(struct shared_arena, incarnation));
	uint64_t incarnation = 0;
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/mem", (int)peer->pid);
	fd = open(name, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	/* Written back as it is: some kernels let one open the file and not write. */
	if (pread(fd, &incarnation, sizeof(incarnation), at) == sizeof(incarnation) &&
	    incarnation == peer->incarnation &&
	    pwrite(fd, &incarnation, sizeof(incarnation), at) == sizeof(incarnation))
		return fd;
	close(fd);
	return -1;
}

ssize_t soft_peer_read(const struct soft_peer *peer, const struct iovec *near, unsigned nears,
		       const struct iovec *far, unsigned fars)
{
	ssize_t done = process_vm_readv(peer->pid, near, nears, far, fars, 0);

	return done < 0 ? -errno : done ? done : -EFAULT;
}

ssize_t soft_peer_write(const struct soft_peer *peer, const struct iovec *near, unsigned nears,
			const struct iovec *far)
{
	ssize_t done;

	if (peer->memory_fd >= 0) {
		done = pwritev(peer->memory_fd, near, (int)nears, (off_t)(uintptr_t)far->iov_base);
		return done < 0 ? -errno : done ? done : -ESRCH;
	}
	done = process_vm_writev(peer->pid, near, nears, far, 1, 0);
	return done < 0 ? -errno : done ? done : -EFAULT;
}
