/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What tools that measure and servers tell each other: decoders; both ends compared. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/layout/limits.h"
#include "common/layout/wire_measure.h"

static const struct rpc_measure good = {
	.tool = "kv-bw",
	.phase = MEASURE_BEGIN,
	.op = MEASURE_GET,
	.queue_pairs = 1,
	.depth = 1,
	.mtu = 4096,
	.read_depth = 16,
	.credits = 8,
	.keys = 1000,
	.value_bytes = VALUE_MAX,
};

static int decode(const struct rpc_measure *m)
{
	struct rpc_measure out;
	const char *why = NULL;
	int rc = measure_decode(m, sizeof(*m), &out, &why);

	assert_true((rc == 0) == (why == NULL));
	if (rc == 0)
		assert_memory_equal(&out, m, sizeof(out));
	return rc;
}

UNIT_TEST(requests)
{
	struct rpc_measure m = good, out;
	const char *why;

	assert_int_equal(decode(&good), 0);
	assert_int_equal(measure_decode(&m, sizeof(m) - 1, &out, &why), -EINVAL);
	assert_int_equal(measure_decode(&m, 0, &out, &why), -EINVAL);
#define BROKEN(change)                                 \
	do {                                           \
		m = good;                              \
		change;                                \
		assert_int_equal(decode(&m), -EINVAL); \
	} while (0)
	BROKEN(memset(m.tool, 'x', sizeof(m.tool)));
	BROKEN(m.phase = 0);
	BROKEN(m.phase = MEASURE_LOOK + 1);
	BROKEN(m.op = 0);
	BROKEN(m.op = MEASURE_MIXED + 1);
	BROKEN(m.queue_pairs = 0);
	BROKEN(m.queue_pairs = SESSION_HANDLES_MAX + 1);
	BROKEN(m.depth = 0);
	BROKEN(m.value_bytes = VALUE_MAX + 1);
	BROKEN(m.reserved[0] = 1);
	BROKEN(m.reserved[4] = 1);
	m = good;
	m.phase = MEASURE_LOOK;
	m.op = MEASURE_MIXED;
	m.queue_pairs = SESSION_HANDLES_MAX;
	m.keys = m.iterations = m.duration_ms = m.rate = UINT64_MAX;
	assert_int_equal(decode(&m), 0);
}

UNIT_TEST(answers)
{
	struct rpc_measured m = { .verdict = -ENOMEM }, out;

	strcpy(m.why, "no\033 room");
	assert_int_equal(measured_decode(&m, sizeof(m), &out), 0);
	assert_string_equal(out.why, "no? room");
	assert_int_equal(out.verdict, -ENOMEM);
	assert_int_equal(measured_decode(&m, sizeof(m) - 1, &out), -EPROTO);
	m.verdict = 1;
	assert_int_equal(measured_decode(&m, sizeof(m), &out), -EPROTO);
	m.verdict = 0;
	memset(m.why, 'x', sizeof(m.why));
	assert_int_equal(measured_decode(&m, sizeof(m), &out), -EPROTO);
	m.why[0] = 0;
	memset(m.why, 0, sizeof(m.why));
	memset(m.device, 'x', sizeof(m.device));
	assert_int_equal(measured_decode(&m, sizeof(m), &out), -EPROTO);
	memset(m.device, 0, sizeof(m.device));
	memset(m.version, 'x', sizeof(m.version));
	assert_int_equal(measured_decode(&m, sizeof(m), &out), -EPROTO);
}

static struct rpc_measured ends(unsigned mtu, unsigned read_depth, unsigned credits)
{
	struct rpc_measured m = { .mtu = mtu, .read_depth = read_depth, .credits = credits };
	int rc = measure_compare(&good, &m);

	assert_int_equal(rc, m.verdict);
	return m;
}

/* Each value that differs is named, with both sides' numbers. */
UNIT_TEST(both_ends)
{
	struct rpc_measured m = ends(4096, 16, 8);

	assert_int_equal(m.verdict, 0);
	assert_string_equal(m.why, "");
	m = ends(1024, 16, 8);
	assert_int_equal(m.verdict, -EPROTO);
	assert_non_null(strstr(m.why, "MTU is 4096 at the client and 1024 at the server"));
	m = ends(4096, 4, 8);
	assert_int_equal(m.verdict, -EPROTO);
	assert_non_null(strstr(m.why, "READ depth is 16 at the client and 4 at the server"));
	m = ends(4096, 16, 7);
	assert_int_equal(m.verdict, -EPROTO);
	assert_non_null(strstr(m.why, "in flight is 8 at the client and 7 at the server"));
}

UNIT_TEST(random_bytes_do_no_harm)
{
	struct rpc_measured answer, there;
	struct rpc_measure request, m;
	const char *why;

	for (unsigned i = 0; i < 100000; i++) {
		for (size_t b = 0; b < sizeof(request); b++)
			((uint8_t *)&request)[b] = (uint8_t)rand();
		for (size_t b = 0; b < sizeof(answer); b++)
			((uint8_t *)&answer)[b] = (uint8_t)rand();
		answer.verdict &= INT32_MIN;
		measure_decode(&request, sizeof(request), &m, &why);
		if (measured_decode(&answer, sizeof(answer), &there) == 0) {
			assert_true(strlen(there.why) < sizeof(there.why));
			measure_compare(&request, &there);
		}
	}
}
