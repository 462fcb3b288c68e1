/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Memory of the application's: registered, and let go. */
#include <errno.h>
#include <stdlib.h>

#include "client/src/call/session.h"
#include "client/src/link/memory.h"

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
	/* acquire pairs with memory_done(): nothing of the operation comes after the release */
	if (atomic_load_explicit(&m->in_use, memory_order_acquire))
		return -EBUSY;
	rdma_region_unregister(&m->region);
	free(m);
	session_release_memory(s);
	return 0;
}
