/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Which GID is taken, and why. */
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "common/rdma/gid.h"
#include "common/softrdma/softrdma.h"

static struct ibv_gid_entry entry(const char *address, uint32_t type, uint32_t netdev)
{
	struct ibv_gid_entry e = { .gid_type = type, .ndev_ifindex = netdev };

	assert_int_equal(inet_pton(AF_INET6, address, e.gid.raw), 1);
	return e;
}

static enum gid_rank rank(const char *address, uint32_t type, uint32_t netdev)
{
	struct ibv_gid_entry e = entry(address, type, netdev);
	struct gid_verdict v;

	gid_judge(&e, 7, &v);
	assert_non_null(v.reason);
	return v.rank;
}

static void ranks(void **state)
{
	const uint32_t v2 = IBV_GID_TYPE_ROCE_V2, v1 = IBV_GID_TYPE_ROCE_V1;

	assert_int_equal(rank("::ffff:10.0.0.1", v2, 7), GID_V2_IPV4_NETDEV);
	assert_int_equal(rank("::ffff:10.0.0.1", v2, 8), GID_V2_IPV4);
	assert_int_equal(rank("2001:db8::1", v2, 7), GID_V2_IPV6);
	assert_int_equal(rank("fe80::1", v2, 7), GID_V2_LINK_LOCAL);
	assert_int_equal(rank("::ffff:10.0.0.1", v1, 7), GID_V1);
	assert_int_equal(rank("fe80::1", v1, 7), GID_V1);
	assert_int_equal(rank("::", v2, 7), GID_UNUSABLE);
	assert_int_equal(rank("fe80::1", IBV_GID_TYPE_IB, 7), GID_UNUSABLE);
}

/* A device with a table of our making. */
static struct ibv_gid_entry table[8];
static int table_len;

static int query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
			struct ibv_gid_entry *out, uint32_t flags)
{
	static const union ibv_gid zero;

	if ((int)index >= table_len)
		return EINVAL;
	if (memcmp(&table[index].gid, &zero, sizeof(zero)) == 0)
		return ENODATA;
	*out = table[index];
	out->gid_index = index;
	return 0;
}

static const struct rdma_provider provider = { .name = "test", .query_gid_ex = query_gid_ex };

static struct rdma_device device(int want, int len, uint8_t link_layer)
{
	struct rdma_device dev = {
		.ops = &provider,
		.options = { .gid_index = want },
		.port = 1,
		.port_attr = { .gid_tbl_len = len, .link_layer = link_layer, .lid = 4 },
		.name = "test0",
	};

	table_len = len;
	memset(table, 0, sizeof(table));
	return dev;
}

static void the_best_is_taken(void **state)
{
	struct rdma_device dev = device(RDMA_GID_AUTO, 6, IBV_LINK_LAYER_ETHERNET);
	struct error err;

	table[0] = entry("fe80::1", IBV_GID_TYPE_ROCE_V1, 1);
	table[1] = entry("fe80::1", IBV_GID_TYPE_ROCE_V2, 1);
	table[3] = entry("::ffff:192.0.2.1", IBV_GID_TYPE_ROCE_V1, 1); /* 2 is empty */
	table[4] = entry("::ffff:192.0.2.1", IBV_GID_TYPE_ROCE_V2, 1);
	table[5] = entry("2001:db8::1", IBV_GID_TYPE_ROCE_V2, 1);
	assert_int_equal(gid_choose(&dev, NULL, &err), 0);
	assert_int_equal(dev.gid_index, 4);
	assert_true(dev.has_gid);
	assert_non_null(strstr(dev.choice, "RoCE v2, IPv4"));
}

static void the_address_decides(void **state)
{
	struct rdma_device dev = device(RDMA_GID_AUTO, 2, IBV_LINK_LAYER_ETHERNET);
	unsigned lo = gid_netdev_of("127.0.0.1");
	struct error err;

	assert_int_not_equal(lo, 0);
	table[0] = entry("::ffff:192.0.2.1", IBV_GID_TYPE_ROCE_V2, lo + 1);
	table[1] = entry("::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V2, lo);
	assert_int_equal(gid_choose(&dev, "127.0.0.1", &err), 0);
	assert_int_equal(dev.gid_index, 1);
}

static void none_and_named(void **state)
{
	struct rdma_device dev = device(RDMA_GID_AUTO, 3, IBV_LINK_LAYER_ETHERNET);
	struct error err;

	assert_int_equal(gid_choose(&dev, NULL, &err), -ENODATA);
	dev = device(3, 3, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(gid_choose(&dev, NULL, &err), -ERANGE);
	assert_non_null(strstr(err.text, "0 to 2"));
	dev = device(1, 3, IBV_LINK_LAYER_ETHERNET);
	table[0] = entry("::ffff:192.0.2.1", IBV_GID_TYPE_ROCE_V2, 1);
	assert_int_equal(gid_choose(&dev, NULL, &err), -ERANGE); /* empty */
	table[1] = entry("fe80::1", IBV_GID_TYPE_ROCE_V1, 1);
	assert_int_equal(gid_choose(&dev, NULL, &err), 0); /* asked for: taken */
	assert_int_equal(dev.gid_index, 1);
	dev = device(RDMA_GID_AUTO, 0, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(gid_choose(&dev, NULL, &err), 0);
	assert_false(dev.has_gid);
}

/* soft0 has the table of a RoCE NIC: its IPv4 address as RoCE v2 is the one for 127.0.0.1. */
static void loopback_on_soft0(void **state)
{
	struct rdma_device dev = device(RDMA_GID_AUTO, 0, IBV_LINK_LAYER_ETHERNET);
	struct error err;

	(void)state;
	dev.ops = &rdma_provider_soft;
	dev.context = softrdma_open_device(softrdma_device());
	assert_non_null(dev.context);
	assert_int_equal(softrdma_query_port(dev.context, 1, &dev.port_attr), 0);
	assert_int_equal(gid_choose(&dev, "127.0.0.1", &err), 0);
	assert_int_equal(dev.gid_index, 3);
	assert_non_null(strstr(dev.choice, "of the network device"));
	assert_int_equal(gid_choose(&dev, NULL, &err), 0);
	assert_int_equal(dev.gid_index, 3);
	assert_int_equal(softrdma_close_device(dev.context), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks),
		cmocka_unit_test(the_best_is_taken),
		cmocka_unit_test(the_address_decides),
		cmocka_unit_test(none_and_named),
		cmocka_unit_test(loopback_on_soft0),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
