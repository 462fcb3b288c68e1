/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Memory of the application's that values are READ to, without a copy.
 *
 * A registration belongs to a device and its protection domain: it outlives queue pairs and
 * connections. After that device has failed (device.c) values are copied to the memory. It keeps
 * the session from being freed, as a handle does, and its device from being closed.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "client/src/know/lookup.h"
#include "client/src/link/session.h"
#include "common/rdma/region.h"

struct gkv_memory {
	struct gkv_session *session;
	struct session_device *device; /* that it is registered on */
	struct rdma_region region;
	_Atomic unsigned in_use; /* operations that name it: no release */
};

/*
 * memory_direct - whether READs on the device can be scattered as look-ups want it. Where not,
 * values are copied to registered memory as they are to any other.
 */
static inline bool memory_direct(const struct rdma_device *dev)
{
	return rdma_read_pieces(dev) >= READ_PIECES;
}

/*
 * memory_use - an operation of a handle of @s is about to READ @len bytes at @addr, and names the
 * memory until memory_done(). Any thread.
 * @lkey: receives the key to put beside the address.
 * Returns 0; -EINVAL, with a sentence: memory is NULL or another session's, or they do not lie in
 * it. Where @len is 0 @addr is not looked at.
 */
int memory_use(struct gkv_memory *memory, const struct gkv_session *s, const void *addr, size_t len,
	       uint32_t *lkey, struct error *err);

/*
 * memory_done - the operation has ended: its READs have completed, or their queue pair was
 * destroyed. Pairs with gkv_memory_release(): release.
 */
void memory_done(struct gkv_memory *memory);

/*
 * memory_aim - memory_use() for a look-up whose key, key_len, dest and cap are set: sets what makes
 * it direct, where the device can do that. -EINVAL also where the key lies in dest, since it is
 * compared when the value stands there.
 */
int memory_aim(struct gkv_memory *memory, const struct gkv_session *s, struct lookup *l,
	       struct error *err);
