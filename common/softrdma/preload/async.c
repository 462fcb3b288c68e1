/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What stands for functions of asynchronous events. */
#include "common/softrdma/preload/real.h"

/* The context of what an event is about; NULL for a port or a device, which need no
 * acknowledging. */
static const struct ibv_context *event_context(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return event->element.cq->context;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return event->element.qp->context;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return event->element.srq->context;
	case IBV_EVENT_WQ_FATAL:
		return event->element.wq->context;
	default:
		return NULL;
	}
}

SOFT_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	if (soft_ours(context))
		return softrdma_get_async_event(context, event);
	return SOFT_FORWARD(-1, ibv_get_async_event, context, event);
}

SOFT_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	if (soft_ours(event_context(event)))
		softrdma_ack_async_event(event);
	else
		SOFT_FORWARD((void)0, ibv_ack_async_event, event);
}
