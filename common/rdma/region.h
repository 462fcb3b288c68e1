/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Registered memory. */
#include <stddef.h>
#include <stdint.h>

#include "common/rdma/device.h"

struct rdma_region {
	struct ibv_mr *mr;
	void *addr;
	size_t len;
	uint32_t lkey, rkey;
	const struct rdma_device *dev;
};

/*
 * rdma_region_register - register @len bytes at @addr.
 * @access: IBV_ACCESS_ flags, without relaxed ordering: the protocols rest on order.
 * @what: names it in the error's sentence ("the root page").
 * Returns 0 or a negative errno; for -ENOMEM and -EAGAIN @err names RLIMIT_MEMLOCK, what to set,
 * and rdma_options.spare.
 * The memory stays the caller's and must outlive the region. Never on the data path.
 */
int rdma_region_register(const struct rdma_device *dev, void *addr, size_t len, unsigned access,
			 const char *what, struct rdma_region *out, struct error *err);

/*
 * rdma_region_unregister - no access by a device after it returned 0. A zeroed region is fine.
 * Returns a negative errno, which is logged, where the keys did not die: then the region is as it
 * was, and its memory must neither be used for something else nor be unmapped (I6).
 */
int rdma_region_unregister(struct rdma_region *region);

/*
 * rdma_buffer_create - page-aligned memory of at least @len bytes (a memfd, so that soft0 maps
 * it), registered.
 */
struct rdma_buffer {
	struct rdma_region region;
	void *addr;
	size_t len;
	int fd;
};

int rdma_buffer_create(const struct rdma_device *dev, size_t len, unsigned access, const char *what,
		       struct rdma_buffer *out, struct error *err);
/*
 * rdma_buffer_destroy - unregister and unmap it. A zeroed one is fine.
 * Returns a negative errno where its keys did not die: its memory stays mapped for as long as the
 * process lives, and nothing else will use it.
 */
int rdma_buffer_destroy(struct rdma_buffer *buffer);
