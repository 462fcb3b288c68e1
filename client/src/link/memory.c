/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/link/memory.h"

#include <errno.h>

#include "client/src/link/device.h"

int memory_use(struct gkv_memory *m, const struct gkv_session *s, const void *addr, size_t len,
	       uint32_t *lkey, struct error *err)
{
	uintptr_t start, at = (uintptr_t)addr;

	if (!m)
		return error_set(err, -EINVAL,
				 "there is no memory (register it with gkv_memory_register())");
	if (m->session != s)
		return error_set(err, -EINVAL, "the memory was registered with another session");
	start = (uintptr_t)m->region.addr;
	if (len && (at < start || at - start > m->region.len || len > m->region.len - (at - start)))
		return error_set(err, -EINVAL,
				 "the place for the value, %zu bytes at %p, is not within the "
				 "memory that it names, %zu bytes at %p",
				 len, addr, m->region.len, m->region.addr);
	/* relaxed: the caller that releases it must know that no operation begins any more */
	atomic_fetch_add_explicit(&m->in_use, 1, memory_order_relaxed);
	*lkey = m->region.lkey;
	return 0;
}

void memory_done(struct gkv_memory *m)
{
	/* release: see gkv_memory_release() */
	atomic_fetch_sub_explicit(&m->in_use, 1, memory_order_release);
}

int memory_aim(struct gkv_memory *m, const struct gkv_session *s, struct lookup *l,
	       struct error *err)
{
	uintptr_t key = (uintptr_t)l->key, dest = (uintptr_t)l->dest;
	int rc = memory_use(m, s, l->dest, l->cap, &l->dest_lkey, err);

	if (rc)
		return rc;
	if (l->cap && key < dest + l->cap && dest < key + l->key_len) {
		memory_done(m);
		return error_set(err, -EINVAL,
				 "the key lies in the place for the value (keep it elsewhere while "
				 "the call runs)");
	}
	l->direct = memory_direct(m->device->rdma);
	l->dest_device = m->device;
	return 0;
}
