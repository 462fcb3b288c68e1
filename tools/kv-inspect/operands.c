/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-inspect/operands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/layout/bucket.h"
#include "common/layout/limits.h"

#define HASH_DIGITS 16u
#define BUCKETS_ALL (SEGMENT_BUCKETS + SEGMENT_OVERFLOW)

int operand_prefix(const char *text, struct operand_prefix *out, struct error *err)
{
	size_t len = strlen(text);

	*out = (struct operand_prefix){ 0 };
	if (strcmp(text, "-") == 0)
		return 0;
	if (!len || strspn(text, "01") != len)
		return error_set(err, -EINVAL,
				 "'%.40s' is no prefix of hashes (give its bits, as 010011; - for "
				 "none)",
				 text);
	if (len > DEPTH_MAX)
		return error_set(err, -EINVAL, "the prefix %.40s has %zu bits, at most %u can be",
				 text, len, DEPTH_MAX);
	out->depth = (unsigned)len;
	out->bits = (uint32_t)strtoul(text, NULL, 2);
	return 0;
}

static bool is_hex(const char *text)
{
	return text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
}

int operand_segment(const char *text, uint64_t *hash, unsigned *depth, bool *exact,
		    struct error *err)
{
	struct operand_prefix prefix;
	int rc;

	*exact = is_hex(text);
	*depth = DEPTH_MAX;
	if (!*exact) {
		rc = operand_prefix(text, &prefix, err);
		if (rc)
			return rc;
		*hash = operand_first(prefix);
		*depth = prefix.depth;
		return 0;
	}
	if (strlen(text) != HASH_DIGITS + 2 ||
	    strspn(text + 2, "0123456789abcdefABCDEF") != HASH_DIGITS)
		return error_set(err, -EINVAL,
				 "'%.40s' is no hash (give 0x and 16 digits; key KEY says that of "
				 "a key)",
				 text);
	*hash = strtoull(text, NULL, 16);
	return 0;
}

int operand_bucket(const char *text, uint64_t *hash, unsigned *depth, unsigned *number,
		   struct error *err)
{
	const char *colon = strchr(text, ':');
	char prefix[64];
	uint64_t n = 0;
	bool exact;
	int rc;

	if (!colon) {
		rc = operand_segment(text, hash, depth, &exact, err);
		if (rc == 0 && !exact)
			return error_set(err, -EINVAL,
					 "'%.40s' names a segment (give PREFIX:N for its bucket N)",
					 text);
		*number = hash_bucket(*hash);
		return rc;
	}
	snprintf(prefix, sizeof(prefix), "%.*s", (int)(colon - text), text);
	rc = operand_segment(prefix, hash, depth, &exact, err);
	if (rc == 0)
		rc = parse_u64("the bucket's number", colon + 1, 0, BUCKETS_ALL - 1, &n, err);
	*number = (unsigned)n;
	return rc;
}

static int offset_of(const char *text, uint64_t *out, struct error *err)
{
	size_t len = strlen(text);
	char *rest;

	if (!is_hex(text))
		return parse_u64("the offset", text, 0, EXTENT_BYTES_MAX - 1, out, err);
	*out = strtoull(text + 2, &rest, 16);
	if (len < 3 || len > HASH_DIGITS + 2 ||
	    strspn(text + 2, "0123456789abcdefABCDEF") != len - 2)
		return error_set(err, -EINVAL, "the offset '%.40s' is not a number", text);
	if (*out >= EXTENT_BYTES_MAX)
		return error_set(err, -EINVAL, "the offset %.40s is out of range (give 0 to 0x%x)",
				 text, EXTENT_BYTES_MAX - 1);
	return 0;
}

int operand_place(const char *text, unsigned *extent, uint32_t *offset, struct error *err)
{
	const char *colon = strchr(text, ':');
	uint64_t number = 0, at = 0;
	char first[32];
	int rc;

	if (!colon || colon == text || !colon[1])
		return error_set(err, -EINVAL,
				 "'%.40s' is no place of a block (give EXTENT:OFFSET, as 2:0x1c0)",
				 text);
	snprintf(first, sizeof(first), "%.*s", (int)(colon - text), text);
	rc = parse_u64("the extent's number", first, 0, EXTENTS_MAX - 1, &number, err);
	if (rc == 0)
		rc = offset_of(colon + 1, &at, err);
	if (rc == 0 && at % OFFSET_UNIT)
		rc = error_set(err, -EINVAL, "the offset %.40s is not a multiple of %u", colon + 1,
			       OFFSET_UNIT);
	*extent = (unsigned)number;
	*offset = (uint32_t)at;
	return rc;
}
