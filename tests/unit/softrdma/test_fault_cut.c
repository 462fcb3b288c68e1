/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* SOFTRDMA_FAULT's cut=FOLDER: what is cut while a program runs, and mended. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/softrdma/faults/cut.h"
#include "tests/lib/folder.h"
#include "weakness.h"

UNIT_GROUP(folder_make, folder_remove);

static void place(char path[300], int from, int to)
{
	snprintf(path, 300, "%s/%d-%d", folder, from, to);
}

static void cut(int from, int to)
{
	char path[300];
	int fd;

	place(path, from, to);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	time_sleep(2 * NS_PER_MS);
}

static void mend(int from, int to)
{
	char path[300];

	place(path, from, to);
	assert_ok(unlink(path));
	time_sleep(2 * NS_PER_MS);
}

UNIT_TEST(who_reaches_whom)
{
	assert_true(soft_cut_parse(folder));
	assert_false(soft_cut(1, 2));
	cut(1, 2);
	assert_true(soft_cut(1, 2));
	assert_false(soft_cut(2, 1) || soft_cut(1, 3));
	cut(0, 3);
	assert_true(soft_cut(1, 3) && soft_cut(2, 3));
	assert_false(soft_cut(3, 1));
	cut(3, 0);
	assert_true(soft_cut(3, 1));
	mend(1, 2);
	mend(0, 3);
	mend(3, 0);
	assert_false(soft_cut(1, 2) || soft_cut(3, 1) || soft_cut(2, 3));
	soft_cut_none();
	assert_false(soft_cuts());
}

static void read_ends(const struct weakness *w, enum ibv_wc_status status)
{
	struct end a, b;
	struct ibv_wc wc;

	weakness_open(w, &a, &b);
	assert_ok(weak_read(&a, &b, 7, 64, IBV_SEND_SIGNALED));
	end_wait(a.send_cq, &wc);
	assert_int_equal(wc.status, status);
	weakness_close(&a, &b);
}

UNIT_TEST(requests_fail_and_come_through)
{
	char spec[300];
	struct weakness w = { .fault = spec, .timeout = 6, .retry_cnt = 1 };

	snprintf(spec, sizeof(spec), "cut=%s", folder);
	read_ends(&w, IBV_WC_SUCCESS);
	cut((int)getpid(), 0);
	read_ends(&w, IBV_WC_RETRY_EXC_ERR);
	mend((int)getpid(), 0);
	read_ends(&w, IBV_WC_SUCCESS);
}

/* It is mended in time: nobody knows. */
UNIT_TEST(requests_come_again)
{
	char spec[300];
	struct weakness w = { .fault = spec, .timeout = 12, .retry_cnt = 7 };
	struct end a, b;
	struct ibv_wc wc;

	snprintf(spec, sizeof(spec), "cut=%s", folder);
	cut(0, 0);
	weakness_open(&w, &a, &b);
	assert_ok(weak_read(&a, &b, 7, 64, IBV_SEND_SIGNALED));
	assert_int_equal(ibv_poll_cq(a.send_cq, 1, &wc), 0);
	mend(0, 0);
	end_wait(a.send_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	weakness_close(&a, &b);
}
