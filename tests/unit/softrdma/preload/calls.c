/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/softrdma/preload/calls.h"

#include <dlfcn.h>
#include <string.h>

#include "common/softrdma/preload/functions.h"

#define PRIVATE		    NULL
#define NAME(name, version) #name,
static const char *const names[] = { SOFT_INTERPOSED(NAME) };

enum { FUNCTIONS = sizeof(names) / sizeof(names[0]) };

struct fake *fake;
bool missing;
static bool seen[FUNCTIONS];

int calls_begin(void **state)
{
	__typeof__(&fake_handle) handle =
		(__typeof__(&fake_handle))dlsym(RTLD_DEFAULT, "fake_handle");

	if (!handle) {
		print_error("fake_handle() is not there: run this with the library preloaded\n");
		return -1;
	}
	fake = handle();
	memset(seen, 0, sizeof(seen));
	return 0;
}

void calls_see(const char *name)
{
	for (int i = 0; i < FUNCTIONS; i++) {
		if (strcmp(names[i], name) == 0)
			seen[i] = true;
	}
}

void calls_all_seen(void)
{
	for (int i = 0; i < FUNCTIONS; i++) {
		if (!seen[i])
			fail_msg("%s was not tried", names[i]);
	}
}

void calls_check(const char *name, unsigned calls, const long *args, int count)
{
	if (missing) {
		assert_int_equal(errno, ENOSYS);
		assert_int_equal(fake->calls, calls);
		return;
	}
	calls_see(name);
	assert_int_equal(fake->calls, calls + 1);
	assert_string_equal(fake->last, name);
	for (int i = 0; i < count; i++) {
		/* a register's upper half is noise after an int */
		if (args[i] == (int)args[i])
			assert_int_equal((int)fake->args[i], (int)args[i]);
		else
			assert_int_equal(fake->args[i], args[i]);
	}
}
