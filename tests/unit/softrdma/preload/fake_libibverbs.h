/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A test's handle on the libibverbs that fake_libibverbs.py makes. */
#include <stdbool.h>

enum { FAKE_ARGS = 6, FAKE_DEVICES = 2 };

struct fake {
	const char *last; /* name of the function that was called last */
	unsigned calls;
	long args[FAKE_ARGS]; /* that it was called with; what is after its own is noise */
	long result; /* that functions return */
	bool no_list; /* ibv_get_device_list() fails with ENOSYS, as without kernel support */
	int lists; /* given and not yet freed */
	int imported_from; /* length of the list that ibv_import_device() saw */
	void *devices[FAKE_DEVICES];
};

/* fake_handle - found by dlsym(), since the program is linked with another libibverbs. */
struct fake *fake_handle(void);
