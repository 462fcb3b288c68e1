/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Which GID is taken, and why. */
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
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
	struct gid_address near = { .known = true, .netdev = 7 };
	struct ibv_gid_entry e = entry(address, type, netdev);
	struct gid_verdict v;

	assert_int_equal(inet_pton(AF_INET6, "::ffff:10.0.0.9", near.gid.raw), 1);
	gid_judge(&e, &near, &v);
	assert_non_null(v.reason);
	return v.rank;
}

UNIT_TEST(ranks)
{
	const uint32_t v2 = IBV_GID_TYPE_ROCE_V2, v1 = IBV_GID_TYPE_ROCE_V1;

	assert_int_equal(rank("::ffff:10.0.0.9", v2, 8), GID_V2_EXCHANGE);
	assert_int_equal(rank("::ffff:10.0.0.9", v1, 7), GID_V1);
	assert_int_equal(rank("::ffff:10.0.0.1", v2, 7), GID_V2_IPV4_NETDEV);
	assert_int_equal(rank("::ffff:10.0.0.1", v2, 8), GID_V2_IPV4);
	assert_int_equal(rank("2001:db8::1", v2, 7), GID_V2_IPV6);
	assert_int_equal(rank("fe80::1", v2, 7), GID_V2_LINK_LOCAL);
	assert_int_equal(rank("::ffff:10.0.0.1", v1, 7), GID_V1);
	assert_int_equal(rank("fe80::1", v1, 7), GID_V1);
	assert_int_equal(rank("::", v2, 7), GID_UNUSABLE);
	assert_int_equal(rank("fe80::1", IBV_GID_TYPE_IB, 7), GID_UNUSABLE);
}

UNIT_TEST(addresses)
{
	struct gid_address a = gid_address("127.0.0.1");
	unsigned lo = if_nametoindex("lo");

	assert_int_not_equal(lo, 0);
	assert_true(a.known);
	assert_true(gid_is_ipv4(&a.gid));
	assert_int_equal(a.gid.raw[12], 127);
	assert_int_equal(a.netdev, lo);
	a = gid_address("fe80::77%nosuchlink");
	assert_true(a.known);
	assert_int_equal(a.gid.raw[15], 0x77);
	assert_int_equal(a.netdev, 0);
	a = gid_address("::ffff:127.0.0.1"); /* as a socket for both families has it */
	assert_true(gid_is_ipv4(&a.gid));
	assert_int_equal(a.netdev, lo);
	assert_false(gid_address("0.0.0.0").known && gid_address("0.0.0.0").netdev);
	assert_false(gid_address("::").known);
	assert_false(gid_address("localhost").known);
	assert_false(gid_address("").known);
	assert_false(gid_address(NULL).known);
}

/* A device with a table of our making: what is not empty, in no order, of two ports. */
static struct ibv_gid_entry table[8];
static int table_len;

static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *out, size_t max,
			       uint32_t flags)
{
	static const union ibv_gid zero;
	size_t n = 0;

	for (int i = table_len - 1; i >= 0; i--) {
		if (memcmp(&table[i].gid, &zero, sizeof(zero)) == 0)
			continue;
		if (n == max)
			return -EINVAL;
		out[n] = table[i];
		out[n].gid_index = (uint32_t)i;
		out[n++].port_num = 1;
	}
	if (n == max)
		return -EINVAL;
	out[n] = table[0];
	assert_int_equal(inet_pton(AF_INET6, "::ffff:192.0.2.77", out[n].gid.raw), 1);
	out[n].gid_type = IBV_GID_TYPE_ROCE_V2;
	out[n].gid_index = 1;
	out[n++].port_num = 2;
	return (ssize_t)n;
}

static const struct rdma_provider provider = { .name = "test", .query_gid_table = query_gid_table };

static struct rdma_device device(int want, int len, uint8_t link_layer)
{
	struct rdma_device dev = {
		.ops = &provider,
		.options = { .gid_index = want },
		.attr = { .phys_port_cnt = 2 },
		.port = 1,
		.port_attr = { .gid_tbl_len = len, .link_layer = link_layer, .lid = 4 },
		.name = "test0",
	};

	table_len = len;
	memset(table, 0, sizeof(table));
	return dev;
}

UNIT_TEST(the_best_is_taken)
{
	struct rdma_device dev = device(RDMA_GID_AUTO, 6, IBV_LINK_LAYER_ETHERNET);
	struct gid_choice c;
	struct error err;

	table[0] = entry("fe80::1", IBV_GID_TYPE_ROCE_V1, 1);
	table[1] = entry("fe80::1", IBV_GID_TYPE_ROCE_V2, 1);
	table[3] = entry("::ffff:192.0.2.1", IBV_GID_TYPE_ROCE_V1, 1); /* 2 is empty */
	table[4] = entry("::ffff:192.0.2.1", IBV_GID_TYPE_ROCE_V2, 1);
	table[5] = entry("2001:db8::1", IBV_GID_TYPE_ROCE_V2, 1);
	assert_int_equal(gid_choose(&dev, NULL, &c, &err), 0);
	assert_int_equal(c.source.gid_index, 4);
	assert_true(c.source.has_gid && c.source.grh);
	assert_int_equal(c.source.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_false(c.warn);
	assert_non_null(strstr(c.why, "RoCE v2, IPv4"));
	/* an exchange over IPv6 takes IPv6: its other end has no other address for it */
	assert_int_equal(gid_choose(&dev, "2001:db8::1", &c, &err), 0);
	assert_int_equal(c.source.gid_index, 5);
	table[1] = table[4] = table[5] = (struct ibv_gid_entry){ 0 };
	assert_int_equal(gid_choose(&dev, NULL, &c, &err), 0);
	assert_int_equal(c.source.gid_index, 0);
	assert_true(c.warn);
	assert_non_null(strstr(c.why, "RoCE v1"));
}

static const char *explained(const struct rdma_device *dev, unsigned index,
			     const struct gid_choice *taken, bool is_it)
{
	const struct gid_address unknown = { 0 };
	static char text[192];
	struct ibv_gid_entry e = table[index < 8 ? index : 0];

	e.gid_index = index;
	assert_int_equal(gid_explain(dev, &e, &unknown, taken, text, sizeof(text)), is_it);
	return text;
}

UNIT_TEST(each_entry_is_explained)
{
	struct rdma_device dev = device(RDMA_GID_AUTO, 6, IBV_LINK_LAYER_ETHERNET);
	struct gid_choice c;
	struct error err;

	table[0] = entry("fe80::1", IBV_GID_TYPE_ROCE_V1, 1);
	table[1] = entry("::ffff:192.0.2.1", IBV_GID_TYPE_ROCE_V2, 1);
	table[2] = entry("::ffff:192.0.2.2", IBV_GID_TYPE_ROCE_V2, 1);
	table[3] = entry("fe80::1", IBV_GID_TYPE_IB, 1);
	assert_int_equal(gid_choose(&dev, NULL, &c, &err), 0);
	assert_string_equal(explained(&dev, 1, &c, true), "taken: RoCE v2, IPv4");
	assert_non_null(strstr(explained(&dev, 0, &c, false), "1 is better"));
	assert_non_null(strstr(explained(&dev, 2, &c, false), "1 is the first such"));
	assert_non_null(strstr(explained(&dev, 3, &c, false), "cannot be taken: not a RoCE GID"));
	assert_non_null(strstr(explained(&dev, 256, &c, false), "cannot be taken: an address"));
	assert_memory_equal(explained(&dev, 1, NULL, false), "not taken: RoCE v2", 18);
	dev.options.gid_index = 2; /* asked for */
	assert_int_equal(gid_choose(&dev, NULL, &c, &err), 0);
	assert_non_null(strstr(explained(&dev, 2, &c, true), "as asked for"));
	assert_non_null(strstr(explained(&dev, 1, &c, false), "2 was asked for"));
	dev = device(RDMA_GID_AUTO, 2, IBV_LINK_LAYER_INFINIBAND);
	table[0] = entry("fe80::5", IBV_GID_TYPE_IB, 0);
	table[1] = entry("fe80::6", IBV_GID_TYPE_IB, 0);
	assert_int_equal(gid_choose(&dev, NULL, &c, &err), 0);
	assert_non_null(strstr(explained(&dev, 0, &c, true), "packets go by LID"));
	assert_non_null(strstr(explained(&dev, 1, &c, false), "0 is the first such"));
}

UNIT_TEST(the_address_decides)
{
	struct rdma_device dev = device(RDMA_GID_AUTO, 3, IBV_LINK_LAYER_ETHERNET);
	unsigned lo = gid_address("127.0.0.1").netdev;
	struct gid_choice c;
	struct error err;

	assert_int_not_equal(lo, 0);
	table[0] = entry("::ffff:192.0.2.1", IBV_GID_TYPE_ROCE_V2, lo + 1);
	table[1] = entry("::ffff:192.0.2.2", IBV_GID_TYPE_ROCE_V2, lo);
	assert_int_equal(gid_choose(&dev, "127.0.0.1", &c, &err), 0);
	assert_int_equal(c.source.gid_index, 1);
	assert_non_null(strstr(c.why, "network device"));
	table[2] = entry("::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V2, lo);
	assert_int_equal(gid_choose(&dev, "127.0.0.1", &c, &err), 0);
	assert_int_equal(c.source.gid_index, 2);
	assert_non_null(strstr(c.why, "exchange"));
}

UNIT_TEST(none_and_named)
{
	struct rdma_device dev = device(RDMA_GID_AUTO, 3, IBV_LINK_LAYER_ETHERNET);
	struct gid_choice c;
	struct error err;

	assert_int_equal(gid_choose(&dev, NULL, &c, &err), -ENODATA);
	dev = device(3, 3, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(gid_choose(&dev, NULL, &c, &err), -ERANGE);
	assert_non_null(strstr(err.text, "out of range"));
	assert_non_null(strstr(err.text, "0 to 2"));
	dev = device(1, 3, IBV_LINK_LAYER_ETHERNET);
	table[0] = entry("::ffff:192.0.2.1", IBV_GID_TYPE_ROCE_V2, 1);
	assert_int_equal(gid_choose(&dev, NULL, &c, &err), -ERANGE);
	assert_non_null(strstr(err.text, "empty"));
	table[1] = entry("fe80::1", IBV_GID_TYPE_ROCE_V1, 1);
	assert_int_equal(gid_choose(&dev, NULL, &c, &err), 0); /* asked for: taken */
	assert_int_equal(c.source.gid_index, 1);
	assert_non_null(strstr(c.why, "as asked for"));
}

UNIT_TEST(infiniband)
{
	struct rdma_device dev = device(RDMA_GID_AUTO, 2, IBV_LINK_LAYER_INFINIBAND);
	struct gid_choice c;
	struct error err;

	assert_int_equal(gid_choose(&dev, NULL, &c, &err), 0); /* none: the LID does */
	assert_false(c.source.has_gid || c.source.grh);
	table[0] = entry("fe80::2:c903:0:1", IBV_GID_TYPE_IB, 0);
	assert_int_equal(gid_choose(&dev, NULL, &c, &err), 0);
	assert_true(c.source.has_gid);
	assert_false(c.source.grh);
	assert_non_null(strstr(c.why, "LID 4"));
	dev.options.gid_index = 0;
	assert_int_equal(gid_choose(&dev, NULL, &c, &err), 0);
	assert_true(c.source.grh);
}

/* soft0 has the table of a RoCE NIC: its IPv4 address as RoCE v2 is the one for 127.0.0.1. */
UNIT_TEST(loopback_on_soft0)
{
	struct rdma_device dev = device(RDMA_GID_AUTO, 0, IBV_LINK_LAYER_ETHERNET);
	struct gid_choice c;
	struct error err;

	dev.ops = &rdma_provider_soft;
	dev.context = softrdma_open_device(softrdma_device());
	assert_non_null(dev.context);
	assert_int_equal(softrdma_query_port(dev.context, 1, &dev.port_attr), 0);
	assert_int_equal(gid_choose(&dev, "127.0.0.1", &c, &err), 0);
	assert_int_equal(c.source.gid_index, 3);
	assert_int_equal(gid_choose(&dev, NULL, &c, &err), 0);
	assert_int_equal(c.source.gid_index, 3);
	assert_int_equal(softrdma_close_device(dev.context), 0);
}
