/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Writes that wait for a log, for tests; and the log, in which all is committed that a test
 * says. */
#include <stdatomic.h>
#include <stdint.h>

#include "server/store/store.h"

/* What the log got. Any thread appends. */
extern _Atomic uint64_t fake_log_records, fake_log_tail;
extern _Atomic int fake_log_error; /* log_append_begin() returns it */
extern _Atomic uint64_t fake_log_wrong; /* records that were not what their blocks are */

/* fake_log_open - the store waits for it from now on. */
void fake_log_open(struct store *s);

enum pending_op { PENDING_PUT, PENDING_DEL, PENDING_INCR, PENDING_TOUCH, PENDING_APPEND };

struct pending_ask {
	enum pending_op op;
	const char *key;
	const char *value; /* PUT, APPEND */
	int64_t delta; /* INCR */
	uint64_t expiry_ms;
	struct store_terms terms;
};

/* A write, from its decision until it is published. */
struct pending_write {
	struct store_pending pending;
	struct store_decision decision;
	struct store_result result;
	int64_t sum;
	int rc;
};

/* pending_decide - returns x->rc. Waits where memory grows. */
int pending_decide(struct store_worker *w, const struct pending_ask *ask, struct pending_write *x);
