/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Words of a command line, and processes that tools start. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tests/lib/unit.h"
#include "tools/lib/child.h"
#include "tools/lib/peer_process.h"
#include "tools/lib/words.h"

UNIT_TEST(seconds)
{
	static const char *const bad[] = { "",	  "0x10", "1s", "-1",	 "nan", "inf",
					   "1e9", "0",	  " 1", "0x1p3", "1,5" };
	struct error err;
	uint64_t ns;

	assert_int_equal(words_seconds("-t", "0.5", 0.01, 3600, &ns, &err), 0);
	assert_int_equal(ns, NS_PER_S / 2);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(words_seconds("-t", bad[i], 0.01, 3600, &ns, &err), -EINVAL);
}

UNIT_TEST(numbers)
{
	static const char *const bad[] = { "",	  ".",	 "0x10", "1s",	"-1",
					   "nan", "inf", " 1",	 "1,5", "2" };
	struct error err;
	double is = 7;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(words_number("-R", bad[i], 0, 1, &is, &err), -EINVAL);
	assert_true(is == 7);
	assert_non_null(strstr(err.text, "-R: '2' is not a number from 0 to 1"));
	assert_int_equal(words_number("-R", ".25", 0, 1, &is, &err), 0);
	assert_true(is == 0.25);
	assert_int_equal(words_number("-R", "1e0", 0, 1, &is, &err), 0);
	assert_true(is == 1);
}

/* One that says nothing and does not end, nor one that never stops, holds nobody up for ever. */
UNIT_TEST(versions)
{
	struct error err;
	char text[80];

	assert_int_equal(peer_program_version("echo", "1.2", text, sizeof(text), &err), 0);
	assert_string_equal(text, "1.2");
	assert_int_equal(peer_program_version("false", "-V", text, sizeof(text), &err), -EIO);
	assert_int_equal(peer_program_version("no-such-program", "-V", text, sizeof(text), &err),
			 -ENOENT);
	assert_int_equal(peer_program_version("yes", "1", text, sizeof(text), &err), -EIO);
	assert_null(strchr(err.text, '\n'));
	assert_int_equal(peer_program_version("sleep", "300", text, sizeof(text), &err),
			 -ETIMEDOUT);
	assert_non_null(strstr(err.text, "sleep 300"));
}

static void nothing(int number)
{
}

/* Told to end before it has begun, and the parent's handler would take no notice. */
UNIT_TEST(children_end)
{
	signal(SIGTERM, nothing);
	for (unsigned i = 0; i < 200; i++) {
		pid_t pid = child_fork();
		int status;

		assert_true(pid >= 0);
		while (pid == 0)
			pause();
		status = child_end(pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGTERM);
	}
	signal(SIGTERM, SIG_DFL);
}
