/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Registration fills an entry of the arena's table and publishes it with its key; deregistration
 * takes the key back and then waits for those who may still be writing (fence.c). lkey and rkey are
 * the same number: index of the entry and its generation.
 */
#include "common/softrdma/mr.h"

#include <errno.h>
#include <stdlib.h>

#include "common/softrdma/context.h"
#include "common/softrdma/fault.h"
#include "common/softrdma/fence.h"
#include "common/softrdma/softrdma.h"

#define ACCESS_WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
/* Relaxed ordering and huge pages are hints. */
#define ACCESS_KNOWN                                                                              \
	(ACCESS_WRITES | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_HUGETLB | \
	 IBV_ACCESS_OPTIONAL_RANGE)

struct ibv_pd *softrdma_alloc_pd(struct ibv_context *context)
{
	struct soft_pd *pd;

	if (!process_alive(soft_context(context)->epoch)) {
		errno = EINVAL;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->base.context = context;
	pd->epoch = soft_process.epoch;
	pd->id = atomic_fetch_add(&soft_process.next_pd, 1);
	pd->base.handle = pd->id;
	atomic_fetch_add(&soft_context(context)->objects, 1);
	return &pd->base;
}

int softrdma_dealloc_pd(struct ibv_pd *base)
{
	struct soft_pd *pd = soft_pd(base);

	if (!process_alive(pd->epoch))
		return EINVAL;
	if (atomic_load(&pd->users))
		return EBUSY;
	atomic_fetch_sub(&soft_context(base->context)->objects, 1);
	free(pd);
	return 0;
}

static int mr_check(uint64_t addr, uint64_t length, unsigned access)
{
	if (!length || addr + length < addr || (access & ~(unsigned)ACCESS_KNOWN))
		return EINVAL;
	/* As the kernel wants it: who lets peers write must let itself write. */
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return soft_fault(FAULT_REG_MR);
}

static void mr_publish(struct soft_mr *mr, unsigned access, uint32_t pd)
{
	struct shared_mr *shared = &own_arena()->mr[mr->index];
	uint32_t key = mr_key(mr->index, ++shared->generation);

	atomic_store_explicit(&shared->addr, (uintptr_t)mr->base.addr, memory_order_relaxed);
	atomic_store_explicit(&shared->length, mr->base.length, memory_order_relaxed);
	atomic_store_explicit(&shared->access, access, memory_order_relaxed);
	atomic_store_explicit(&shared->pd, pd, memory_order_relaxed);
	atomic_store_explicit(&shared->map_id, mr->file.id, memory_order_relaxed);
	atomic_store_explicit(&shared->map_offset, mr->file.offset, memory_order_relaxed);
	atomic_store_explicit(&shared->map_index, mr->file.index, memory_order_relaxed);
	/* release: pairs with the acquire in mr_covers() */
	atomic_store_explicit(&shared->word, key, memory_order_release);
	mr->base.lkey = mr->base.rkey = key;
	mr->base.handle = mr->index;
}

struct ibv_mr *softrdma_reg_mr(struct ibv_pd *base, void *addr, size_t length, unsigned int access)
{
	struct soft_pd *pd = soft_pd(base);
	struct soft_mr *mr;
	int rc = process_alive(pd->epoch) ? mr_check((uintptr_t)addr, length, access) : EINVAL;

	if (rc) {
		errno = rc;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	rc = -soft_file_find((uintptr_t)addr, length, access & ACCESS_WRITES, &mr->file);
	if (rc)
		goto err_mr;
	mr->index = soft_ids_take(&soft_process.mr_ids);
	if (mr->index == SHARED_NONE) {
		rc = ENOMEM;
		goto err_file;
	}
	mr->epoch = pd->epoch;
	mr->written = access & ACCESS_WRITES;
	mr->base.context = base->context;
	mr->base.pd = base;
	mr->base.addr = addr;
	mr->base.length = length;
	atomic_fetch_add(&pd->users, 1);
	mr_publish(mr, access, pd->id);
	return &mr->base;

err_file:
	soft_file_put(&mr->file);
err_mr:
	free(mr);
	errno = rc;
	return NULL;
}

int softrdma_dereg_mr(struct ibv_mr *base)
{
	struct soft_mr *mr = (struct soft_mr *)base;

	if (!process_alive(mr->epoch))
		return EINVAL;
	/* seq_cst and a full fence: pair with execute.c, see fence.c */
	atomic_exchange(&own_arena()->mr[mr->index].word, 0);
	fence_full();
	soft_fence_all(mr->written);
	soft_file_put(&mr->file);
	soft_ids_give(&soft_process.mr_ids, mr->index);
	atomic_fetch_sub(&soft_pd(base->pd)->users, 1);
	free(mr);
	return 0;
}
