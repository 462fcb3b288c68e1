/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The state machine of a queue pair, as IBTA's tables for modify QP and the kernel's
 * ib_modify_qp_is_ok() have it. Two things follow the kernel where IBTA is vague: a QP in RESET
 * cannot go to ERR, and what is not listed is refused, not ignored. Alternate paths are listed,
 * because they are allowed there, and refused in another way: soft0 has no path migration.
 */
#include "common/softrdma/objects/transition.h"

#include <errno.h>

enum { RC = 1, UC = 2, UD = 4, ALL = RC | UC | UD };

#define MIGRATION (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)
#define PLACE	  (IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define PATH	  (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RETRIES	  (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)
/* of a QP that sends or is about to */
#define RUN_UD (IBV_QP_CUR_STATE | IBV_QP_QKEY)
#define RUN_UC (IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | MIGRATION)
#define RUN_RC (RUN_UC | IBV_QP_MIN_RNR_TIMER)

static const struct transition {
	unsigned services;
	enum ibv_qp_state from, to;
	int needs, takes;
} transitions[] = {
	{ RC | UC, IBV_QPS_RESET, IBV_QPS_INIT, PLACE | IBV_QP_ACCESS_FLAGS, 0 },
	{ UD, IBV_QPS_RESET, IBV_QPS_INIT, PLACE | IBV_QP_QKEY, 0 },

	{ RC | UC, IBV_QPS_INIT, IBV_QPS_INIT, 0, PLACE | IBV_QP_ACCESS_FLAGS },
	{ UD, IBV_QPS_INIT, IBV_QPS_INIT, 0, PLACE | IBV_QP_QKEY },

	{ RC, IBV_QPS_INIT, IBV_QPS_RTR, PATH | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ UC, IBV_QPS_INIT, IBV_QPS_RTR, PATH,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },

	{ RC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN | RETRIES, RUN_RC },
	{ UC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, RUN_UC },
	{ UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, RUN_UD },

	{ RC, IBV_QPS_RTS, IBV_QPS_RTS, 0, RUN_RC },
	{ UC, IBV_QPS_RTS, IBV_QPS_RTS, 0, RUN_UC },
	{ UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, RUN_UD },

	{ ALL, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },

	{ RC, IBV_QPS_SQD, IBV_QPS_RTS, 0, RUN_RC },
	{ UC, IBV_QPS_SQD, IBV_QPS_RTS, 0, RUN_UC },
	{ UD, IBV_QPS_SQD, IBV_QPS_RTS, 0, RUN_UD },

	{ RC, IBV_QPS_SQD, IBV_QPS_SQD, 0,
	  PLACE | IBV_QP_AV | RETRIES | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS |
		  IBV_QP_MIN_RNR_TIMER | MIGRATION },
	{ UC, IBV_QPS_SQD, IBV_QPS_SQD, 0,
	  IBV_QP_PKEY_INDEX | IBV_QP_AV | IBV_QP_ACCESS_FLAGS | MIGRATION },
	{ UD, IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },

	{ UC, IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS },
	{ UD, IBV_QPS_SQE, IBV_QPS_RTS, 0, RUN_UD },
};

static unsigned service(enum ibv_qp_type type)
{
	return type == IBV_QPT_UD ? UD : type == IBV_QPT_UC ? UC : RC;
}

int soft_transition_check(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
			  int mask)
{
	mask &= ~IBV_QP_STATE;
	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return mask ? EINVAL : 0;
	for (unsigned i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		const struct transition *t = &transitions[i];

		if (t->from != from || t->to != to || !(t->services & service(type)))
			continue;
		if ((mask & t->needs) != t->needs || (mask & ~(t->needs | t->takes)))
			return EINVAL;
		return mask & MIGRATION ? EOPNOTSUPP : 0;
	}
	return EINVAL;
}
