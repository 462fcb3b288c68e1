/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/ah.h"

#include <errno.h>
#include <stdlib.h>

#include "common/softrdma/context.h"
#include "common/softrdma/mr.h"
#include "common/softrdma/softrdma.h"

#define PORT 1

struct ibv_ah *softrdma_create_ah(struct ibv_pd *base, struct ibv_ah_attr *attr)
{
	struct soft_pd *pd = soft_pd(base);
	struct soft_ah *ah;

	if (!process_alive(pd->epoch) || attr->port_num != PORT || !attr->is_global ||
	    attr->grh.sgid_index >= SOFT_GIDS || !soft_gid_known(&attr->grh.dgid)) {
		errno = EINVAL;
		return NULL;
	}
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	ah->base.context = base->context;
	ah->base.pd = base;
	ah->epoch = pd->epoch;
	ah->attr = *attr;
	atomic_fetch_add(&pd->users, 1);
	return &ah->base;
}

int softrdma_destroy_ah(struct ibv_ah *base)
{
	struct soft_ah *ah = soft_ah(base);

	if (!process_alive(ah->epoch))
		return EINVAL;
	atomic_fetch_sub(&soft_pd(base->pd)->users, 1);
	free(ah);
	return 0;
}
