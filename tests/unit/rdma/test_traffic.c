/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* P_Key, service level and traffic class: what reaches the device, and what is refused in words. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>

#include "common/rdma/loopback.h"
#include "common/rdma/traffic.h"
#include "tests/lib/fake_device.h"

static struct error err;
static struct rdma_options o;

static int clean(void **state)
{
	fake_reset();
	o = rdma_options_default();
	o.device = "fake0";
	return 0;
}

static struct rdma_device *opened(void)
{
	struct rdma_device *dev;

	assert_ok(rdma_device_open(&dev, &o, NULL, &err));
	return dev;
}

static void refused(int code, const char *what, const char *remedy)
{
	struct rdma_device *dev;

	assert_int_equal(rdma_device_open(&dev, &o, NULL, &err), code);
	assert_int_equal(err.code, code);
	assert_non_null(strstr(err.text, what));
	assert_non_null(strstr(err.text, remedy));
}

UNIT_TEST(what_is_asked_for_reaches_the_device, clean)
{
	struct ibv_qp_attr init, rtr;
	struct rdma_device *dev;

	fake_say("device fake0 ports=2");
	fake_say("port fake0 2 pkeys=4");
	fake_say("pkey fake0 2 3 0x8007");
	o.ib_port = 2;
	o.pkey_index = 3;
	o.service_level = 5;
	o.traffic_class = 106;
	dev = opened();
	assert_non_null(strstr(dev->choice,
			       "as asked for, P_Key 0x8007 (index 3), service level 5, "
			       "traffic class 106; "));
	assert_ok(rdma_loopback_read(dev, 2000, &err));
	assert_true(fake_modified("to_init", &init) & IBV_QP_PKEY_INDEX);
	assert_int_equal(init.pkey_index, 3);
	assert_true(fake_modified("to_rtr", &rtr) & IBV_QP_AV);
	assert_int_equal(rtr.ah_attr.sl, 5);
	assert_int_equal(rtr.ah_attr.grh.traffic_class, 106);
	rdma_device_close(dev);
}

UNIT_TEST(nothing_is_the_usual, clean)
{
	struct ibv_qp_attr attr;
	struct rdma_device *dev;

	fake_say("device fake0");
	dev = opened();
	assert_non_null(strstr(dev->choice, "as asked for; "));
	assert_ok(rdma_loopback_read(dev, 2000, &err));
	fake_modified("to_init", &attr);
	assert_int_equal(attr.pkey_index, 0);
	fake_modified("to_rtr", &attr);
	assert_int_equal(attr.ah_attr.sl, 0);
	assert_int_equal(attr.ah_attr.grh.traffic_class, 0);
	rdma_device_close(dev);
}

UNIT_TEST(a_pkey_that_is_not_there, clean)
{
	struct rdma_device *dev;

	fake_say("device fake0");
	fake_say("port fake0 1 pkeys=2");
	o.pkey_index = 2;
	refused(-ERANGE, "P_Key index 2: port 1 of fake0 has a table of 2", "--pkey-index");
	o.pkey_index = 1;
	refused(-ENETDOWN, "P_Key index 1 of port 1 of fake0 is empty", "subnet manager");
	fake_say("pkey fake0 1 1 0x8000"); /* a member of nothing */
	refused(-ENETDOWN, "P_Key index 1 of port 1 of fake0 is empty", "subnet manager");
	fake_say("pkey fake0 1 1 0x7");
	dev = opened();
	assert_non_null(strstr(dev->choice, "P_Key 0x0007 (index 1)"));
	assert_ok(rdma_port_refresh(dev, &err));
	fake_say("pkey fake0 1 1 0"); /* its subnet manager has taken it out of the partition */
	assert_int_equal(rdma_port_refresh(dev, &err), -ENETDOWN);
	rdma_device_close(dev);
	o.pkey_index = 0;
	fake_say("pkey fake0 1 0 0");
	refused(-ENETDOWN, "P_Key index 0 of port 1 of fake0 is empty", "subnet manager");
	fake_say("port fake0 1 pkeys=0"); /* a device that knows of none */
	rdma_device_close(opened());
}

UNIT_TEST(ethernet_has_eight_priorities, clean)
{
	fake_say("device fake0");
	o.service_level = 8;
	refused(-ERANGE, "service level 8: on Ethernet", "0 to 7");
	fake_say("port fake0 1 link=infiniband lid=4");
	rdma_device_close(opened());
}

UNIT_TEST(a_traffic_class_needs_a_grh, clean)
{
	struct rdma_device *dev;
	struct ibv_qp_attr attr;

	fake_say("device fake0");
	fake_say("port fake0 1 link=infiniband lid=4");
	fake_say("gid fake0 1 0 ib fe80::1");
	o.traffic_class = 8;
	refused(-EINVAL, "traffic class 8: packets of InfiniBand", "--gid-index");
	o.gid_index = 0;
	dev = opened();
	assert_ok(rdma_loopback_read(dev, 2000, &err));
	assert_true(fake_modified("to_rtr", &attr) & IBV_QP_AV);
	assert_true(attr.ah_attr.is_global);
	assert_int_equal(attr.ah_attr.grh.traffic_class, 8);
	rdma_device_close(dev);
}

UNIT_TEST(the_table_without_its_holes, clean)
{
	struct rdma_device *dev;
	struct rdma_pkey table[4];

	fake_say("device fake0");
	fake_say("port fake0 1 pkeys=6");
	fake_say("pkey fake0 1 2 0x8001");
	fake_say("pkey fake0 1 5 0x0002");
	dev = opened();
	assert_int_equal(rdma_pkey_table(dev, table, 4), 3);
	assert_int_equal(table[0].value, 0xffff);
	assert_int_equal(table[1].index, 2);
	assert_int_equal(table[2].index, 5);
	assert_int_equal(table[2].value, 2);
	assert_int_equal(rdma_pkey_table(dev, table, 1), 1);
	rdma_device_close(dev);
}

UNIT_TEST(soft0_has_no_packets_and_says_so, clean)
{
	struct rdma_device *dev;

	o.device = "soft0";
	o.service_level = 3;
	o.traffic_class = 4;
	dev = opened();
	assert_non_null(strstr(dev->choice, "service level 3, traffic class 4 (without effect: "));
	assert_ok(rdma_loopback_read(dev, 2000, &err));
	rdma_device_close(dev);
	o.pkey_index = 1;
	refused(-ERANGE, "port 1 of soft0 has a table of 1", "--pkey-index");
}
