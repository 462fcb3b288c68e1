/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Does a device work at all? Two queue pairs of this process, connected to each other. */
#include "common/rdma/device.h"

#define LOOPBACK_BYTES 64u

/*
 * rdma_loopback_read - connect two RC queue pairs of @dev to each other, READ 64 bytes of a region
 * from one place into another, and compare.
 * @timeout_ms: for the READ; setting up is a few calls of the control path.
 * Returns 0; -ETIMEDOUT, -EIO: no completion, or a bad one; -EBADMSG: other bytes; what setting up
 * returned. @err says what failed and what to look at. Nothing is left behind.
 */
int rdma_loopback_read(const struct rdma_device *dev, unsigned timeout_ms, struct error *err);
