/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A thread that asks for the server's statistics, so that the thread that watches keys and a
 * terminal does not wait for a server that does not answer. It has the handle between asker_start()
 * and asker_stop(). All calls are of one thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "client/include/gracekv.h"
#include "common/base/error.h"

struct asker;

struct answer {
	char *text; /* to be freed; NULL: there is none */
	uint64_t at_ns; /* when it came */
	struct error err; /* why there is none */
};

/* asker_start - returns 0 or a negative errno. */
int asker_start(struct asker **out, struct gkv *handle);

/* asker_fd - becomes readable when asker_take() has an answer. */
int asker_fd(const struct asker *a);

/* asker_ask - one question; not while one is under way. */
void asker_ask(struct asker *a);

/* asker_busy - is one under way, or its answer not taken? */
bool asker_busy(const struct asker *a);

/* asker_take - the answer, once it is there. Returns whether it is. */
bool asker_take(struct asker *a, struct answer *out);

/*
 * asker_stop - end the thread; the handle is the caller's again. A question under way is waited
 * for, @patience_ms at most, or where that is negative until the call ends: the session's
 * timeout_ms. Returns whether it has ended; where not, nothing has changed.
 */
bool asker_stop(struct asker *a, int patience_ms);
