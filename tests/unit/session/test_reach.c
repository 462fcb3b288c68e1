/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* GIDs that lead nowhere take a bounded share of the queue-pair thread's time. */
#include "tests/lib/unit.h"

#include <string.h>

#include "common/base/time.h"
#include "server/session/reach.h"

#define SECOND NS_PER_S

static const uint8_t good[16] = { [15] = 1 }, bad[16] = { [15] = 2 }, other[16] = { [15] = 3 };

UNIT_TEST(a_wait_in_vain_closes_for_a_while)
{
	struct reach r = { 0 };

	assert_int_equal(reach_wait_ns(&r, bad, false, 5 * SECOND), 0);
	reach_tried(&r, bad, false, 5 * SECOND, 6 * SECOND);
	assert_int_equal(reach_wait_ns(&r, bad, false, 6 * SECOND), REACH_REST * SECOND);
	assert_int_equal(reach_wait_ns(&r, other, false, 6 * SECOND), REACH_REST * SECOND);
	assert_int_equal(reach_wait_ns(&r, other, true, 6 * SECOND), 0); /* vouched for */
	assert_int_equal(reach_wait_ns(&r, other, false, (6 + REACH_REST) * SECOND), 0);
}

UNIT_TEST(who_was_reached_is_tried_again)
{
	struct reach r = { 0 };

	reach_tried(&r, good, true, SECOND, SECOND + 1);
	reach_tried(&r, bad, false, SECOND, 2 * SECOND);
	assert_int_equal(reach_wait_ns(&r, good, false, 2 * SECOND), 0);
	/* ... until it costs a wait as well */
	reach_tried(&r, good, false, 2 * SECOND, 3 * SECOND);
	assert_int_not_equal(reach_wait_ns(&r, good, false, 3 * SECOND), 0);
}

UNIT_TEST(no_gid_at_all_is_not_known)
{
	static const uint8_t none[16];
	struct reach r = { 0 };

	reach_tried(&r, bad, false, SECOND, 2 * SECOND);
	assert_int_not_equal(reach_wait_ns(&r, none, false, 2 * SECOND), 0);
}

UNIT_TEST(a_quick_refusal_costs_nothing)
{
	struct reach r = { 0 };

	reach_tried(&r, bad, false, SECOND, SECOND + REACH_SLOW_NS - 1);
	assert_int_equal(reach_wait_ns(&r, other, false, SECOND + REACH_SLOW_NS), 0);
}

/* A client that offers a new GID that leads nowhere, whenever one is tried. */
UNIT_TEST(the_share_of_waits_is_bounded)
{
	struct reach r = { 0 };
	uint64_t now = SECOND, waited = 0;
	uint8_t gid[16] = { 0 };

	for (unsigned i = 1; now < 1001 * SECOND; i++) {
		memcpy(gid, &i, sizeof(i));
		if (reach_wait_ns(&r, gid, false, now)) {
			now += NS_PER_MS;
			continue;
		}
		reach_tried(&r, gid, false, now, now + SECOND);
		now += SECOND;
		waited += SECOND;
	}
	assert_in_range(waited, 100 * SECOND, 1000 * SECOND / (1 + REACH_REST) + SECOND);
}

UNIT_TEST(the_oldest_gives_way)
{
	struct reach r = { 0 };
	uint8_t gid[16] = { [0] = 0xfd };

	reach_tried(&r, good, true, SECOND, SECOND);
	for (unsigned i = 0; i < REACH_KNOWN - 1; i++) {
		gid[15] = (uint8_t)i;
		reach_tried(&r, gid, true, SECOND, SECOND);
		reach_tried(&r, gid, true, SECOND, SECOND); /* has its place */
	}
	reach_tried(&r, bad, false, SECOND, 2 * SECOND);
	assert_int_equal(reach_wait_ns(&r, good, false, 2 * SECOND), 0);
	reach_tried(&r, other, true, 2 * SECOND, 2 * SECOND);
	assert_int_not_equal(reach_wait_ns(&r, good, false, 2 * SECOND), 0);
	assert_int_equal(reach_wait_ns(&r, other, false, 2 * SECOND), 0);
}
