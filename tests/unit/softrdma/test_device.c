/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What the device and its port say of themselves, and what they say that they have not. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "ends.h"

#define GIDS 4

static int device_open(void **state)
{
	*state = softrdma_open_device(softrdma_device());
	assert_non_null(*state);
	return 0;
}

static int device_close(void **state)
{
	assert_ok(softrdma_close_device(*state));
	return 0;
}

UNIT_TEST(test_device)
{
	struct ibv_device_attr dev;

	memset(&dev, 0xff, sizeof(dev));
	assert_ok(softrdma_query_device(*state, &dev));
	assert_int_equal(dev.max_sge, 16);
	assert_int_equal(dev.max_qp_rd_atom, 16);
	assert_int_equal(dev.max_pkeys, 1);
	assert_int_equal(dev.phys_port_cnt, 1);
	assert_true(dev.max_ah > 0);
	assert_true(dev.node_guid != 0 && dev.node_guid == dev.sys_image_guid);
	/* not there, and not left as it was */
	assert_int_equal(dev.max_mw, 0);
	assert_int_equal(dev.max_fmr, 0);
	assert_int_equal(dev.max_ee, 0);
	assert_int_equal(dev.max_mcast_grp, 0);
	assert_false(dev.device_cap_flags & (IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC |
					     IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_RESIZE_MAX_WR));
}

UNIT_TEST(test_device_ex)
{
	struct ibv_query_device_ex_input input = { .comp_mask = 0 };
	struct ibv_device_attr plain;
	union {
		struct ibv_device_attr_ex ex;
		unsigned char raw[sizeof(struct ibv_device_attr_ex) + 64];
	} attr;
	const struct verbs_context *ex = verbs_get_ctx(*state);

	assert_ok(softrdma_query_device(*state, &plain));
	memset(&attr, 0xff, sizeof(attr));
	assert_ok(softrdma_query_device_ex(*state, NULL, &attr.ex, sizeof(attr.ex)));
	assert_memory_equal(&attr.ex.orig_attr, &plain, sizeof(plain));
	assert_int_equal(attr.ex.device_cap_flags_ex, plain.device_cap_flags);
	assert_int_equal(attr.ex.phys_port_cnt_ex, 1);
	assert_int_equal(attr.ex.comp_mask, 0);
	assert_int_equal(attr.ex.odp_caps.general_caps, 0);
	assert_int_equal(attr.ex.tso_caps.max_tso, 0);
	assert_int_equal(attr.ex.rss_caps.supported_qpts, 0);
	assert_int_equal(attr.ex.tm_caps.max_num_tags, 0);
	assert_int_equal(attr.ex.max_dm_size, 0);
	assert_int_equal(attr.ex.max_wq_type_rq, 0);
	assert_int_equal(attr.raw[sizeof(attr.ex)], 0xff); /* not after its size */
	/* programs built with an older verbs.h, and with a newer one */
	memset(&attr, 0xff, sizeof(attr));
	assert_ok(softrdma_query_device_ex(
		*state, NULL, &attr.ex,
		offsetof(struct ibv_device_attr_ex, completion_timestamp_mask)));
	assert_memory_equal(&attr.ex.orig_attr, &plain, sizeof(plain));
	assert_int_equal(attr.ex.odp_caps.general_caps, 0);
	assert_int_equal(attr.raw[offsetof(struct ibv_device_attr_ex, completion_timestamp_mask)],
			 0xff);
	memset(&attr, 0xff, sizeof(attr));
	assert_ok(softrdma_query_device_ex(*state, &input, &attr.ex, sizeof(attr)));
	assert_int_equal(attr.raw[sizeof(attr) - 1], 0);
	assert_int_equal(softrdma_query_device_ex(*state, NULL, &attr.ex, sizeof(plain)), EINVAL);
	input.comp_mask = 1;
	assert_int_equal(softrdma_query_device_ex(*state, &input, &attr.ex, sizeof(attr.ex)),
			 EINVAL);
	/* the inline function asks here, and not for the plain one */
	assert_ptr_equal(ex->query_device_ex, softrdma_query_device_ex);
}

UNIT_TEST(test_port)
{
	struct ibv_port_attr port, direct;
	size_t old = offsetof(struct ibv_port_attr, port_cap_flags2);
	struct verbs_context *ex = verbs_get_ctx(*state);

	memset(&port, 0xff, sizeof(port));
	assert_int_equal(ex->query_port(*state, 1, &port, sizeof(port)), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(port.lid, 0);
	assert_int_equal(port.sm_lid, 0);
	assert_int_equal(port.lmc, 0);
	assert_int_equal(port.flags, IBV_QPF_GRH_REQUIRED);
	assert_int_equal(port.gid_tbl_len, GIDS);
	assert_int_equal(port.pkey_tbl_len, 1);
	assert_int_equal(port.port_cap_flags2, 0);
	memset(&direct, 0xff, sizeof(direct));
	assert_ok(softrdma_query_port(*state, 1, &direct));
	assert_memory_equal(&port, &direct, sizeof(port));
	memset(&port, 0xff, sizeof(port));
	assert_int_equal(ex->query_port(*state, 1, &port, old), 0);
	assert_memory_equal(&port, &direct, old);
	assert_int_equal(port.port_cap_flags2, 0xffff);
	assert_int_equal(softrdma_query_port(*state, 0, &port), EINVAL);
	assert_int_equal(softrdma_query_port(*state, 2, &port), EINVAL);
}

UNIT_TEST(test_gids)
{
	static const struct {
		const char *text;
		enum ibv_gid_type type;
	} want[GIDS] = {
		{ "fe80::ff:fe00:1", IBV_GID_TYPE_ROCE_V1 },
		{ "fe80::ff:fe00:1", IBV_GID_TYPE_ROCE_V2 },
		{ "::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V1 },
		{ "::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V2 },
	};
	struct ibv_gid_entry entry, table[GIDS + 1];
	char text[INET6_ADDRSTRLEN];
	unsigned char narrow[GIDS][sizeof(entry.gid)];
	struct {
		struct ibv_gid_entry entry;
		uint32_t newer;
	} wide[GIDS];
	union ibv_gid gid;

	memset(wide, 0xff, sizeof(wide));
	assert_int_equal(softrdma_query_gid_table(*state, table, GIDS + 1, 0, sizeof(entry)), GIDS);
	assert_int_equal(softrdma_query_gid_table(*state, (struct ibv_gid_entry *)(void *)narrow,
						  GIDS, 0, sizeof(narrow[0])),
			 GIDS);
	assert_int_equal(softrdma_query_gid_table(*state, &wide[0].entry, GIDS, 0, sizeof(wide[0])),
			 GIDS);
	for (unsigned i = 0; i < GIDS; i++) {
		assert_ok(softrdma_query_gid_ex(*state, 1, i, &entry, 0));
		assert_string_equal(inet_ntop(AF_INET6, entry.gid.raw, text, sizeof(text)),
				    want[i].text);
		assert_int_equal(entry.gid_type, want[i].type);
		assert_int_equal(entry.gid_index, i);
		assert_int_equal(entry.port_num, 1);
		assert_int_equal(entry.ndev_ifindex, if_nametoindex("lo"));
		assert_ok(softrdma_query_gid(*state, 1, (int)i, &gid));
		assert_memory_equal(&gid, &entry.gid, sizeof(gid));
		assert_memory_equal(&table[i], &entry, sizeof(entry));
		assert_memory_equal(&wide[i].entry, &entry, sizeof(entry));
		assert_int_equal(wide[i].newer, 0);
		assert_memory_equal(narrow[i], &gid, sizeof(gid));
	}
	assert_int_equal(softrdma_query_gid_ex(*state, 1, GIDS, &entry, 0), ENODATA);
	assert_int_equal(softrdma_query_gid_ex(*state, 1, 0, &entry, 1), EINVAL);
	assert_int_equal(softrdma_query_gid_ex(*state, 2, 0, &entry, 0), EINVAL);
	assert_int_equal(softrdma_query_gid(*state, 1, GIDS, &gid), -1);
	assert_int_equal(softrdma_query_gid(*state, 1, -1, &gid), -1);
	assert_int_equal(softrdma_query_gid_table(*state, table, GIDS - 1, 0, sizeof(entry)),
			 -EINVAL);
	assert_int_equal(softrdma_query_gid_table(*state, table, GIDS, 1, sizeof(entry)), -EINVAL);
	assert_int_equal(softrdma_query_gid_table(*state, table, GIDS, 0, 0), -EINVAL);
}

UNIT_TEST(test_pkeys)
{
	__be16 pkey = 0;

	assert_ok(softrdma_query_pkey(*state, 1, 0, &pkey));
	assert_int_equal(ntohs(pkey), 0xffff);
	assert_int_equal(softrdma_query_pkey(*state, 1, 1, &pkey), -1);
	assert_ok(softrdma_get_pkey_index(*state, 1, pkey));
	assert_int_equal(softrdma_get_pkey_index(*state, 1, htons(0x7fff)), -1);
	assert_int_equal(softrdma_get_pkey_index(*state, 2, pkey), -1);
}

/* A call that returns a pointer, or an errno: it must be NULL, and EOPNOTSUPP. */
#define ABSENT(call)                                 \
	do {                                         \
		errno = 0;                           \
		assert_null(call);                   \
		assert_int_equal(errno, EOPNOTSUPP); \
	} while (0)
#define REFUSED(call) assert_int_equal(call, EOPNOTSUPP)

/* All that verbs.h has inline and soft0 has not. Objects that cannot be had are made up. */
UNIT_TEST(test_not_supported)
{
	struct ibv_context *context = *state;
	struct ibv_pd *pd = softrdma_alloc_pd(context);
	struct ibv_qp qp = { .context = context };
	struct ibv_srq srq = { .context = context };
	struct ibv_cq cq = { .context = context };
	struct ibv_mw mw = { .context = context, .pd = pd, .type = IBV_MW_TYPE_1 };
	struct ibv_mw_bind bind = { .wr_id = 1 };
	struct ibv_xrcd xrcd = { .context = context };
	struct ibv_flow flow = { .context = context };
	struct ibv_flow_action action = { .context = context };
	struct ibv_dm dm = { .context = context };
	struct ibv_td td = { .context = context };
	struct ibv_wq wq = { .context = context };
	struct ibv_rwq_ind_table ind = { .context = context };
	struct ibv_counters counters = { .context = context };
	struct ibv_ops_wr op = { .wr_id = 1 }, *bad_op = NULL;
	struct ibv_sge sge = { .length = 1 };
	uint32_t number;

	ABSENT(ibv_open_xrcd(context, &(struct ibv_xrcd_init_attr){ .fd = -1 }));
	REFUSED(ibv_close_xrcd(&xrcd));
	ABSENT(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	REFUSED(ibv_bind_mw(&qp, &mw, &bind));
	REFUSED(ibv_dealloc_mw(&mw));
	ABSENT(ibv_alloc_dm(context, &(struct ibv_alloc_dm_attr){ .length = 64 }));
	REFUSED(ibv_free_dm(&dm));
	ABSENT(ibv_reg_dm_mr(pd, &dm, 0, 64, 0));
	ABSENT(ibv_alloc_null_mr(pd));
	REFUSED(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
	ABSENT(ibv_create_flow(&qp, &(struct ibv_flow_attr){ .port = 1 }));
	REFUSED(ibv_destroy_flow(&flow));
	ABSENT(ibv_create_flow_action_esp(context, &(struct ibv_flow_action_esp_attr){ .esn = 1 }));
	REFUSED(ibv_modify_flow_action_esp(&action,
					   &(struct ibv_flow_action_esp_attr){ .esn = 1 }));
	REFUSED(ibv_destroy_flow_action(&action));
	ABSENT(ibv_create_wq(context, &(struct ibv_wq_init_attr){ .max_wr = 1 }));
	REFUSED(ibv_modify_wq(&wq, &(struct ibv_wq_attr){ .attr_mask = 0 }));
	REFUSED(ibv_destroy_wq(&wq));
	ABSENT(ibv_create_rwq_ind_table(context,
					&(struct ibv_rwq_ind_table_init_attr){ .comp_mask = 0 }));
	REFUSED(ibv_destroy_rwq_ind_table(&ind));
	ABSENT(ibv_create_counters(context, &(struct ibv_counters_init_attr){ .comp_mask = 0 }));
	REFUSED(ibv_attach_counters_point_flow(&counters, NULL, &flow));
	REFUSED(ibv_read_counters(&counters, NULL, 0, 0));
	REFUSED(ibv_destroy_counters(&counters));
	ABSENT(ibv_alloc_td(context, &(struct ibv_td_init_attr){ .comp_mask = 0 }));
	REFUSED(ibv_dealloc_td(&td));
	ABSENT(ibv_alloc_parent_domain(context, &(struct ibv_parent_domain_init_attr){ .pd = pd }));
	ABSENT(ibv_open_qp(context, &(struct ibv_qp_open_attr){ .comp_mask = 0 }));
	REFUSED(ibv_modify_qp_rate_limit(&qp, &(struct ibv_qp_rate_limit_attr){ .rate_limit = 1 }));
	REFUSED(ibv_get_srq_num(&srq, &number));
	REFUSED(ibv_post_srq_ops(&srq, &op, &bad_op));
	assert_ptr_equal(bad_op, &op);
	REFUSED(ibv_modify_cq(&cq, &(struct ibv_modify_cq_attr){ .attr_mask = 0 }));
	REFUSED(ibv_query_rt_values_ex(context, &(struct ibv_values_ex){ .comp_mask = 1 }));
	assert_ok(softrdma_dealloc_pd(pd));
}

int main(void)
{
	unsetenv("SOFTRDMA_LINK");
	return unit_run(device_open, device_close);
}
