/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A provider in the place of libibverbs, over soft0: fake_device.h says what a test can set. What
 * soft0 has only one of is translated for it: port 1, P_Key index 0, vector 0, a GID that it knows.
 */
#include "tests/lib/fake_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/rdma/provider.h"
#include "common/softrdma/softrdma.h"

#define CONTEXTS 64u
#define EVENTS	 64u
#define SOFT_GID 3 /* ::ffff:127.0.0.1, RoCE v2 */

/* What is open, and events that nobody has taken yet. Protected by fake.lock. */
static struct {
	struct ibv_context *context;
	struct fake_device *device;
	bool dead; /* it said IBV_EVENT_DEVICE_FATAL */
	unsigned events;
	struct ibv_async_event event[EVENTS];
} opened[CONTEXTS];

static unsigned place_of(const struct ibv_context *context)
{
	for (unsigned i = 0; i < CONTEXTS; i++) {
		if (opened[i].context == context)
			return i;
	}
	abort(); /* a context of another provider */
}

/* Must hold the lock. */
static struct fake_device *device_of(const struct ibv_context *context)
{
	return opened[place_of(context)].device;
}

void fake_raise(const struct fake_device *device, enum ibv_event_type type, int port)
{
	for (unsigned i = 0; i < CONTEXTS; i++) {
		uint64_t one = 1;

		if (!opened[i].context || opened[i].device != device || opened[i].events == EVENTS)
			continue;
		opened[i].dead |= type == IBV_EVENT_DEVICE_FATAL;
		opened[i].event[opened[i].events++] =
			(struct ibv_async_event){ .event_type = type, .element.port_num = port };
		if (write(opened[i].context->async_fd, &one, sizeof(one)) < 0)
			abort();
	}
}

unsigned fake_opened(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&fake.lock);
	for (unsigned i = 0; i < CONTEXTS; i++)
		n += opened[i].context != NULL;
	pthread_mutex_unlock(&fake.lock);
	return n;
}

/* fake_begin(), of a call that no dead context serves. */
static int begin_on(struct ibv_context *context, enum fake_call call)
{
	int rc = fake_begin(call);
	bool dead;

	if (rc)
		return rc;
	pthread_mutex_lock(&fake.lock);
	dead = opened[place_of(context)].dead;
	pthread_mutex_unlock(&fake.lock);
	if (dead)
		errno = EIO;
	return dead ? EIO : 0;
}

static struct ibv_device **get_device_list(int *count)
{
	struct ibv_device **list = calloc(FAKE_DEVICES + 1, sizeof(struct ibv_device *));

	fake_follow();
	if (!list)
		return NULL;
	pthread_mutex_lock(&fake.lock);
	for (unsigned i = 0; i < fake.devices; i++)
		list[i] = &fake.device[i].base;
	if (count)
		*count = (int)fake.devices;
	pthread_mutex_unlock(&fake.lock);
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	free(list);
}

static const char *get_device_name(struct ibv_device *device)
{
	return device->name;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	struct ibv_context *context;
	unsigned i;

	if (fake_begin(FAKE_OPEN_DEVICE))
		return NULL;
	context = softrdma_open_device(softrdma_device());
	if (!context)
		return NULL;
	pthread_mutex_lock(&fake.lock);
	i = place_of(NULL);
	opened[i].context = context;
	opened[i].device = (struct fake_device *)device; /* base is its first member */
	opened[i].events = 0;
	opened[i].dead = false;
	context->num_comp_vectors = (int)opened[i].device->vectors;
	pthread_mutex_unlock(&fake.lock);
	return context;
}

static int close_device(struct ibv_context *context)
{
	int rc;

	pthread_mutex_lock(&fake.lock); /* fake_raise() writes to its descriptor */
	rc = softrdma_close_device(context);
	if (!rc)
		opened[place_of(context)].context = NULL;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	int rc = begin_on(context, FAKE_QUERY_DEVICE);

	rc = rc ? rc : softrdma_query_device(context, attr);
	if (rc)
		return rc;
	pthread_mutex_lock(&fake.lock);
	attr->phys_port_cnt = (uint8_t)device_of(context)->ports;
	attr->max_pkeys = (uint16_t)device_of(context)->port[0].pkeys;
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	int rc = begin_on(context, FAKE_QUERY_PORT);
	const struct fake_device *d;
	const struct fake_port *p;

	rc = rc ? rc : softrdma_query_port(context, 1, attr);
	if (rc)
		return rc;
	pthread_mutex_lock(&fake.lock);
	d = device_of(context);
	p = &d->port[port - 1u < d->ports ? port - 1u : 0];
	attr->state = p->attr.state;
	attr->link_layer = p->attr.link_layer;
	attr->lid = p->attr.lid;
	attr->sm_lid = attr->link_layer == IBV_LINK_LAYER_INFINIBAND;
	attr->active_mtu = p->attr.active_mtu;
	attr->pkey_tbl_len = (uint16_t)p->pkeys;
	attr->gid_tbl_len = p->own_gids ? (int)FAKE_GIDS : attr->gid_tbl_len;
	rc = port - 1u < d->ports ? 0 : EINVAL;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

/* An entry of a port's table, also an empty one. Must hold the lock. */
static struct ibv_gid_entry entry_of(struct ibv_context *context, unsigned port, unsigned index)
{
	const struct fake_port *p = &device_of(context)->port[port - 1];
	struct ibv_gid_entry e = { 0 };

	if (p->own_gids && index < FAKE_GIDS)
		e = p->gid[index];
	else if (!p->own_gids)
		softrdma_query_gid_ex(context, 1, index, &e, 0);
	e.port_num = port;
	return e;
}

static int query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	const struct fake_device *d;
	int rc = -1;

	pthread_mutex_lock(&fake.lock);
	d = device_of(context);
	if (port - 1u < d->ports && (unsigned)index < d->port[port - 1].pkeys) {
		*pkey = htons(d->port[port - 1].pkey[index]);
		rc = 0;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static int query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
			struct ibv_gid_entry *entry, uint32_t flags)
{
	int rc = fake_begin(FAKE_QUERY_GIDS);

	if (rc)
		return rc;
	pthread_mutex_lock(&fake.lock);
	if (port - 1u < device_of(context)->ports)
		*entry = entry_of(context, port, index);
	else
		rc = EINVAL;
	pthread_mutex_unlock(&fake.lock);
	return rc ? rc : fake_gid_empty(&entry->gid) ? ENODATA : 0;
}

static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			       size_t max, uint32_t flags)
{
	int rc = fake_begin(FAKE_QUERY_GIDS);
	size_t n = 0;

	if (rc)
		return -rc;
	pthread_mutex_lock(&fake.lock);
	for (unsigned port = 1; port <= device_of(context)->ports; port++) {
		for (unsigned i = 0; i < FAKE_GIDS && n < max; i++) {
			entries[n] = entry_of(context, port, i);
			n += !fake_gid_empty(&entries[n].gid);
		}
	}
	pthread_mutex_unlock(&fake.lock);
	return (ssize_t)n;
}

static int numa_node(struct ibv_device *device)
{
	return ((struct fake_device *)device)->numa_node;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	return begin_on(context, FAKE_ALLOC_PD) ? NULL : softrdma_alloc_pd(context);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, unsigned access)
{
	return begin_on(pd->context, FAKE_REG_MR) ? NULL
						  : softrdma_reg_mr(pd, addr, length, access);
}

static int dereg_mr(struct ibv_mr *mr)
{
	int rc = fake_begin(FAKE_DEREG_MR);

	return rc ? rc : softrdma_dereg_mr(mr);
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
	return begin_on(context, FAKE_CREATE_CHANNEL) ? NULL
						      : softrdma_create_comp_channel(context);
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe, void *cq_context,
				struct ibv_comp_channel *channel, int vector)
{
	if (begin_on(context, FAKE_CREATE_CQ))
		return NULL;
	if (vector < 0 || vector >= context->num_comp_vectors) {
		errno = EINVAL;
		return NULL;
	}
	pthread_mutex_lock(&fake.lock);
	fake.vector_queues[vector]++;
	pthread_mutex_unlock(&fake.lock);
	return softrdma_create_cq(context, cqe, cq_context, channel, 0);
}

static int destroy_cq(struct ibv_cq *cq)
{
	int rc = fake_begin(FAKE_DESTROY_CQ);

	return rc ? rc : softrdma_destroy_cq(cq);
}

static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return begin_on(pd->context, FAKE_CREATE_SRQ) ? NULL : softrdma_create_srq(pd, attr);
}

static int destroy_srq(struct ibv_srq *srq)
{
	int rc = fake_begin(FAKE_DESTROY_SRQ);

	return rc ? rc : softrdma_destroy_srq(srq);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return begin_on(pd->context, FAKE_CREATE_QP) ? NULL : softrdma_create_qp(pd, attr);
}

static int destroy_qp(struct ibv_qp *qp)
{
	int rc = fake_begin(FAKE_DESTROY_QP);

	return rc ? rc : softrdma_destroy_qp(qp);
}

/* What soft0 is told instead of @attr. Must hold the lock. Returns a positive errno, or 0. */
static int translate(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	const struct fake_device *d = device_of(qp->context);
	unsigned port = mask & IBV_QP_PORT ? attr->port_num : 1;
	union ibv_gid soft;
	int rc = 0;

	if (softrdma_query_gid(qp->context, 1, SOFT_GID, &soft))
		return EIO;
	if (port < 1 || port > d->ports)
		return EINVAL;
	if ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index >= d->port[port - 1].pkeys)
		return EINVAL;
	if (mask & IBV_QP_AV) {
		const struct ibv_ah_attr *ah = &attr->ah_attr;
		struct ibv_gid_entry from;

		if (ah->port_num < 1 || ah->port_num > d->ports || ah->sl > 15)
			return EINVAL;
		from = entry_of(qp->context, ah->port_num, ah->grh.sgid_index);
		rc = fake_path(d, ah, &from, &soft);
	}
	attr->port_num = 1;
	attr->pkey_index = 0;
	attr->ah_attr = (struct ibv_ah_attr){ .is_global = 1,
					      .port_num = 1,
					      .grh = { .dgid = soft, .sgid_index = SOFT_GID } };
	return rc;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	enum fake_call call =
		attr->qp_state == IBV_QPS_ERR ? FAKE_TO_ERR : FAKE_TO_RESET + attr->qp_state;
	struct ibv_qp_attr ours = *attr;
	int rc = begin_on(qp->context, call);

	pthread_mutex_lock(&fake.lock);
	fake.rule[call].attr = *attr;
	fake.rule[call].mask = mask;
	rc = rc ? rc : translate(qp, &ours, mask);
	pthread_mutex_unlock(&fake.lock);
	return rc ? rc : softrdma_modify_qp(qp, &ours, mask);
}

static int get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	bool ours = false;
	uint64_t token;
	unsigned i;

	pthread_mutex_lock(&fake.lock);
	i = place_of(context);
	if (opened[i].events && read(context->async_fd, &token, sizeof(token)) > 0) {
		ours = true;
		*event = opened[i].event[0];
		opened[i].events--;
		memmove(&opened[i].event[0], &opened[i].event[1],
			opened[i].events * sizeof(opened[i].event[0]));
	}
	pthread_mutex_unlock(&fake.lock);
	return ours ? 0 : softrdma_get_async_event(context, event);
}

const struct rdma_provider rdma_provider_verbs = {
	.name = "verbs",
	.get_device_list = get_device_list,
	.free_device_list = free_device_list,
	.get_device_name = get_device_name,
	.numa_node = numa_node,
	.open_device = open_device,
	.close_device = close_device,
	.query_device = query_device,
	.query_port = query_port,
	.query_pkey = query_pkey,
	.query_gid_ex = query_gid_ex,
	.query_gid_table = query_gid_table,
	.alloc_pd = alloc_pd,
	.dealloc_pd = softrdma_dealloc_pd,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.create_comp_channel = create_comp_channel,
	.destroy_comp_channel = softrdma_destroy_comp_channel,
	.get_cq_event = softrdma_get_cq_event,
	.ack_cq_events = softrdma_ack_cq_events,
	.create_cq = create_cq,
	.destroy_cq = destroy_cq,
	.create_srq = create_srq,
	.destroy_srq = destroy_srq,
	.create_qp = create_qp,
	.modify_qp = modify_qp,
	.destroy_qp = destroy_qp,
	.get_async_event = get_async_event,
	.ack_async_event = softrdma_ack_async_event,
};
