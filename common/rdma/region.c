/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/rdma/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/log.h"

static void memlock_words(char *text, size_t cap)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		snprintf(text, cap, "unlimited");
	else
		snprintf(text, cap, "%llu KiB", (unsigned long long)limit.rlim_cur >> 10);
}

/* What to do about it, where it is a limit of files. */
static const char *files_words(int rc)
{
	return rc == EMFILE || rc == -EMFILE ? " (raise the limit of open files with ulimit -n)"
					     : "";
}

static int registration_failed(const struct rdma_device *dev, size_t len, const char *what, int rc,
			       struct error *err)
{
	const char *spare = dev->options.spare;
	char limit[32];

	memlock_words(limit, sizeof(limit));
	if (rc == -ENOMEM || rc == -EAGAIN)
		return error_set(
			err, rc,
			"ibv_reg_mr of %s (%zu KiB) on %s failed: %s; RLIMIT_MEMLOCK is "
			"%s: raise it with 'ulimit -l unlimited', LimitMEMLOCK=infinity in "
			"the systemd unit or a memlock line in /etc/security/limits.conf%s%s",
			what, (len + 1023) >> 10, dev->name, error_name(rc), limit,
			spare ? ", or " : "", spare ? spare : "");
	return error_set(err, rc, "ibv_reg_mr of %s (%zu KiB) on %s failed: %s%s", what,
			 (len + 1023) >> 10, dev->name, error_name(rc), files_words(rc));
}

int rdma_region_register(const struct rdma_device *dev, void *addr, size_t len, unsigned access,
			 const char *what, struct rdma_region *out, struct error *err)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = dev->ops->reg_mr(dev->pd, addr, len, access);
	if (!mr)
		return registration_failed(dev, len, what, errno ? -errno : -EIO, err);
	*out = (struct rdma_region){
		.mr = mr,
		.addr = addr,
		.len = len,
		.lkey = mr->lkey,
		.rkey = mr->rkey,
		.dev = dev,
	};
	return 0;
}

int rdma_region_unregister(struct rdma_region *region)
{
	int rc = region->mr ? -region->dev->ops->dereg_mr(region->mr) : 0;

	if (rc)
		log_error("rdma", "ibv_dereg_mr on %s failed: %s (the peer may still have access)",
			  region->dev->name, error_name(rc));
	else
		memset(region, 0, sizeof(*region));
	return rc;
}

int rdma_buffer_create(const struct rdma_device *dev, size_t len, unsigned access, const char *what,
		       struct rdma_buffer *out, struct error *err)
{
	autoclose int fd = memfd_create("gracekv-buffer", MFD_CLOEXEC);
	void *addr;
	int rc;

	len = (len + 4095) & ~(size_t)4095;
	rc = fd < 0			 ? errno
	     : ftruncate(fd, (off_t)len) ? errno
					 : -posix_fallocate(fd, 0, (off_t)len);
	if (rc)
		return error_set(err, rc < 0 ? rc : -rc, "memory for %s (%zu KiB) failed: %s%s",
				 what, len >> 10, error_name(rc), files_words(rc));
	addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (addr == MAP_FAILED)
		return error_set(err, -errno, "mmap of %s (%zu KiB) failed: %s", what, len >> 10,
				 error_name(errno));
	rc = rdma_region_register(dev, addr, len, access, what, &out->region, err);
	if (rc) {
		munmap(addr, len);
		return rc;
	}
	out->addr = addr;
	out->len = len;
	out->fd = cleanup_take_fd(&fd);
	return 0;
}

int rdma_buffer_destroy(struct rdma_buffer *buffer)
{
	int rc;

	if (!buffer->addr)
		return 0;
	rc = rdma_region_unregister(&buffer->region);
	if (rc == 0)
		munmap(buffer->addr, buffer->len);
	close(buffer->fd);
	memset(buffer, 0, sizeof(*buffer));
	return rc;
}
