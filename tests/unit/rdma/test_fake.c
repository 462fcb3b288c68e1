/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* That fake devices do what fake_device.h says: other tests rest on it. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>

#include "common/base/time.h"
#include "common/rdma/device.h"
#include "common/rdma/gid.h"
#include "common/rdma/loopback.h"
#include "common/rdma/qp.h"
#include "common/rdma/region.h"
#include "tests/lib/fake_device.h"

static struct error err;

static int clean(void **state)
{
	fake_reset();
	return 0;
}

static struct rdma_device *opened(const char *name)
{
	struct rdma_options o = rdma_options_default();
	struct rdma_device *dev;

	o.device = name;
	assert_ok(rdma_device_open(&dev, &o, NULL, &err));
	return dev;
}

UNIT_TEST(data_flows, clean)
{
	struct rdma_device *dev;

	fake_say("device fake0 numa=1 vectors=4");
	dev = opened("auto");
	assert_string_equal(dev->name, "fake0");
	assert_false(dev->software);
	assert_int_equal(dev->numa_node, 1);
	assert_int_equal(dev->context->num_comp_vectors, 4);
	assert_ok(rdma_loopback_read(dev, 2000, &err));
	assert_int_equal(fake_calls("to_rtr"), 2);
	assert_int_equal(fake_vector_queues(0), 1);
	rdma_device_close(dev);
}

UNIT_TEST(with_ports_and_addresses_of_its_own, clean)
{
	struct ibv_qp_attr attr;
	struct rdma_device *dev;

	fake_say("netdev rail0 40 10.0.0.1");
	fake_say("device fake0 ports=2");
	fake_say("port fake0 1 state=down # its cable is out");
	fake_say("gid fake0 2 5 v2 10.0.0.1 rail0");
	dev = opened("fake0");
	assert_int_equal(dev->port, 2);
	assert_int_equal(dev->source.gid_index, 5);
	assert_int_equal(gid_address("10.0.0.1").netdev, 40);
	assert_ok(rdma_loopback_read(dev, 2000, &err));
	assert_true(fake_modified("to_rtr", &attr) & IBV_QP_AV);
	assert_int_equal(attr.ah_attr.grh.sgid_index, 5);
	assert_int_equal(attr.ah_attr.port_num, 2);
	rdma_device_close(dev);
}

/* Each link has its own fe80::5. */
UNIT_TEST(a_scope_is_a_name_or_an_index, clean)
{
	fake_say("netdev rail0 40 fe80::5");
	fake_say("netdev rail1 41 fe80::5");
	assert_int_equal(gid_address("fe80::5%rail0").netdev, 40);
	assert_int_equal(gid_address("fe80::5%rail1").netdev, 41);
	assert_int_equal(gid_address("fe80::5%40").netdev, 40);
	assert_int_equal(gid_address("fe80::5%41").netdev, 41);
	assert_int_equal(gid_address("fe80::5%4").netdev, 0);
	assert_int_equal(gid_address("fe80::5%0").netdev, 0);
}

UNIT_TEST(an_address_that_is_gone_or_elsewhere_is_not_reached, clean)
{
	struct wire_qp offer = { .qpn = 1, .mtu = 1, .rd_initiator = 1, .rd_responder = 1 };
	struct rdma_device *dev;
	struct rdma_cq cq;
	struct rdma_qp qp;

	fake_say("netdev rail0 40 10.0.0.1");
	fake_say("netdev rail1 41 10.0.1.1");
	fake_say("device fake0");
	fake_say("device fake1");
	fake_say("gid fake0 1 0 v2 10.0.0.1 rail0");
	fake_say("gid fake1 1 0 v2 10.0.1.1 rail1");
	dev = opened("fake0");
	assert_ok(rdma_cq_create(dev, 8, 0, false, &cq, &err));
	assert_ok(rdma_qp_create(dev, &(struct rdma_qp_config){ .cq = &cq, .max_send = 1 }, &qp,
				 &err));
	rdma_qp_offer(&qp, &offer);
	offer.gid[14] = 1; /* 10.0.1.1 */
	assert_int_equal(rdma_qp_connect(&qp, &offer, &err), -ETIMEDOUT);
	offer.gid[14] = 2;
	assert_int_equal(rdma_qp_connect(&qp, &offer, &err), -ETIMEDOUT);
	offer.gid[14] = 0;
	fake_say("gid fake0 1 0 none");
	assert_int_equal(rdma_qp_connect(&qp, &offer, &err), -EINVAL);
	assert_ok(rdma_qp_destroy(&qp));
	rdma_cq_destroy(&cq);
	rdma_device_close(dev);
}

UNIT_TEST(calls_take_their_time_and_fail, clean)
{
	struct rdma_region region;
	struct rdma_device *dev;
	uint64_t begun;
	char page[64];

	fake_say("device fake0");
	dev = opened("fake0");
	fake_say("delay reg_mr 20000");
	fake_say("fail reg_mr ENOMEM 2 3"); /* the 2nd, the 5th, ... */
	begun = time_now_ns();
	for (unsigned i = 1; i <= 8; i++) {
		int rc = rdma_region_register(dev, page, sizeof(page), 0, "a page", &region, &err);

		assert_int_equal(rc, i % 3 == 2 ? -ENOMEM : 0);
		if (rc == 0)
			rdma_region_unregister(&region);
	}
	assert_true(time_now_ns() - begun >= 160 * NS_PER_MS);
	assert_int_equal(fake_failed("reg_mr"), 3);
	fake_say("fail reg_mr 0");
	assert_ok(rdma_region_register(dev, page, sizeof(page), 0, "a page", &region, &err));
	rdma_region_unregister(&region);
	rdma_device_close(dev);
	fake_say("fail open_device EACCES");
	dev = opened("auto");
	assert_true(dev->software);
	rdma_device_close(dev);
}

UNIT_TEST(events_come, clean)
{
	struct rdma_event event;
	struct rdma_device *dev;

	fake_say("device fake0");
	dev = opened("fake0");
	assert_int_equal(rdma_device_event(dev, &event), -EAGAIN);
	fake_say("event fake0 port_error");
	fake_say("event fake0 lid_change");
	assert_ok(rdma_device_event(dev, &event));
	assert_non_null(strstr(event.text, "gone down"));
	assert_ok(rdma_device_event(dev, &event));
	assert_non_null(strstr(event.text, "LID"));
	fake_say("event fake0 pkey_change");
	fake_say("event fake0 sm_change");
	fake_say("event fake0 client_reregister");
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(rdma_device_event(dev, &event));
		assert_true(event.port);
	}
	assert_int_equal(rdma_device_event(dev, &event), -EAGAIN);
	rdma_device_close(dev);
}
