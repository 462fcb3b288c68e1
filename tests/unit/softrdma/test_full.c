/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* As many processes as there are slots have the device open. In a network namespace: for nobody
 * else. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "common/softrdma/shared/shared.h"
#include "common/softrdma/process/wire.h"
#include "ends.h"

#define SKIP 77

UNIT_TEST(test_one_too_many_is_told_why)
{
	struct ibv_context *context;
	int slots[SHARED_SLOTS];
	uint32_t slot;

	for (unsigned i = 0; i < SHARED_SLOTS; i++) {
		slots[i] = soft_wire_claim(&slot);
		assert_true(slots[i] >= 0);
	}
	errno = 0;
	assert_null(softrdma_open_device(softrdma_device()));
	assert_int_equal(errno, EUSERS); /* not EMFILE, which is about descriptors */
	close(slots[100]);
	context = softrdma_open_device(softrdma_device());
	assert_non_null(context);
	assert_ok(softrdma_close_device(context));
	for (unsigned i = 0; i < SHARED_SLOTS; i++) {
		if (i != 100)
			close(slots[i]);
	}
}

int main(void)
{
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
		perror("skipped: needs a network namespace of its own");
		return SKIP;
	}
	return unit_run(NULL, NULL);
}
