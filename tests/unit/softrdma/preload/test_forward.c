/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Which way each function goes. Runs with the interposing library in front of a libibverbs that
 * notes its calls (fake_libibverbs.c): with an object of another device the function of that name
 * is called there, once, with the same arguments, and its result comes back. Where that libibverbs
 * lacks the function, the value that says so there comes back: the first in each row.
 */
#include <dlfcn.h>

#include "tests/unit/softrdma/preload/calls.h"

/* Addresses to tell apart; what they point at is never looked at. */
static char marks[8];
#define MARK(i) ((void *)&marks[i])

static struct {
	struct ibv_device device;
	struct ibv_context context;
	struct ibv_pd pd;
	struct ibv_mr mr;
	struct ibv_ah ah;
	struct ibv_comp_channel channel;
	struct ibv_cq cq;
	struct ibv_srq srq;
	struct ibv_qp qp;
	struct ibv_wq wq;
	struct ibv_dm dm;
} foreign = {
	.context.device = &foreign.device,
	.pd.context = &foreign.context,
	.mr.context = &foreign.context,
	.ah.context = &foreign.context,
	.channel.context = &foreign.context,
	.cq.context = &foreign.context,
	.srq.context = &foreign.context,
	.qp.context = &foreign.context,
	.wq.context = &foreign.context,
	.dm.context = &foreign.context,
};

static void forward_device(void)
{
	struct ibv_context *context = &foreign.context;
	struct ibv_device *device = &foreign.device;

	FORWARDED(0, ibv_get_device_name, device);
	FORWARDED(0, ibv_get_device_guid, device);
	FORWARDED(-1, ibv_get_device_index, device);
	FORWARDED(0, ibv_open_device, device);
	FORWARDED(ENOSYS, ibv_close_device, context);
	FORWARDED(ENOSYS, ibv_query_device, context, MARK(0));
	FORWARDED(ENOSYS, ibv_query_port, context, 3, MARK(0));
	FORWARDED(-1, ibv_query_gid, context, 3, 5, MARK(0));
	FORWARDED(ENOSYS, _ibv_query_gid_ex, context, 3, 5, MARK(0), 7, 9);
	FORWARDED(-ENOSYS, _ibv_query_gid_table, context, MARK(0), 5, 7, 9);
	FORWARDED(-1, ibv_query_pkey, context, 3, 5, MARK(0));
	FORWARDED(-1, ibv_get_pkey_index, context, 3, 5);
	FORWARDED(-1, ibv_read_sysfs_file, "/sys/class/infiniband/soft00", "board_id", MARK(0), 9);
	FORWARDED(-1, ibv_get_async_event, context, MARK(0));
	FORWARDED(-ENOSYS, ibv_resolve_eth_l2_from_gid, context, MARK(0), MARK(1), MARK(2));
	FORWARDED(0, ibv_import_pd, context, 9);
	FORWARDED(0, ibv_import_dm, context, 9);
	FORWARDED_VOID(ibv_unimport_dm, &foreign.dm);
}

static void forward_memory(void)
{
	struct ibv_context *context = &foreign.context;
	struct ibv_pd *pd = &foreign.pd;
	struct ibv_mr *mr = &foreign.mr;
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;

	FORWARDED(0, ibv_alloc_pd, context);
	FORWARDED(ENOSYS, ibv_dealloc_pd, pd);
	FORWARDED_VOID(ibv_unimport_pd, pd);
	FORWARDED(0, ibv_reg_mr, pd, MARK(0), 5, access);
	FORWARDED(0, ibv_reg_mr_iova, pd, MARK(0), 5, 7, access);
	FORWARDED(0, ibv_reg_mr_iova2, pd, MARK(0), 5, 7, access);
	FORWARDED(0, ibv_reg_dmabuf_mr, pd, 3, 5, 7, 9, access);
	FORWARDED(IBV_REREG_MR_ERR_INPUT, ibv_rereg_mr, mr, 3, pd, MARK(0), 5, access);
	FORWARDED(ENOSYS, ibv_dereg_mr, mr);
	FORWARDED(0, ibv_import_mr, pd, 9);
	FORWARDED_VOID(ibv_unimport_mr, mr);
	FORWARDED(0, ibv_create_ah, pd, MARK(0));
	FORWARDED(-1, ibv_init_ah_from_wc, context, 3, MARK(0), MARK(1), MARK(2));
	FORWARDED(0, ibv_create_ah_from_wc, pd, MARK(0), MARK(1), 3);
	FORWARDED(ENOSYS, ibv_destroy_ah, &foreign.ah);
}

static void forward_queues(void)
{
	struct ibv_context *context = &foreign.context;
	struct ibv_comp_channel *channel = &foreign.channel;
	struct ibv_cq *cq = &foreign.cq;
	struct ibv_srq *srq = &foreign.srq;
	struct ibv_qp *qp = &foreign.qp;
	struct ibv_pd *pd = &foreign.pd;

	FORWARDED(0, ibv_create_comp_channel, context);
	FORWARDED(ENOSYS, ibv_destroy_comp_channel, channel);
	FORWARDED(-1, ibv_get_cq_event, channel, MARK(0), MARK(1));
	FORWARDED_VOID(ibv_ack_cq_events, cq, 5);
	FORWARDED(0, ibv_create_cq, context, 5, MARK(0), channel, 7);
	FORWARDED(ENOSYS, ibv_resize_cq, cq, 5);
	FORWARDED(ENOSYS, ibv_destroy_cq, cq);
	FORWARDED(0, ibv_create_srq, pd, MARK(0));
	FORWARDED(ENOSYS, ibv_modify_srq, srq, MARK(0), 5);
	FORWARDED(ENOSYS, ibv_query_srq, srq, MARK(0));
	FORWARDED(ENOSYS, ibv_destroy_srq, srq);
	FORWARDED(0, ibv_create_qp, pd, MARK(0));
	FORWARDED(0, ibv_qp_to_qp_ex, qp);
	FORWARDED(ENOSYS, ibv_modify_qp, qp, MARK(0), 5);
	FORWARDED(ENOSYS, ibv_query_qp, qp, MARK(0), 5, MARK(1));
	FORWARDED(ENOSYS, ibv_destroy_qp, qp);
	FORWARDED(ENOSYS, ibv_attach_mcast, qp, MARK(0), 5);
	FORWARDED(ENOSYS, ibv_detach_mcast, qp, MARK(0), 5);
	FORWARDED(ENOSYS, ibv_set_ece, qp, MARK(0));
	FORWARDED(ENOSYS, ibv_query_ece, qp, MARK(0));
	FORWARDED(0, ibv_query_qp_data_in_order, qp, IBV_WR_SEND, 0);
}

static void forward_events(void)
{
	struct ibv_async_event event;

	for (int type = IBV_EVENT_CQ_ERR; type <= IBV_EVENT_WQ_FATAL; type++) {
		event = (struct ibv_async_event){ .event_type = (enum ibv_event_type)type };
		switch (type) {
		case IBV_EVENT_CQ_ERR:
			event.element.cq = &foreign.cq;
			break;
		case IBV_EVENT_SRQ_ERR:
		case IBV_EVENT_SRQ_LIMIT_REACHED:
			event.element.srq = &foreign.srq;
			break;
		case IBV_EVENT_WQ_FATAL:
			event.element.wq = &foreign.wq;
			break;
		case IBV_EVENT_DEVICE_FATAL:
		case IBV_EVENT_PORT_ACTIVE:
		case IBV_EVENT_PORT_ERR:
		case IBV_EVENT_LID_CHANGE:
		case IBV_EVENT_PKEY_CHANGE:
		case IBV_EVENT_SM_CHANGE:
		case IBV_EVENT_CLIENT_REREGISTER:
		case IBV_EVENT_GID_CHANGE:
			event.element.port_num = 1;
			break;
		default:
			event.element.qp = &foreign.qp;
			break;
		}
		FORWARDED_VOID(ibv_ack_async_event, &event);
	}
}

/* Stands before libc's for the library under test too, and for AddressSanitizer, which calls it
 * before any memory can be checked. */
__attribute__((visibility("default"), no_sanitize_address)) void *dlvsym(void *handle,
									 const char *name,
									 const char *version)
{
	__typeof__(&dlvsym) next = (__typeof__(&dlvsym))dlsym(RTLD_NEXT, "dlvsym");

	return missing ? NULL : next(handle, name, version);
}

static void forward_all(void)
{
	forward_device();
	forward_memory();
	forward_queues();
	forward_events();
}

/* As where libibverbs is older. First: what is found once is not looked for again. */
UNIT_TEST(functions_that_libibverbs_lacks, calls_begin)
{
	missing = true;
	forward_all();
	missing = false;
}

UNIT_TEST(objects_of_others_go_to_libibverbs, calls_begin)
{
	static const char *const in_test_lists[] = { "ibv_get_device_list", "ibv_free_device_list",
						     "ibv_import_device" };

	for (unsigned i = 0; i < 3; i++)
		calls_see(in_test_lists[i]);
	forward_all();
	FORWARDED(-1, ibv_query_gid_type, &foreign.context, 3, 5, MARK(0));
	calls_all_seen();
}
