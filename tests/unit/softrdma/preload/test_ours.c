/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What is of soft0 stays here: runs as test_forward.c does, and nothing may reach libibverbs, which
 * would look for private members that soft0 has not. And the list of devices, which is of both.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/softrdma/preload/calls.h"

static struct {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	char memory[8192];
} soft;

static struct ibv_device *soft0(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL), *last = NULL;

	assert_non_null(list);
	for (int i = 0; list[i]; i++)
		last = list[i];
	ibv_free_device_list(list);
	assert_non_null(last);
	return last;
}

static void ours_device(void)
{
	struct ibv_device *device = soft0();
	struct ibv_device_attr attr;
	char text[64], guid[24];
	uint64_t number;

	assert_string_equal(OURS(ibv_get_device_name, device), "soft0");
	assert_int_equal(OURS(ibv_get_device_index, device), -1);
	soft.context = OURS(ibv_open_device, device);
	assert_non_null(soft.context);
	assert_int_equal(OURS(ibv_query_device, soft.context, &attr), 0);
	assert_int_equal(OURS(ibv_get_device_guid, device), attr.node_guid);
	assert_int_equal(
		OURS(ibv_read_sysfs_file, device->ibdev_path, "board_id", text, sizeof(text)), 8);
	assert_string_equal(text, "softrdma");
	assert_int_equal(ibv_read_sysfs_file(device->ibdev_path, "node_guid", text, 20), 19);
	number = be64toh(attr.node_guid);
	snprintf(guid, sizeof(guid), "%04x:%04x:%04x:%04x", (unsigned)(number >> 48),
		 (unsigned)(number >> 32) & 0xffff, (unsigned)(number >> 16) & 0xffff,
		 (unsigned)number & 0xffff);
	assert_string_equal(text, guid);
	errno = 0;
	assert_int_equal(ibv_read_sysfs_file(device->ibdev_path, "node_guid", text, 19), -1);
	assert_int_equal(errno, ENOSPC);
}

/* The exported function knows 48 bytes of struct ibv_port_attr; what is after is the caller's. */
static void ours_port(void)
{
	struct ibv_port_attr old;
	unsigned char *bytes = (unsigned char *)&old;

	memset(&old, 0xa5, sizeof(old));
	assert_int_equal(OURS(ibv_query_port, soft.context, 1, (void *)&old), 0);
	assert_int_equal(old.state, IBV_PORT_ACTIVE);
	assert_int_equal(old.phys_state, 5);
	assert_int_equal(old.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(old.flags, IBV_QPF_GRH_REQUIRED);
	for (size_t i = 48; i < sizeof(old); i++)
		assert_int_equal(bytes[i], 0xa5);
	assert_int_not_equal(ibv_query_port(soft.context, 2, (void *)&old), 0);
}

static void ours_gids(void)
{
	struct {
		struct ibv_gid_entry entry;
		uint64_t of_another_release;
	} entry = { .of_another_release = 1 };
	struct ibv_gid_entry table[8];
	union ibv_gid gid;
	__be16 pkey;
	int type = -1;

	assert_int_equal(OURS(ibv_query_gid, soft.context, 1, 0, &gid), 0);
	assert_ok(OURS(_ibv_query_gid_ex, soft.context, 1, 0, &entry.entry, 0, sizeof(entry)));
	assert_memory_equal(&gid, &entry.entry.gid, sizeof(gid));
	assert_int_equal(entry.of_another_release, 0);
	assert_int_equal(_ibv_query_gid_ex(soft.context, 1, 0, &entry.entry, 0, 8), EINVAL);
	assert_int_equal(OURS(ibv_query_gid_type, soft.context, 1, 0, &type), 0);
	assert_int_equal(type, entry.entry.gid_type == IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(ibv_query_gid_type(soft.context, 1, 1000, &type), -1);
	assert_true(OURS(_ibv_query_gid_table, soft.context, table, 8, 0, sizeof(table[0])) > 0);
	assert_memory_equal(&gid, &table[0].gid, sizeof(gid));
	assert_int_equal(OURS(ibv_query_pkey, soft.context, 1, 0, &pkey), 0);
	assert_int_equal(OURS(ibv_get_pkey_index, soft.context, 1, pkey), 0);
}

static void ours_memory(void)
{
	/* one of those that a device may not know */
	int access = IBV_ACCESS_LOCAL_WRITE | 1 << 29;
	uintptr_t iova = (uintptr_t)soft.memory;
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	struct ibv_grh grh = { 0 };
	struct ibv_wc wc = { 0 };
	struct ibv_mr *mr;
	struct ibv_ah *ah;

	soft.pd = OURS(ibv_alloc_pd, soft.context);
	assert_non_null(soft.pd);
	mr = OURS(ibv_reg_mr_iova, soft.pd, soft.memory, 4096, iova, access);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	mr = OURS(ibv_reg_mr_iova2, soft.pd, soft.memory, 4096, iova, access);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	mr = OURS(ibv_reg_mr, soft.pd, soft.memory, 4096, access);
	assert_non_null(mr);
	OURS(ibv_rereg_mr, mr, IBV_REREG_MR_CHANGE_TRANSLATION, soft.pd, soft.memory, 8192, 0);
	OURS_VOID(ibv_unimport_mr, mr);
	assert_int_equal(OURS(ibv_dereg_mr, mr), 0);
	assert_int_equal(ibv_query_gid(soft.context, 1, 0, &attr.grh.dgid), 0);
	ah = OURS(ibv_create_ah, soft.pd, &attr);
	assert_non_null(ah);
	assert_int_equal(OURS(ibv_destroy_ah, ah), 0);
	OURS(ibv_init_ah_from_wc, soft.context, 1, &wc, &grh, &attr);
	ah = OURS(ibv_create_ah_from_wc, soft.pd, &wc, &grh, 1);
	if (ah)
		assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void set_nonblocking(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static void ours_queues(void)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_init_attr qp_init = { .qp_type = IBV_QPT_RC,
					    .cap = { .max_send_wr = 1, .max_send_sge = 1 } };
	struct ibv_qp_attr qp_attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_srq_attr srq_attr = { .srq_limit = 0 };
	struct ibv_cq *of;
	void *user;

	soft.channel = OURS(ibv_create_comp_channel, soft.context);
	assert_non_null(soft.channel);
	soft.cq = OURS(ibv_create_cq, soft.context, 8, NULL, soft.channel, 0);
	assert_non_null(soft.cq);
	set_nonblocking(soft.channel->fd);
	assert_int_equal(OURS(ibv_get_cq_event, soft.channel, &of, &user), -1);
	OURS_VOID(ibv_ack_cq_events, soft.cq, 0);
	OURS(ibv_resize_cq, soft.cq, 16);
	soft.srq = OURS(ibv_create_srq, soft.pd, &srq_init);
	assert_non_null(soft.srq);
	assert_int_equal(OURS(ibv_modify_srq, soft.srq, &srq_attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(OURS(ibv_query_srq, soft.srq, &srq_attr), 0);
	qp_init.send_cq = qp_init.recv_cq = soft.cq;
	qp_init.srq = soft.srq;
	soft.qp = OURS(ibv_create_qp, soft.pd, &qp_init);
	assert_non_null(soft.qp);
	assert_null(OURS(ibv_qp_to_qp_ex, soft.qp));
	assert_int_equal(OURS(ibv_modify_qp, soft.qp, &qp_attr, IBV_QP_STATE), 0);
	assert_int_equal(OURS(ibv_query_qp, soft.qp, &qp_attr, IBV_QP_STATE, &qp_init), 0);
	assert_int_equal(OURS(ibv_query_qp_data_in_order, soft.qp, IBV_WR_RDMA_READ, 0), 0);
}

static void refused_number(int result)
{
	assert_int_equal(result, EOPNOTSUPP);
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
}

static void refused_pointer(const void *result)
{
	assert_null(result);
	refused_number(errno);
}

static void ours_refused(void)
{
	struct ibv_ece ece = { .vendor_id = 1 };
	struct ibv_ah_attr attr = { .port_num = 1 };
	struct ibv_dm dm = { .context = soft.context };
	union ibv_gid gid = { .raw = { 0xff } };
	uint8_t mac[6];
	uint16_t vlan;

	errno = 0;
	refused_number(OURS(ibv_attach_mcast, soft.qp, &gid, 0));
	refused_number(OURS(ibv_detach_mcast, soft.qp, &gid, 0));
	refused_number(OURS(ibv_set_ece, soft.qp, &ece));
	refused_number(OURS(ibv_query_ece, soft.qp, &ece));
	refused_number(-OURS(ibv_resolve_eth_l2_from_gid, soft.context, &attr, mac, &vlan));
	refused_pointer(OURS(ibv_reg_dmabuf_mr, soft.pd, 0, 4096, 0, 0, 0));
	refused_pointer(OURS(ibv_import_pd, soft.context, 1));
	refused_pointer(OURS(ibv_import_mr, soft.pd, 1));
	refused_pointer(OURS(ibv_import_dm, soft.context, 1));
	OURS_VOID(ibv_unimport_pd, soft.pd);
	OURS_VOID(ibv_unimport_dm, &dm);
}

/* Whatever an event is about: it is acknowledged on the object. */
static void ours_events(void)
{
	struct ibv_async_event event = { .event_type = IBV_EVENT_CQ_ERR, .element.cq = soft.cq };

	set_nonblocking(soft.context->async_fd);
	assert_int_equal(OURS(ibv_get_async_event, soft.context, &event), -1);
	OURS_VOID(ibv_ack_async_event, &event);
	assert_int_equal(soft.cq->async_events_completed, 1);
	event = (struct ibv_async_event){ .event_type = IBV_EVENT_QP_FATAL, .element.qp = soft.qp };
	OURS_VOID(ibv_ack_async_event, &event);
	assert_int_equal(soft.qp->events_completed, 1);
	event = (struct ibv_async_event){ .event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
					  .element.srq = soft.srq };
	OURS_VOID(ibv_ack_async_event, &event);
	assert_int_equal(soft.srq->events_completed, 1);
	/* none of them happened: destroying waits for as many as did */
	soft.cq->async_events_completed = 0;
	soft.qp->events_completed = 0;
	soft.srq->events_completed = 0;
}

static void ours_end(void)
{
	assert_int_equal(OURS(ibv_destroy_qp, soft.qp), 0);
	assert_int_equal(OURS(ibv_destroy_srq, soft.srq), 0);
	assert_int_equal(OURS(ibv_destroy_cq, soft.cq), 0);
	assert_int_equal(OURS(ibv_destroy_comp_channel, soft.channel), 0);
	assert_int_equal(OURS(ibv_dealloc_pd, soft.pd), 0);
	assert_int_equal(OURS(ibv_close_device, soft.context), 0);
}

UNIT_TEST(objects_of_soft0_stay_here, calls_begin)
{
	ours_device();
	ours_port();
	ours_gids();
	ours_memory();
	ours_queues();
	ours_refused();
	ours_events();
	ours_end();
	/* of both; tested below */
	calls_see("ibv_get_device_list");
	calls_see("ibv_free_device_list");
	calls_see("ibv_import_device");
	calls_all_seen();
}

/* Hardware's ibv_close_device() succeeds whatever is left, and perftest leaves things. */
UNIT_TEST(closing_with_objects_left_succeeds, calls_begin)
{
	struct ibv_context *context = ibv_open_device(soft0());
	struct ibv_pd *pd;

	assert_non_null(context);
	pd = ibv_alloc_pd(context);
	assert_non_null(pd);
	assert_int_equal(ibv_close_device(context), 0);
	/* It is still there, as the man page says: release it, and close again, for the books. */
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

UNIT_TEST(soft0_comes_last, calls_begin)
{
	struct ibv_device **list;
	int count = -1;

	list = ibv_get_device_list(&count);
	assert_non_null(list);
	assert_int_equal(count, FAKE_DEVICES + 1);
	assert_ptr_equal(list[0], fake->devices[0]);
	assert_ptr_equal(list[1], fake->devices[1]);
	assert_string_equal(ibv_get_device_name(list[2]), "soft0");
	assert_null(list[3]);
	assert_int_equal(fake->lists, 1);
	ibv_free_device_list(list);
	assert_int_equal(fake->lists, 0);
}

/* librdmacm sorts the list by address before it frees it. */
UNIT_TEST(a_list_may_be_sorted_by_its_owner, calls_begin)
{
	struct ibv_device **list = ibv_get_device_list(NULL), *last;

	assert_non_null(list);
	last = list[2];
	list[2] = list[0];
	list[0] = last;
	ibv_free_device_list(list);
	assert_int_equal(fake->lists, 0);
}

UNIT_TEST(lists_are_kept_apart, calls_begin)
{
	struct ibv_device **lists[3];

	for (int i = 0; i < 3; i++)
		lists[i] = ibv_get_device_list(NULL);
	assert_int_equal(fake->lists, 3);
	ibv_free_device_list(lists[1]);
	ibv_free_device_list(lists[0]);
	ibv_free_device_list(lists[2]);
	assert_int_equal(fake->lists, 0);
}

/* mlx5dv_get_vfio_device_list() makes one, to be freed by ibv_free_device_list(). */
UNIT_TEST(a_list_of_a_driver_goes_to_libibverbs, calls_begin)
{
	struct ibv_device **list = calloc(2, sizeof(*list));
	unsigned calls = fake->calls;

	assert_non_null(list);
	list[0] = fake->devices[1];
	ibv_free_device_list(list);
	assert_int_equal(fake->calls, calls + 1);
	assert_int_equal(fake->lists, -1);
	fake->lists = 0;
}

UNIT_TEST(soft0_is_there_where_libibverbs_finds_nothing, calls_begin)
{
	struct ibv_device **list;
	int count = -1;

	fake->no_list = true;
	list = ibv_get_device_list(&count);
	fake->no_list = false;
	assert_non_null(list);
	assert_int_equal(count, 1);
	assert_string_equal(ibv_get_device_name(list[0]), "soft0");
	assert_null(list[1]);
	ibv_free_device_list(list);
	assert_int_equal(fake->lists, 0);
}

/* It looks at private members of each device in the list. */
UNIT_TEST(importing_looks_at_real_devices_only, calls_begin)
{
	struct ibv_device **list;

	fake->result = 77;
	assert_int_equal((long)ibv_import_device(5), 77);
	assert_int_equal(fake->args[0], 5);
	assert_int_equal(fake->imported_from, FAKE_DEVICES);
	assert_int_equal(fake->lists, 0);
	list = ibv_get_device_list(NULL);
	assert_non_null(list);
	assert_non_null(list[FAKE_DEVICES]);
	ibv_free_device_list(list);
}
