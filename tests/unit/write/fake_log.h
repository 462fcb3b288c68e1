/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A log that commits when the test says so, in place of server/log: it is linked before that one.
 * Positions begin at 1000. There is one.
 */
#include <stdatomic.h>

#include "server/store/store.h"

#define FAKE_LOG_MAX 65536u /* records */

struct fake_record {
	struct log_place place;
	struct log_entry entry; /* key and value: not to be looked at */
	_Atomic bool filled;
};

struct fake_log {
	_Atomic uint64_t tail, committed;
	_Atomic int error; /* of the next appends; 0: they succeed */
	_Atomic bool failed;
	_Atomic unsigned records; /* begun */
	_Atomic unsigned kicks;
	struct log_waiter *waiter; /* that joined last */
	struct fake_record record[FAKE_LOG_MAX];
};

extern struct fake_log fake_log;

/* fake_log_open - @s, which nobody writes yet, has this log, empty. */
void fake_log_open(struct store *s);

/* fake_log_commit - all that was appended. */
void fake_log_commit(void);
