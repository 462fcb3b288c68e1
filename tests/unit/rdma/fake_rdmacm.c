/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/rdma/fake_rdmacm.h"

#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct fake_rdmacm fake;
static struct fake_event events[FAKE_EVENTS_MAX];
static unsigned first, count;
static int fd = -1;
static struct ibv_device device;
static struct ibv_context context = { .device = &device };

void fake_reset(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.device = "fake0";
	fake.mtu = IBV_MTU_2048;
	fake.modify_fails_at = -1;
	first = count = 0;
}

void fake_push(struct fake_event event)
{
	uint64_t one = 1;

	assert_true(count < FAKE_EVENTS_MAX);
	events[(first + count++) % FAKE_EVENTS_MAX] = event;
	if (fd >= 0)
		assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
}

unsigned fake_pending(void)
{
	return count;
}

static int fails(const char *call)
{
	if (!fake.fails || strcmp(fake.fails, call) != 0)
		return 0;
	errno = fake.fails_with;
	return -1;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *c;

	if (fails(__func__))
		return NULL;
	c = calloc(1, sizeof(*c));
	assert_non_null(c);
	fd = c->fd = eventfd(count, EFD_CLOEXEC | EFD_SEMAPHORE);
	fake.channels++;
	return c;
}

void rdma_destroy_event_channel(struct rdma_event_channel *c)
{
	assert_int_equal(fake.ids, 0);
	fake.channels--;
	close(c->fd);
	fd = -1;
	free(c);
}

int rdma_create_id(struct rdma_event_channel *c, struct rdma_cm_id **id, void *ctx,
		   enum rdma_port_space ps)
{
	assert_int_equal(ps, RDMA_PS_TCP);
	if (fails(__func__))
		return -1;
	*id = fake.newest = calloc(1, sizeof(**id));
	assert_non_null(*id);
	(*id)->channel = c;
	(*id)->context = ctx;
	(*id)->route.addr.dst_addr.sa_family = AF_INET;
	fake.ids++;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	assert_int_equal(fake.unacknowledged, 0);
	fake.ids--;
	memset(id, 0x5a, sizeof(*id));
	free(id);
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *c, struct rdma_cm_event **out)
{
	struct rdma_cm_event *e;
	uint64_t n;

	assert_true(fcntl(c->fd, F_GETFL) & O_NONBLOCK); /* it would wait here otherwise */
	if (fails(__func__))
		return -1;
	if (count == 0) {
		errno = EAGAIN;
		return -1;
	}
	assert_int_equal(read(c->fd, &n, sizeof(n)), sizeof(n));
	e = calloc(1, sizeof(*e));
	assert_non_null(e);
	e->event = events[first].type;
	e->status = events[first].status;
	e->id = events[first].id ? events[first].id : fake.newest;
	if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		e->listen_id = e->id;
		assert_int_equal(rdma_create_id(c, &e->id, e->listen_id->context, RDMA_PS_TCP), 0);
		snprintf(device.name, sizeof(device.name), "%s", fake.device);
		e->id->verbs = &context;
		e->id->port_num = 1;
	}
	e->param.conn.private_data = events[first].data;
	e->param.conn.private_data_len = events[first].data_len;
	e->param.conn.initiator_depth = events[first].initiator_depth;
	e->param.conn.responder_resources = events[first].responder_resources;
	first = (first + 1) % FAKE_EVENTS_MAX;
	count--;
	fake.unacknowledged++;
	*out = e;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *e)
{
	fake.unacknowledged--;
	memset(e, 0x5a, sizeof(*e));
	free(e);
	return 0;
}

static void bind_to_device(struct rdma_cm_id *id)
{
	if (!fake.device)
		return;
	snprintf(device.name, sizeof(device.name), "%s", fake.device);
	id->verbs = &context;
	id->port_num = 1;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
	assert_null(from);
	assert_true(ms >= 0);
	if (fails(__func__))
		return -1;
	memcpy(&id->route.addr.dst_addr, to,
	       to->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					 : sizeof(struct sockaddr_in));
	bind_to_device(id);
	if (!count)
		fake_push((struct fake_event){ .type = RDMA_CM_EVENT_ADDR_RESOLVED });
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
	if (fails(__func__))
		return -1;
	if (!count)
		fake_push((struct fake_event){ .type = RDMA_CM_EVENT_ROUTE_RESOLVED });
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *at)
{
	if (fails(__func__))
		return -1;
	bind_to_device(id);
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	assert_true(backlog > 0);
	return fails(__func__);
}

static void keep(const struct rdma_conn_param *param)
{
	fake.param = *param;
	memcpy(fake.private_data, param->private_data, param->private_data_len);
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	assert_null(id->qp); /* the queue pair is ours */
	assert_true(param->private_data_len <= WIRE_CM_REQUEST_MAX);
	fake.connects++;
	keep(param);
	return fails(__func__);
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	assert_true(param->private_data_len <= WIRE_CM_REPLY_MAX);
	fake.accepts++;
	keep(param);
	return fails(__func__);
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	assert_true(len <= WIRE_CM_REJECT_MAX);
	fake.rejects++;
	if (data)
		memcpy(fake.private_data, data, len);
	return fails(__func__);
}

int rdma_establish(struct rdma_cm_id *id)
{
	fake.establishes++;
	return fails(__func__);
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	fake.disconnects++;
	return fails(__func__);
}

const char *rdma_event_str(enum rdma_cm_event_type type)
{
	return "an event of the test";
}

/* What a kernel fills in, with values that ours must replace. */
int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	enum ibv_qp_state state = attr->qp_state;

	if (fails(__func__))
		return -1;
	memset(attr, 0x77, sizeof(*attr));
	attr->qp_state = state;
	attr->port_num = 1;
	attr->ah_attr.is_global = 1;
	attr->ah_attr.grh.sgid_index = 7;
	attr->rq_psn = 0x111;
	attr->sq_psn = 0x222;
	attr->path_mtu = (enum ibv_mtu)fake.mtu;
	if (state == IBV_QPS_INIT)
		*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	else if (state == IBV_QPS_RTR)
		*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	else
		*mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	*mask |= fake.extra_bits;
	return 0;
}

static int modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	assert_true(fake.modifies < 8);
	fake.attr[fake.modifies] = *attr;
	fake.mask[fake.modifies] = mask;
	return (int)fake.modifies++ == fake.modify_fails_at ? EINVAL : 0;
}

static int query_gid(struct ibv_context *ctx, uint32_t port, uint32_t index,
		     struct ibv_gid_entry *entry, uint32_t flags)
{
	memset(entry, 0, sizeof(*entry));
	entry->gid_index = index;
	entry->gid_type = IBV_GID_TYPE_ROCE_V2;
	entry->gid.raw[15] = 9;
	return 0;
}

void fake_qp(struct rdma_qp *out)
{
	static const struct rdma_provider ops = { .name = "fake",
						  .modify_qp = modify,
						  .query_gid_ex = query_gid };
	static struct ibv_qp qp = { .qp_num = 0x1234 };
	static struct rdma_device dev;

	dev = (struct rdma_device){ .ops = &ops,
				    .options = rdma_options_default(),
				    .context = &context,
				    .port = 1,
				    .attr = { .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 12 },
				    .mtu = IBV_MTU_4096,
				    .name = "fake0" };
	*out = (struct rdma_qp){ .dev = &dev, .qp = &qp, .remote_access = IBV_ACCESS_REMOTE_READ };
}
