/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The public API over a table in this process, with faults on demand, to test kv-cli's commands. */
#include <stdbool.h>
#include <stddef.h>

struct fake_faults {
	bool unreachable; /* sessions do not open */
	long fail_put; /* this put from now on answers -ENOMEM; 0: none */
	const char *corrupt; /* gets of this key answer with one byte changed */
	const char *lose; /* gets of this key find nothing */
};

extern struct fake_faults fake_faults;

/* fake_clear - an empty store without faults. */
void fake_clear(void);

/* fake_count - how many records there are. */
size_t fake_count(void);
