/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/path/look.h"

#include "common/base/mutant.h"
#include "common/softrdma/path/execute.h"

int soft_look_again(struct soft_qp *qp, const struct soft_found *found)
{
	/* pairs with the owner's full fence, see fence.c: the copy before the look */
	fence_full();
	if (MUTANT(no_second_look))
		return IBV_WC_SUCCESS;
	if (peer_dead(qp->peer) || !soft_responder_same(qp, found->qp))
		return IBV_WC_RETRY_EXC_ERR;
	for (unsigned i = 0; i < found->regions; i++) {
		if (atomic_load(&found->region[i].mr->word) != found->region[i].word)
			return found->refused;
	}
	return IBV_WC_SUCCESS;
}

int soft_busy_given_up(struct soft_qp *qp, uint64_t busy, const struct soft_found *found, int rc)
{
	if (rc == IBV_WC_SUCCESS) {
		rc = soft_look_again(qp, found);
		if (rc == IBV_WC_REM_ACCESS_ERR)
			soft_remote_fail(qp, IBV_EVENT_QP_ACCESS_ERR);
		else if (rc != IBV_WC_SUCCESS)
			soft_remote_fail(qp, -1);
	}
	/* release: pairs with the acquire in fence_wait() */
	atomic_store_explicit(&qp->shared->busy, busy - BUSY_RUNS + BUSY_STEP,
			      memory_order_release);
	return rc;
}
