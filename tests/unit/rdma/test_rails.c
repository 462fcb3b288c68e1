/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Which of several rails auto takes: that of the exchange's address. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>

#include "common/rdma/device.h"
#include "common/rdma/gid.h"
#include "common/rdma/loopback.h"
#include "tests/lib/fake_device.h"

static struct error err;

/* Two ports of one NIC, one device each, as mlx5 shows them; each rail a network of its own. */
static int two_rails(void **state)
{
	fake_reset();
	fake_say("netdev eth0 30 192.168.1.5 # for people to log in, without RDMA");
	fake_say("netdev rail0 40 10.0.0.1");
	fake_say("netdev rail0 40 2001:db8:0::1");
	fake_say("netdev rail0 40 fe80::1");
	fake_say("netdev rail1 41 10.0.1.1");
	fake_say("netdev rail1 41 2001:db8:1::1");
	fake_say("netdev rail1 41 fe80::1");
	for (unsigned i = 0; i < 2; i++) {
		fake_say("device mlx5_%u", i);
		fake_say("gid mlx5_%u 1 0 v1 fe80::1 rail%u", i, i);
		fake_say("gid mlx5_%u 1 1 v2 fe80::1 rail%u", i, i);
		fake_say("gid mlx5_%u 1 2 v1 10.0.%u.1 rail%u", i, i, i);
		fake_say("gid mlx5_%u 1 3 v2 10.0.%u.1 rail%u", i, i, i);
		fake_say("gid mlx5_%u 1 4 v1 2001:db8:%u::1 rail%u", i, i, i);
		fake_say("gid mlx5_%u 1 5 v2 2001:db8:%u::1 rail%u", i, i, i);
	}
	return 0;
}

/* Two ports of one device, without GIDs yet. */
static int two_ports(void **state)
{
	fake_reset();
	fake_say("netdev rail0 40 10.0.0.1");
	fake_say("netdev rail1 41 10.0.1.1");
	fake_say("device mlx4_0 ports=2");
	return 0;
}

static struct rdma_device *opened(const char *name, const char *address)
{
	struct rdma_options o = rdma_options_default();
	struct rdma_device *dev;

	o.device = name;
	assert_ok(rdma_device_open(&dev, &o, address, &err));
	return dev;
}

/* What auto takes for an address; 0 of @gid: whichever. */
static void takes(const char *address, const char *name, unsigned port, int gid, const char *words)
{
	struct rdma_device *dev = opened("auto", address);

	assert_string_equal(dev->name, name);
	assert_int_equal(dev->port, port);
	if (gid)
		assert_int_equal(dev->source.gid_index, gid);
	if (!strstr(dev->choice, words))
		fail_msg("'%s' is not in: %s", words, dev->choice);
	assert_ok(rdma_loopback_read(dev, 2000, &err));
	rdma_device_close(dev);
}

UNIT_TEST(the_rail_of_the_exchanges_address, two_rails)
{
	takes("10.0.0.1", "mlx5_0", 1, 3, "network device rail0 holds 10.0.0.1");
	takes("10.0.1.1", "mlx5_1", 1, 3, "network device rail1 holds 10.0.1.1");
	takes("2001:db8:0::1", "mlx5_0", 1, 5, "rail0 holds 2001:db8:0::1");
	takes("2001:db8:1::1", "mlx5_1", 1, 5, "rail1 holds 2001:db8:1::1");
	takes("::ffff:10.0.1.1", "mlx5_1", 1, 3, "rail1 holds ::ffff:10.0.1.1");
}

/* Both rails have the same link-local address: the scope tells them apart. */
UNIT_TEST(a_link_local_address_has_its_scopes_rail, two_rails)
{
	takes("fe80::1%rail0", "mlx5_0", 1, 1, "rail0 holds fe80::1%rail0");
	takes("fe80::1%rail1", "mlx5_1", 1, 1, "rail1 holds fe80::1%rail1");
}

UNIT_TEST(the_gids_of_a_vlan_belong_to_its_rail, two_rails)
{
	fake_say("netdev rail1.100 60 10.1.1.1");
	fake_say("netdev rail1.200 61 10.2.1.1");
	fake_say("gid mlx5_1 1 6 v2 10.1.1.1 rail1.100");
	fake_say("gid mlx5_1 1 7 v2 fe80::1 rail1.200");
	fake_say("gid mlx5_1 1 8 v2 10.2.1.9 rail1.200");
	takes("10.1.1.1", "mlx5_1", 1, 6, "rail1.100 holds 10.1.1.1");
	takes("10.2.1.1", "mlx5_1", 1, 8,
	      "rail1.200 holds 10.2.1.1"); /* another of its addresses */
}

/* The rail counts more than the version: v2 on the other one reaches nobody. */
UNIT_TEST(a_rail_with_v1_alone_is_still_the_rail, two_rails)
{
	for (int i = 1; i <= 5; i += 2)
		fake_say("gid mlx5_1 1 %d none", i);
	takes("10.0.1.1", "mlx5_1", 1, 0, "rail1 holds 10.0.1.1");
	takes("2001:db8:1::1", "mlx5_1", 1, 0, "rail1 holds 2001:db8:1::1");
}

UNIT_TEST(an_address_of_no_rail_takes_the_best_gid_and_says_so, two_rails)
{
	struct rdma_device *dev = opened("auto", "192.168.1.5");

	assert_true(dev->guessed);
	rdma_device_close(dev);
	takes("192.168.1.5", "mlx5_0", 1, 3, "none of 2 ACTIVE ports is of the network device");
	takes("127.0.0.1", "mlx5_0", 1, 3, "that holds 127.0.0.1");
	takes("10.9.9.9", "mlx5_0", 1, 3, "that holds 10.9.9.9"); /* of another machine */
	for (int i = 1; i <= 5; i += 2)
		fake_say("gid mlx5_0 1 %d none", i);
	takes("192.168.1.5", "mlx5_1", 1, 3, "that holds 192.168.1.5");
}

UNIT_TEST(all_addresses_are_no_rails_address, two_rails)
{
	static const char *const all[] = { NULL, "0.0.0.0", "::", "" };

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct rdma_device *dev = opened("auto", all[i]);

		assert_int_equal(dev->guessed, i == 1 || i == 2);
		rdma_device_close(dev);
		takes(all[i], "mlx5_0", 1, 3, "the first of 2 ACTIVE ports");
	}
	takes("0.0.0.0", "mlx5_0", 1, 3, "0.0.0.0 names no network device");
}

UNIT_TEST(a_rail_that_is_down_is_not_taken, two_rails)
{
	struct rdma_device *dev;

	fake_say("port mlx5_1 1 state=down");
	dev = opened("auto", "10.0.1.1");
	assert_string_equal(dev->name, "mlx5_0");
	assert_false(dev->guessed); /* there is no other */
	rdma_device_close(dev);
	fake_say("port mlx5_0 1 state=down");
	dev = opened("auto", "10.0.1.1");
	assert_true(dev->software);
	assert_non_null(strstr(dev->choice, "port 1 of device mlx5_1 is DOWN"));
	rdma_device_close(dev);
}

UNIT_TEST(a_device_with_a_name_stays, two_rails)
{
	struct rdma_device *dev = opened("mlx5_0", "10.0.1.1");

	assert_string_equal(dev->name, "mlx5_0");
	assert_false(dev->guessed);
	assert_non_null(strstr(dev->choice, "as asked for"));
	rdma_device_close(dev);
}

UNIT_TEST(of_one_device_the_port_with_the_rail, two_ports)
{
	struct rdma_options o = rdma_options_default();
	struct rdma_device *dev;

	fake_say("gid mlx4_0 1 0 v2 10.0.0.1 rail0");
	fake_say("gid mlx4_0 2 0 v2 10.0.1.1 rail1");
	takes("10.0.0.1", "mlx4_0", 1, 0, "rail0");
	takes("10.0.1.1", "mlx4_0", 2, 0, "rail1");
	dev = opened("mlx4_0", "10.0.1.1"); /* the device was named, the port was not */
	assert_int_equal(dev->port, 2);
	rdma_device_close(dev);
	o.ib_port = 1;
	assert_ok(rdma_device_open(&dev, &o, "10.0.1.1", &err));
	assert_int_equal(dev->port, 1);
	rdma_device_close(dev);
}

/* Its address is not in the table of an InfiniBand port, but in IPoIB's hardware address. */
UNIT_TEST(the_rail_of_ip_over_infiniband, two_ports)
{
	fake_say("netdev ib0 50 10.5.0.1 fe80::2:c903:1:1");
	fake_say("netdev ib1 51 10.5.1.1 fe80::2:c903:1:2");
	fake_say("port mlx4_0 1 link=infiniband lid=5");
	fake_say("port mlx4_0 2 link=infiniband lid=6");
	fake_say("gid mlx4_0 1 0 ib fe80::2:c903:1:1");
	fake_say("gid mlx4_0 2 0 ib fe80::2:c903:1:2");
	takes("10.5.0.1", "mlx4_0", 1, 0, "ib0 holds 10.5.0.1");
	takes("10.5.1.1", "mlx4_0", 2, 0, "ib1 holds 10.5.1.1");
	takes("10.0.0.1", "mlx4_0", 1, 0, "none of 2 ACTIVE ports");
}

UNIT_TEST(a_port_without_a_gid_is_passed_over, two_ports)
{
	struct rdma_options o = rdma_options_default();
	struct rdma_device *dev;

	fake_say("gid mlx4_0 1 0 none");
	fake_say("gid mlx4_0 2 1 v2 10.0.1.1 rail1");
	takes("10.0.1.1", "mlx4_0", 2, 1, "rail1");
	takes("0.0.0.0", "mlx4_0", 2, 1, "");
	fake_say("gid mlx4_0 2 1 none");
	assert_int_equal(rdma_device_open(&dev, &o, "10.0.1.1", &err), -ENODATA); /* not soft0 */
	assert_non_null(strstr(err.text, "port 1 of mlx4_0 has no usable GID"));
}

UNIT_TEST(what_was_only_looked_at_is_closed, two_rails)
{
	for (unsigned i = 0; i < 200; i++) /* more than the fakes' contexts */
		rdma_device_close(opened("auto", i % 2 ? "10.0.1.1" : "10.0.0.1"));
}
