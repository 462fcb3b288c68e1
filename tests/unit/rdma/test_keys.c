/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* A key that does not die is told of, and its memory stays. Completion queues spread. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>

#include "common/rdma/queue.h"
#include "common/rdma/region.h"
#include "tests/lib/fake_device.h"

static struct rdma_device *dev;
static struct error err;

static int set_up(void **state)
{
	struct rdma_options o = rdma_options_default();

	fake_reset();
	fake_say("device fake0 vectors=3");
	return rdma_device_open(&dev, &o, NULL, &err);
}

static int tear_down(void **state)
{
	rdma_device_close(dev);
	return 0;
}

UNIT_TEST(a_region_whose_keys_stay_is_as_it_was, set_up, tear_down)
{
	struct rdma_region region, before;
	char page[64];

	assert_ok(rdma_region_register(dev, page, sizeof(page), 0, "a page", &region, &err));
	before = region;
	fake_say("fail dereg_mr EIO 1 0");
	assert_int_equal(rdma_region_unregister(&region), -EIO);
	assert_memory_equal(&region, &before, sizeof(region));
	assert_ok(rdma_region_unregister(&region));
	assert_null(region.mr);
	assert_ok(rdma_region_unregister(&region));
}

UNIT_TEST(a_buffer_whose_keys_stay_is_mapped, set_up, tear_down)
{
	struct rdma_buffer buffer, left;
	struct rdma_region region;

	assert_ok(rdma_buffer_create(dev, 64, IBV_ACCESS_LOCAL_WRITE, "a page", &buffer, &err));
	left = buffer;
	region = buffer.region;
	fake_say("fail dereg_mr EBUSY 1 0");
	assert_int_equal(rdma_buffer_destroy(&buffer), -EBUSY);
	assert_null(buffer.addr);
	memset(left.addr, 1, left.len); /* as a device may that has the key */
	assert_ok(rdma_region_unregister(&region));
	assert_ok(rdma_buffer_destroy(&buffer));
}

UNIT_TEST(completion_queues_take_vectors_in_turn, set_up, tear_down)
{
	struct rdma_cq cq[5];

	for (unsigned i = 0; i < 5; i++)
		assert_ok(rdma_cq_create(dev, 8, i, false, &cq[i], &err));
	assert_int_equal(fake_vector_queues(0), 2);
	assert_int_equal(fake_vector_queues(1), 2);
	assert_int_equal(fake_vector_queues(2), 1);
	for (unsigned i = 0; i < 5; i++)
		rdma_cq_destroy(&cq[i]);
}
