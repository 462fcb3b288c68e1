/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Asynchronous events: a list a context, and an eventfd that counts it, which is context->async_fd.
 * An object that dies takes its queued events along, so that the eventfd may count too many: a
 * reader that finds nothing waits again.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/softrdma/device/context.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/softrdma.h"

struct soft_async {
	struct soft_async *next;
	struct soft_async_count *count;
	struct ibv_async_event event;
};

void soft_async_raise(struct ibv_context *base, const struct ibv_async_event *event,
		      struct soft_async_count *count)
{
	struct soft_context *context = soft_context(base);
	struct soft_async *async = calloc(1, sizeof(*async));

	if (!async)
		return; /* as good as an event that nobody reads */
	async->event = *event;
	async->count = count;
	lock_take(&context->events_lock);
	*context->last = async;
	context->last = &async->next;
	lock_drop(&context->events_lock);
	soft_kick(base->async_fd);
}

uint32_t soft_async_retire(struct ibv_context *base, struct soft_async_count *count)
{
	struct soft_context *context = soft_context(base);
	struct soft_async **link, *async;
	uint32_t delivered;

	lock_take(&context->events_lock);
	for (link = &context->first; (async = *link) != NULL;) {
		if (async->count != count) {
			link = &async->next;
			continue;
		}
		*link = async->next;
		free(async);
	}
	context->last = link;
	delivered = count ? count->delivered : 0;
	lock_drop(&context->events_lock);
	return delivered;
}

int softrdma_get_async_event(struct ibv_context *base, struct ibv_async_event *event)
{
	struct soft_context *context = soft_context(base);
	struct soft_async *async = NULL;

	if (!process_alive(context->epoch)) {
		errno = EINVAL;
		return -1;
	}
	while (!async) {
		uint64_t token;

		if (read(base->async_fd, &token, sizeof(token)) < 0)
			return -1;
		lock_take(&context->events_lock);
		async = context->first;
		if (async) {
			context->first = async->next;
			if (!context->first)
				context->last = &context->first;
			if (async->count)
				async->count->delivered++;
		}
		lock_drop(&context->events_lock);
	}
	*event = async->event;
	free(async);
	return 0;
}

static void async_ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

void softrdma_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		async_ack(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		async_ack(&qp->mutex, &qp->cond, &qp->events_completed);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		async_ack(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	default:
		break;
	}
}
