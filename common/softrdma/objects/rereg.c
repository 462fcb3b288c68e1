/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Changing a region: the old key is taken back and fenced as in dereg_mr, then the entry is filled
 * in again and published with the next key. In between neither key is valid. Whatever can fail
 * comes first, so a call that fails leaves the region as it was: it returns IBV_REREG_MR_ERR_INPUT,
 * as verbs define, and sets errno.
 */
#include <errno.h>

#include "common/softrdma/objects/mr.h"
#include "common/softrdma/softrdma.h"

static int rereg_check(const struct soft_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		       size_t length, int access)
{
	if (!process_alive(mr->epoch) || !flags || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED))
		return EINVAL;
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || !length))
		return EINVAL;
	if ((flags & IBV_REREG_MR_CHANGE_PD) && (!pd || pd->context != mr->base.context))
		return EINVAL;
	return access && !(flags & IBV_REREG_MR_CHANGE_ACCESS) ? EINVAL : 0;
}

static int rereg_failed(int code)
{
	errno = code;
	return IBV_REREG_MR_ERR_INPUT;
}

int softrdma_rereg_mr(struct ibv_mr *base, int flags, struct ibv_pd *pd, void *addr, size_t length,
		      int access)
{
	struct soft_mr *mr = (struct soft_mr *)base, now;
	int rc = rereg_check(mr, flags, pd, addr, length, access);

	if (rc)
		return rereg_failed(rc);
	now = *mr;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		now.base.addr = addr;
		now.base.length = length;
		now.iova = (uintptr_t)addr;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		now.base.pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		now.access = (unsigned)access;
	rc = soft_mr_check((uintptr_t)now.base.addr, now.iova, now.base.length, now.access);
	if (rc == 0) /* also where only the access changes: it may be the first to write */
		rc = -soft_file_find((uintptr_t)now.base.addr, now.base.length,
				     mr_written(now.access), &now.file);
	if (rc)
		return rereg_failed(rc);
	soft_mr_withdraw(mr);
	soft_file_put(&mr->file);
	if (now.base.pd != base->pd) {
		atomic_fetch_add(&soft_pd(now.base.pd)->users, 1);
		atomic_fetch_sub(&soft_pd(base->pd)->users, 1);
	}
	*mr = now;
	soft_mr_publish(mr);
	return 0;
}
