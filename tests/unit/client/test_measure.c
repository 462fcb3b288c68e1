/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What a tool tells a kv-server before it measures, and what it is told. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "client/src/call/measure.h"
#include "common/layout/block.h"
#include "tests/lib/unit.h"
#include "one_client.h"

#define MEMORY_MIB 64u

static const struct rpc_measure plan = {
	.tool = "test",
	.phase = MEASURE_BEGIN,
	.op = MEASURE_GET,
	.queue_pairs = 1,
	.depth = 1,
	.threads = 1,
	.keys = 1000,
	.value_bytes = 64,
};

static struct rpc_measured told;

UNIT_TEST(test_both_ends_fit)
{
	uint64_t cpu_ns;

	assert_int_equal(measure_tell(kv, &plan, &told), 0);
	assert_int_equal(told.verdict, 0);
	assert_string_equal(told.why, "");
	assert_int_equal(told.mtu, rdma_mtu_bytes(kv->link.qp.mtu));
	assert_int_equal(told.read_depth, kv->link.qp.rd_initiator);
	assert_int_equal(told.credits, kv->link.credits);
	assert_string_equal(told.device, "soft0");
	assert_string_equal(told.version, gkv_version());
	assert_int_equal(told.software, 1);
	assert_int_equal(told.connect, 0);
	assert_true(told.workers >= 1 && told.ib_port == 1);
	assert_int_equal(told.memory_max, MEMORY_MIB << 20);
	assert_true(told.memory_free > 0 && told.memory_free < told.memory_max);
	assert_int_equal(told.records, 0);
	assert_true(told.cpu_ns > 0);
	cpu_ns = told.cpu_ns;
	assert_int_equal(gkv_put(kv, "k", 1, "v", 1, NULL), 0);
	assert_int_equal(measure_tell(kv, &plan, &told), 0);
	assert_int_equal(told.records, 1);
	assert_true(told.cpu_ns > cpu_ns);
}

static int tell_with_other_ends(void)
{
	int rc = measure_tell(kv, &plan, &told);

	assert_int_equal(rc, told.verdict);
	assert_string_equal(gkv_error(kv), told.why);
	return rc;
}

/* A client that has settled on something else than the server is told so. */
UNIT_TEST(test_ends_that_differ)
{
	struct rpc_measure look = plan;
	enum ibv_mtu mtu = kv->link.qp.mtu;
	char wanted[64];

	kv->link.qp.mtu = IBV_MTU_256;
	assert_int_equal(tell_with_other_ends(), -EPROTO);
	snprintf(wanted, sizeof(wanted), "256 at the client and %u at the", rdma_mtu_bytes(mtu));
	assert_non_null(strstr(gkv_error(kv), wanted));
	look.phase = MEASURE_LOOK; /* a mere question is not judged */
	assert_int_equal(measure_tell(kv, &look, &told), 0);
	kv->link.qp.mtu = mtu;
	kv->link.qp.rd_initiator++;
	assert_int_equal(tell_with_other_ends(), -EPROTO);
	assert_non_null(strstr(gkv_error(kv), "READ depth"));
	kv->link.qp.rd_initiator--;
	assert_int_equal(measure_tell(kv, &plan, &told), 0);
}

UNIT_TEST(test_records_that_do_not_fit)
{
	struct rpc_measure much = plan;

	much.keys = (MEMORY_MIB << 20) / block_bytes(1, 64);
	assert_int_equal(measure_tell(kv, &much, &told), 0);
	much.keys++;
	assert_int_equal(measure_tell(kv, &much, &told), -ENOMEM);
	assert_non_null(strstr(gkv_error(kv), "64 MiB (measure with fewer --keys"));
	much.keys = UINT64_MAX;
	assert_int_equal(measure_tell(kv, &much, &told), -ENOMEM);
	much.phase = MEASURE_LOOK;
	assert_int_equal(measure_tell(kv, &much, &told), 0);
}

UNIT_TEST(test_what_is_no_measurement)
{
	struct rpc_measure bad = plan;

	bad.op = 99;
	assert_int_equal(measure_tell(kv, &bad, &told), -EINVAL);
	assert_non_null(strstr(gkv_error(kv), "MEASURE"));
	assert_int_equal(measure_tell(NULL, &plan, &told), -EINVAL);
	assert_int_equal(measure_tell(kv, &plan, &told), 0);
}

static int set_up(void **state)
{
	return one_client("64M", patient());
}

UNIT_GROUP(set_up, tear_down_in_order);
