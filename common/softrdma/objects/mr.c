/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Registration fills an entry of the arena's table and publishes it with its key; deregistration
 * takes the key back and then waits for those who may still be writing (fence.c). lkey and rkey are
 * the same number: index of the entry and its generation.
 */
#include "common/softrdma/objects/mr.h"

#include <errno.h>
#include <stdlib.h>

#include "common/softrdma/device/context.h"
#include "common/softrdma/faults/fault.h"
#include "common/softrdma/path/fence.h"
#include "common/softrdma/softrdma.h"

/* Relaxed ordering and huge pages are hints. */
#define ACCESS_KNOWN                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)
/* What some hardware has. */
#define ACCESS_ELSEWHERE (IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND)

struct ibv_pd *softrdma_alloc_pd(struct ibv_context *context)
{
	struct soft_pd *pd;
	int rc = process_alive(soft_context(context)->epoch) ? soft_fault(context, FAULT_ALLOC_PD)
							     : EINVAL;

	if (rc) {
		errno = rc;
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

int soft_mr_check(uint64_t addr, uint64_t iova, uint64_t length, unsigned access)
{
	if (access & ~(unsigned)(ACCESS_KNOWN | ACCESS_ELSEWHERE))
		return EINVAL;
	if (access & ACCESS_ELSEWHERE)
		return EOPNOTSUPP;
	if (!length || addr + length < addr || iova + length < iova)
		return EINVAL;
	/* As the kernel wants it: remote write access needs local write access. */
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return 0;
}

static void mr_fill(struct shared_mr *shared, const struct soft_mr *mr, uint64_t word)
{
	atomic_store_explicit(&shared->addr, mr->iova, memory_order_relaxed);
	atomic_store_explicit(&shared->shift, (uintptr_t)mr->base.addr - mr->iova,
			      memory_order_relaxed);
	atomic_store_explicit(&shared->length, mr->base.length, memory_order_relaxed);
	atomic_store_explicit(&shared->access, mr->access, memory_order_relaxed);
	atomic_store_explicit(&shared->pd, soft_pd(mr->base.pd)->id, memory_order_relaxed);
	atomic_store_explicit(&shared->map_id, mr->file.id, memory_order_relaxed);
	atomic_store_explicit(&shared->map_offset, mr->file.offset, memory_order_relaxed);
	atomic_store_explicit(&shared->map_index, mr->file.index, memory_order_relaxed);
	/* release: pairs with the acquire in mr_covers() */
	atomic_store_explicit(&shared->word, word, memory_order_release);
}

void soft_mr_publish(struct soft_mr *mr)
{
	struct shared_mr *own = &soft_process.mrs[mr->index];
	uint32_t key = mr_key(mr->index, ++own->generation);
	uint64_t word = (uint64_t)own->generation << 32 | key;

	mr_fill(own, mr, word);
	mr_fill(&own_arena()->mr[mr->index], mr, word);
	mr->base.lkey = mr->base.rkey = key;
	mr->base.handle = mr->index;
}

void soft_mr_withdraw(struct soft_mr *mr)
{
	/* seq_cst and a full fence: pair with execute.c, see fence.c */
	atomic_exchange(&soft_process.mrs[mr->index].word, 0);
	atomic_exchange(&own_arena()->mr[mr->index].word, 0);
	fence_full();
	soft_fence_all(mr_written(mr->access));
}

struct ibv_mr *softrdma_reg_mr_iova(struct ibv_pd *base, void *addr, size_t length, uint64_t iova,
				    unsigned int access)
{
	struct soft_pd *pd = soft_pd(base);
	struct soft_mr *mr;
	int rc = process_alive(pd->epoch) ? soft_mr_check((uintptr_t)addr, iova, length, access)
					  : EINVAL;

	if (rc == 0)
		rc = soft_fault(base->context, FAULT_REG_MR);
	if (rc) {
		errno = rc;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	rc = -soft_file_find((uintptr_t)addr, length, mr_written(access), &mr->file);
	if (rc)
		goto err_mr;
	mr->index = soft_ids_take(&soft_process.mr_ids);
	if (mr->index == SHARED_NONE) {
		rc = ENOMEM;
		goto err_file;
	}
	mr->epoch = pd->epoch;
	mr->iova = iova;
	mr->access = access;
	mr->base.context = base->context;
	mr->base.pd = base;
	mr->base.addr = addr;
	mr->base.length = length;
	atomic_fetch_add(&pd->users, 1);
	soft_mr_publish(mr);
	return &mr->base;

err_file:
	soft_file_put(&mr->file);
err_mr:
	free(mr);
	errno = rc;
	return NULL;
}

struct ibv_mr *softrdma_reg_mr(struct ibv_pd *base, void *addr, size_t length, unsigned int access)
{
	return softrdma_reg_mr_iova(base, addr, length, (uintptr_t)addr, access);
}

int softrdma_dereg_mr(struct ibv_mr *base)
{
	struct soft_mr *mr = (struct soft_mr *)base;
	int rc;

	if (!process_alive(mr->epoch))
		return EINVAL;
	rc = soft_fault_lasting(base->context, FAULT_DEREG_MR, &mr->dereg_failed);
	if (rc)
		return rc;
	soft_mr_withdraw(mr);
	soft_file_put(&mr->file);
	soft_ids_give(&soft_process.mr_ids, mr->index);
	atomic_fetch_sub(&soft_pd(base->pd)->users, 1);
	free(mr);
	return 0;
}
