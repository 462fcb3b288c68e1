/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <stdio.h>
#include <string.h>

#include "client/src/know/seen.h"
#include "tests/lib/unit.h"

UNIT_TEST(test_each_key_once)
{
	struct seen s = { 0 };
	char key[32];

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 10000; i++) {
			int len = snprintf(key, sizeof(key), "key %u", i);

			/* first hashes collide on purpose: the second one tells the keys apart */
			assert_int_equal(seen_add(&s, i % 7, key, (size_t)len), round == 0);
		}
		assert_int_equal(s.count, 10000);
	}
	seen_clear(&s);
	assert_int_equal(seen_add(&s, 0, "key 0", 5), 1);
	seen_free(&s);
}
