/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Whoever completes something on an armed CQ disarms it and adds one event to the CQ's count, in
 * one atomic step, and then writes to the channel's eventfd, a semaphore. A reader takes one from
 * the eventfd and then one event from some CQ of the channel. A CQ that dies takes its events along
 * and a process that dies may have written nothing (progress.c writes for it), so that the eventfd
 * may count too many: a reader that finds no event waits again.
 */
#include "common/softrdma/objects/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/softrdma/device/context.h"
#include "common/softrdma/objects/cq.h"
#include "common/softrdma/process/process.h"
#include "common/softrdma/softrdma.h"

static struct {
	struct lock lock;
	struct soft_channel *list;
} channels;

struct ibv_comp_channel *softrdma_create_comp_channel(struct ibv_context *base)
{
	struct soft_context *context = soft_context(base);
	struct soft_channel *channel;

	if (!process_alive(context->epoch)) {
		errno = EINVAL;
		return NULL;
	}
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return NULL;
	channel->base.context = base;
	channel->base.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (channel->base.fd < 0) {
		free(channel);
		return NULL;
	}
	channel->epoch = context->epoch;
	channel->id = process_new_id();
	atomic_fetch_add(&context->objects, 1);
	lock_take(&channels.lock);
	channel->next = channels.list;
	channels.list = channel;
	lock_drop(&channels.lock);
	return &channel->base;
}

int softrdma_destroy_comp_channel(struct ibv_comp_channel *base)
{
	struct soft_channel *channel = (struct soft_channel *)base, **link;

	if (!process_alive(channel->epoch))
		return EINVAL;
	lock_take(&channel->lock);
	if (base->refcnt) {
		lock_drop(&channel->lock);
		return EBUSY;
	}
	lock_drop(&channel->lock);
	lock_take(&channels.lock);
	for (link = &channels.list; *link != channel; link = &(*link)->next)
		;
	*link = channel->next;
	lock_drop(&channels.lock);
	close(base->fd);
	atomic_fetch_sub(&soft_context(base->context)->objects, 1);
	free(channel);
	return 0;
}

int soft_channel_dup(uint64_t id)
{
	struct soft_channel *channel;
	int fd = -1;

	lock_take(&channels.lock);
	for (channel = channels.list; channel; channel = channel->next) {
		if (channel->id == id)
			fd = fcntl(channel->base.fd, F_DUPFD_CLOEXEC, 0);
	}
	lock_drop(&channels.lock);
	return fd;
}

void soft_channel_add(struct soft_channel *channel, struct soft_cq *cq)
{
	lock_take(&channel->lock);
	channel->base.refcnt++;
	cq->channel_next = channel->cqs;
	channel->cqs = cq;
	lock_drop(&channel->lock);
}

void soft_channel_remove(struct soft_channel *channel, struct soft_cq *cq)
{
	struct soft_cq **link;

	lock_take(&channel->lock);
	for (link = &channel->cqs; *link != cq; link = &(*link)->channel_next)
		;
	*link = cq->channel_next;
	channel->base.refcnt--;
	lock_drop(&channel->lock);
}

/* Take one event of some CQ of @channel. */
static struct soft_cq *channel_take(struct soft_channel *channel)
{
	struct soft_cq *cq;

	lock_take(&channel->lock);
	for (cq = channel->cqs; cq; cq = cq->channel_next) {
		/* Only takers decrease the count, and they hold the lock. */
		if (atomic_load(&cq->shared->notify) >= NOTIFY_EVENT) {
			/* acquire: pairs with the compare-and-swap in soft_cq_notify_slow() */
			atomic_fetch_sub(&cq->shared->notify, NOTIFY_EVENT);
			cq->comp_delivered++;
			break;
		}
	}
	lock_drop(&channel->lock);
	return cq;
}

int softrdma_get_cq_event(struct ibv_comp_channel *base, struct ibv_cq **out, void **cq_context)
{
	struct soft_channel *channel = (struct soft_channel *)base;
	struct soft_cq *cq = NULL;

	if (!process_alive(channel->epoch)) {
		errno = EINVAL;
		return -1;
	}
	while (!cq) {
		uint64_t token;

		if (read(base->fd, &token, sizeof(token)) < 0)
			return -1;
		cq = channel_take(channel);
	}
	*out = &cq->base;
	*cq_context = cq->base.cq_context;
	return 0;
}

void softrdma_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	if (!nevents)
		return;
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

void soft_channels_fork_child(void)
{
	channels.list = NULL;
	channels.lock = (struct lock){ 0 };
}
