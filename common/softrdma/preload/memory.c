/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What stands for functions of protection domains, memory regions and address handles. */
#include <errno.h>

#include "common/softrdma/preload/real.h"

/* These are macros as well, over functions that choose between the ones below. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

SOFT_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	if (soft_ours(context))
		return softrdma_alloc_pd(context);
	return SOFT_FORWARD(NULL, ibv_alloc_pd, context);
}

SOFT_EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	if (soft_ours(pd->context))
		return softrdma_dealloc_pd(pd);
	return SOFT_FORWARD(ENOSYS, ibv_dealloc_pd, pd);
}

SOFT_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (soft_ours(pd->context))
		return softrdma_reg_mr(pd, addr, length, (unsigned int)access);
	return SOFT_FORWARD(NULL, ibv_reg_mr, pd, addr, length, access);
}

SOFT_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
					   uint64_t iova, int access)
{
	if (soft_ours(pd->context))
		return softrdma_reg_mr_iova(pd, addr, length, iova, (unsigned int)access);
	return SOFT_FORWARD(NULL, ibv_reg_mr_iova, pd, addr, length, iova, access);
}

SOFT_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
					    uint64_t iova, unsigned int access)
{
	if (soft_ours(pd->context))
		return softrdma_reg_mr_iova(pd, addr, length, iova, access);
	return SOFT_FORWARD(NULL, ibv_reg_mr_iova2, pd, addr, length, iova, access);
}

SOFT_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
			     size_t length, int access)
{
	if (soft_ours(mr->context))
		return softrdma_rereg_mr(mr, flags, pd, addr, length, access);
	return SOFT_FORWARD(IBV_REREG_MR_ERR_INPUT, ibv_rereg_mr, mr, flags, pd, addr, length,
			    access);
}

SOFT_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	if (soft_ours(mr->context))
		return softrdma_dereg_mr(mr);
	return SOFT_FORWARD(ENOSYS, ibv_dereg_mr, mr);
}

SOFT_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	if (soft_ours(pd->context))
		return softrdma_create_ah(pd, attr);
	return SOFT_FORWARD(NULL, ibv_create_ah, pd, attr);
}

SOFT_EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
				    struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	if (soft_ours(context))
		return softrdma_init_ah_from_wc(context, port, wc, grh, attr);
	return SOFT_FORWARD(-1, ibv_init_ah_from_wc, context, port, wc, grh, attr);
}

SOFT_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
						 struct ibv_grh *grh, uint8_t port)
{
	if (soft_ours(pd->context))
		return softrdma_create_ah_from_wc(pd, wc, grh, port);
	return SOFT_FORWARD(NULL, ibv_create_ah_from_wc, pd, wc, grh, port);
}

SOFT_EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	if (soft_ours(ah->context))
		return softrdma_destroy_ah(ah);
	return SOFT_FORWARD(ENOSYS, ibv_destroy_ah, ah);
}
