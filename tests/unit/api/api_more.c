/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/api/api_more.h"

#include <errno.h>

#include "tests/lib/unit.h"
#include "tests/unit/api/api.h"

#define WAIT_MS 60000u

/* Where the call ends early its item says so, or that nobody knows. */
static int early(const struct gkv *kv, int rc, const struct gkv_item *item)
{
	if (kv && rc && rc != -EPERM && rc != -EBUSY && rc != -EDEADLK &&
	    item->status != -ECANCELED && item->status != -EREMOTEIO && item->status != -ETIMEDOUT)
		return 1;
	return rc;
}

int api_mput(struct gkv *kv)
{
	static char seven[] = "7";
	struct gkv_item item = { .key = "mput", .key_len = 4, .value = seven, .len = 1 };
	int rc = gkv_mput(kv, &item, 1);

	return rc ? early(kv, rc, &item) : item.status;
}

int api_mdel(struct gkv *kv)
{
	struct gkv_item item = { .key = "no such", .key_len = 7 };
	int rc = gkv_mdel(kv, &item, 1);

	if (rc)
		return early(kv, rc, &item);
	return item.status == -ENOENT ? 0 : 1;
}

int api_scan_chunks(struct gkv *kv)
{
	struct gkv_record record[8];
	struct gkv_cursor *scan;
	int rc = gkv_scan_open(kv, NULL, &scan);

	if (rc)
		return rc;
	do {
		rc = gkv_scan_next(scan, record, 8);
	} while (rc > 0);
	gkv_scan_close(scan);
	return rc;
}

int api_submit(struct gkv *kv, const struct gkv_request *request, struct gkv_completion *out)
{
	struct gkv_completion ignored;
	int rc = gkv_submit(kv, request, 1);

	if (rc < 0)
		return rc;
	assert_int_equal(rc, 1);
	if (!out)
		out = &ignored;
	rc = gkv_wait(kv, out, 1, WAIT_MS);
	assert_int_equal(rc, 1);
	assert_true(out->user == request->user && out->op == request->op);
	return out->status;
}
