/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Memory of the application's: registered, and let go. */
#include <errno.h>
#include <stdlib.h>

#include "client/src/call/session.h"
#include "client/src/link/device.h"
#include "client/src/link/memory.h"

/* Returns a negative errno with the sentence, or 0. */
static int memory_register(struct gkv_session *s, void *addr, size_t bytes, struct gkv_memory **out,
			   struct error *err)
{
	struct gkv_memory *m;
	int rc;

	if (!addr || bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)addr)
		return error_set(err, -EINVAL, "there is no memory of %zu bytes at %p to register",
				 bytes, addr);
	m = calloc(1, sizeof(*m));
	if (!m)
		return error_set(err, -ENOMEM, "out of memory for a registration");
	m->session = s;
	m->device = session_device_get(s);
	if (!m->device) {
		free(m);
		return error_set(err, -ENODEV,
				 "the session's device has failed, and is not open again yet (try "
				 "again when a call of a handle has gone well)");
	}
	rc = rdma_region_register(m->device->rdma, addr, bytes, IBV_ACCESS_LOCAL_WRITE,
				  "the application's memory", &m->region, err);
	if (rc) {
		session_device_put(s, m->device);
		free(m);
		/* -EAGAIN: RLIMIT_MEMLOCK too; -EFAULT: not mapped, or may not be written */
		return rc == -EAGAIN ? -ENOMEM : rc == -EFAULT ? -EINVAL : rc;
	}
	session_hold_memory(s);
	*out = m;
	return 0;
}

int gkv_memory_register(struct gkv_session *s, void *addr, size_t bytes, struct gkv_memory **out,
			char *why, size_t cap)
{
	struct error err = { 0 };
	int rc = session_usable(s, &err);

	if (out)
		*out = NULL;
	else if (rc == 0)
		rc = error_set(&err, -EINVAL, "the place for the registration (out) is NULL");
	if (rc == 0)
		rc = memory_register(s, addr, bytes, out, &err);
	return error_tell(&err, rc, why, cap);
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
	if (rdma_region_unregister(&m->region))
		return -EIO;
	session_device_put(s, m->device);
	free(m);
	session_release_memory(s);
	return 0;
}
