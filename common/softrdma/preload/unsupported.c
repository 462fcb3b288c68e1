/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What soft0 does not have, in the way in which each function says so. Functions that verbs.h has
 * as inline code (flows, memory windows, XRC, device memory) find no operation in the context and
 * say EOPNOTSUPP by themselves.
 */
#include <errno.h>

#include "common/softrdma/preload/real.h"

/* clang-format off */
SOFT_CHOICE(int, attach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid),
	(qp, gid, lid), qp->context, soft_refuse(), ENOSYS)
SOFT_CHOICE(int, detach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid),
	(qp, gid, lid), qp->context, soft_refuse(), ENOSYS)
SOFT_CHOICE(int, set_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece), qp->context,
	soft_refuse(), ENOSYS)
SOFT_CHOICE(int, query_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece), qp->context,
	soft_refuse(), ENOSYS)
SOFT_CHOICE(struct ibv_mr *, reg_dmabuf_mr,
	(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access),
	(pd, offset, length, iova, fd, access), pd->context, soft_refuse_pointer(), NULL)
SOFT_CHOICE(struct ibv_pd *, import_pd, (struct ibv_context *context, uint32_t handle),
	(context, handle), context, soft_refuse_pointer(), NULL)
SOFT_CHOICE(struct ibv_mr *, import_mr, (struct ibv_pd *pd, uint32_t handle), (pd, handle),
	pd->context, soft_refuse_pointer(), NULL)
SOFT_CHOICE(struct ibv_dm *, import_dm, (struct ibv_context *context, uint32_t handle),
	(context, handle), context, soft_refuse_pointer(), NULL)
/* Negative here, unlike everywhere else: so does the real one. */
SOFT_CHOICE(int, resolve_eth_l2_from_gid,
	(struct ibv_context *context, struct ibv_ah_attr *attr,
	uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid),
	(context, attr, eth_mac, vid), context, -soft_refuse(), -ENOSYS)
/* clang-format on */

/* Nothing of soft0 was ever imported: there is nothing to undo. */
SOFT_EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	if (!soft_ours(pd->context))
		SOFT_FORWARD((void)0, ibv_unimport_pd, pd);
}

SOFT_EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	if (!soft_ours(mr->context))
		SOFT_FORWARD((void)0, ibv_unimport_mr, mr);
}

SOFT_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	if (!soft_ours(dm->context))
		SOFT_FORWARD((void)0, ibv_unimport_dm, dm);
}
