/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What soft0 does not have, in the way in which each function says so. Functions that verbs.h has
 * as inline code (flows, memory windows, XRC, device memory) find no operation in the context and
 * say EOPNOTSUPP by themselves.
 */
#include <errno.h>

#include "common/softrdma/preload/real.h"

SOFT_EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	if (soft_ours(qp->context))
		return soft_refuse();
	return SOFT_FORWARD(ENOSYS, ibv_attach_mcast, qp, gid, lid);
}

SOFT_EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	if (soft_ours(qp->context))
		return soft_refuse();
	return SOFT_FORWARD(ENOSYS, ibv_detach_mcast, qp, gid, lid);
}

SOFT_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (soft_ours(qp->context))
		return soft_refuse();
	return SOFT_FORWARD(ENOSYS, ibv_set_ece, qp, ece);
}

SOFT_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (soft_ours(qp->context))
		return soft_refuse();
	return SOFT_FORWARD(ENOSYS, ibv_query_ece, qp, ece);
}

SOFT_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					     uint64_t iova, int fd, int access)
{
	if (soft_ours(pd->context))
		return soft_refuse_pointer();
	return SOFT_FORWARD(NULL, ibv_reg_dmabuf_mr, pd, offset, length, iova, fd, access);
}

SOFT_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	if (soft_ours(context))
		return soft_refuse_pointer();
	return SOFT_FORWARD(NULL, ibv_import_pd, context, handle);
}

/* Nothing of soft0 was ever imported: there is nothing to undo. */
SOFT_EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	if (!soft_ours(pd->context))
		SOFT_FORWARD((void)0, ibv_unimport_pd, pd);
}

SOFT_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	if (soft_ours(pd->context))
		return soft_refuse_pointer();
	return SOFT_FORWARD(NULL, ibv_import_mr, pd, handle);
}

SOFT_EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	if (!soft_ours(mr->context))
		SOFT_FORWARD((void)0, ibv_unimport_mr, mr);
}

SOFT_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	if (soft_ours(context))
		return soft_refuse_pointer();
	return SOFT_FORWARD(NULL, ibv_import_dm, context, handle);
}

SOFT_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	if (!soft_ours(dm->context))
		SOFT_FORWARD((void)0, ibv_unimport_dm, dm);
}

/* Negative here, unlike everywhere else: so does the real one. */
SOFT_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
					    uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	if (soft_ours(context))
		return -soft_refuse();
	return SOFT_FORWARD(-ENOSYS, ibv_resolve_eth_l2_from_gid, context, attr, eth_mac, vid);
}
