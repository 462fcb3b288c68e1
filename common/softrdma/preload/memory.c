/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What stands for functions of protection domains, memory regions and address handles. */
#include <errno.h>

#include "common/softrdma/preload/real.h"

/* These are macros as well, over functions that choose between the ones below. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* clang-format off */
SOFT_FUNCTION(struct ibv_pd *, alloc_pd, (struct ibv_context *context), (context), context, NULL)
SOFT_FUNCTION(int, dealloc_pd, (struct ibv_pd *pd), (pd), pd->context, ENOSYS)
SOFT_CHOICE(struct ibv_mr *, reg_mr, (struct ibv_pd *pd, void *addr, size_t length, int access),
	(pd, addr, length, access), pd->context,
	softrdma_reg_mr(pd, addr, length, (unsigned int)access), NULL)
SOFT_CHOICE(struct ibv_mr *, reg_mr_iova,
	(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access),
	(pd, addr, length, iova, access), pd->context,
	softrdma_reg_mr_iova(pd, addr, length, iova, (unsigned int)access), NULL)
SOFT_CHOICE(struct ibv_mr *, reg_mr_iova2,
	(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access),
	(pd, addr, length, iova, access), pd->context,
	softrdma_reg_mr_iova(pd, addr, length, iova, access), NULL)
SOFT_FUNCTION(int, rereg_mr,
	(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access),
	(mr, flags, pd, addr, length, access), mr->context, IBV_REREG_MR_ERR_INPUT)
SOFT_FUNCTION(int, dereg_mr, (struct ibv_mr *mr), (mr), mr->context, ENOSYS)
SOFT_FUNCTION(struct ibv_ah *, create_ah, (struct ibv_pd *pd, struct ibv_ah_attr *attr), (pd, attr),
	pd->context, NULL)
SOFT_FUNCTION(int, init_ah_from_wc,
	(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
	struct ibv_ah_attr *attr),
	(context, port, wc, grh, attr), context, -1)
SOFT_FUNCTION(struct ibv_ah *, create_ah_from_wc,
	(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port),
	(pd, wc, grh, port), pd->context, NULL)
SOFT_FUNCTION(int, destroy_ah, (struct ibv_ah *ah), (ah), ah->context, ENOSYS)
/* clang-format on */
