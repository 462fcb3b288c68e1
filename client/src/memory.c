/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/memory.h"

#include <errno.h>
#include <stdlib.h>

static int registration_failed(struct gkv_session *s, struct error *err)
{
	if (err->code == -EAGAIN)
		err->code = -ENOMEM; /* either is RLIMIT_MEMLOCK */
	else if (err->code == -EFAULT)
		err->code = -EINVAL; /* it is not mapped, or may not be written */
	session_failed(s, err);
	return err->code;
}

int gkv_memory_register(struct gkv_session *s, void *addr, size_t bytes, struct gkv_memory **out)
{
	struct error err = { 0 };
	struct gkv_memory *m;

	if (!s)
		return -EINVAL;
	if (session_foreign(s))
		return -EPERM;
	if (!out) {
		error_set(&err, -EINVAL, "the place for the registration (out) is NULL");
		return registration_failed(s, &err);
	}
	if (!addr || bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)addr) {
		error_set(&err, -EINVAL, "there is no memory of %zu bytes at %p to register", bytes,
			  addr);
		return registration_failed(s, &err);
	}
	m = calloc(1, sizeof(*m));
	if (!m) {
		error_set(&err, -ENOMEM, "out of memory for a registration");
		return registration_failed(s, &err);
	}
	m->session = s;
	if (rdma_region_register(s->dev, addr, bytes, IBV_ACCESS_LOCAL_WRITE,
				 "the application's memory", &m->region, &err)) {
		free(m);
		return registration_failed(s, &err);
	}
	session_hold_memory(s);
	*out = m;
	return 0;
}

int gkv_memory_release(struct gkv_memory *m)
{
	struct gkv_session *s;

	if (!m)
		return 0;
	s = m->session;
	if (session_foreign(s)) /* a child has nothing of its own in it */
		return -EPERM;
	/* acquire pairs with memory_done(): nothing of the operation comes behind the release */
	if (atomic_load_explicit(&m->in_use, memory_order_acquire))
		return -EBUSY;
	rdma_region_unregister(&m->region);
	free(m);
	session_release_memory(s);
	return 0;
}

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
	/* relaxed: who releases it must know by himself that no operation begins any more */
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
	l->direct = memory_direct(s->dev);
	return 0;
}
