/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What stands after a command. */
#include "tests/lib/unit.h"

#include <string.h>

#include "tools/kv-inspect/operands.h"

static struct error err;

static void refused(int rc, const char *words)
{
	assert_true(rc < 0);
	if (!strstr(err.text, words))
		fail_msg("'%s' has no '%s'", err.text, words);
}

UNIT_TEST(test_prefixes)
{
	struct operand_prefix p;

	assert_int_equal(operand_prefix("-", &p, &err), 0);
	assert_int_equal(p.depth, 0);
	assert_int_equal(operand_first(p), 0);
	assert_int_equal(operand_prefix("0110", &p, &err), 0);
	assert_int_equal(p.depth, 4);
	assert_int_equal(p.bits, 6);
	assert_true(operand_first(p) == 0x6000000000000000ull);
	assert_int_equal(operand_prefix("111111111111111111111111", &p, &err), 0);
	assert_int_equal(p.depth, 24);
	assert_int_equal(p.bits, 0xffffff);
	refused(operand_prefix("1111111111111111111111111", &p, &err), "25 bits");
	refused(operand_prefix("", &p, &err), "no prefix");
	refused(operand_prefix("012", &p, &err), "no prefix");
	refused(operand_prefix(" 01", &p, &err), "no prefix");
}

UNIT_TEST(test_segments)
{
	uint64_t hash;
	unsigned depth;
	bool exact;

	assert_int_equal(operand_segment("0x0123456789abcDEF", &hash, &depth, &exact, &err), 0);
	assert_true(exact && hash == 0x123456789abcdefull);
	assert_int_equal(operand_segment("10", &hash, &depth, &exact, &err), 0);
	assert_true(!exact && depth == 2 && hash == 1ull << 63);
	refused(operand_segment("0x12", &hash, &depth, &exact, &err), "no hash");
	refused(operand_segment("0x0123456789abcdefa", &hash, &depth, &exact, &err), "no hash");
	refused(operand_segment("0x0123456789abcdeg", &hash, &depth, &exact, &err), "no hash");
	refused(operand_segment("0x-123456789abcdef", &hash, &depth, &exact, &err), "no hash");
	refused(operand_segment("key", &hash, &depth, &exact, &err), "no prefix");
}

UNIT_TEST(test_buckets)
{
	unsigned depth, number;
	uint64_t hash;

	/* bits 22 to 27 are 0b101010 */
	assert_int_equal(operand_bucket("0x000000000a800000", &hash, &depth, &number, &err), 0);
	assert_int_equal(number, 42);
	assert_int_equal(operand_bucket("0x000000000a800000:7", &hash, &depth, &number, &err), 0);
	assert_int_equal(number, 7);
	assert_int_equal(operand_bucket("01:79", &hash, &depth, &number, &err), 0);
	assert_true(number == 79 && depth == 2);
	refused(operand_bucket("01:80", &hash, &depth, &number, &err), "0 to 79");
	refused(operand_bucket("01:", &hash, &depth, &number, &err), "not a number");
	refused(operand_bucket("01:-1", &hash, &depth, &number, &err), "not a number");
	refused(operand_bucket("01", &hash, &depth, &number, &err), "PREFIX:N");
	refused(operand_bucket(":1", &hash, &depth, &number, &err), "no prefix");
}

UNIT_TEST(test_places)
{
	unsigned extent;
	uint32_t offset;

	assert_int_equal(operand_place("2:0x1c0", &extent, &offset, &err), 0);
	assert_true(extent == 2 && offset == 0x1c0);
	assert_int_equal(operand_place("4095:268435392", &extent, &offset, &err), 0);
	assert_true(extent == 4095 && offset == 268435392u);
	refused(operand_place("4096:0", &extent, &offset, &err), "0 to 4095");
	refused(operand_place("99999:0", &extent, &offset, &err), "0 to 4095");
	refused(operand_place("2:268435456", &extent, &offset, &err), "out of range");
	refused(operand_place("2:0x10000000", &extent, &offset, &err), "out of range");
	refused(operand_place("2:0x123456789abcdef01", &extent, &offset, &err), "not a number");
	refused(operand_place("2:0x", &extent, &offset, &err), "not a number");
	refused(operand_place("2:12", &extent, &offset, &err), "multiple of 64");
	refused(operand_place("2", &extent, &offset, &err), "EXTENT:OFFSET");
	refused(operand_place("2:", &extent, &offset, &err), "EXTENT:OFFSET");
	refused(operand_place(":2", &extent, &offset, &err), "EXTENT:OFFSET");
	refused(operand_place("-1:64", &extent, &offset, &err), "not a number");
}
