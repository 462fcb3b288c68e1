/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What a system under measurement is to its clients: connections over which operations are handed
 * over and come back completed. One thread uses a connection.
 */
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define DRIVER_PATIENCE_S 20u /* a system that answers nothing for this long has failed */

enum kv_verb { KV_GET, KV_PUT, KV_DEL };

/* An operation; the driver's until it is completed. */
struct kv_op {
	enum kv_verb verb;
	const char *key;
	size_t key_len;
	char *value; /* a put: what is written; a get: room for it */
	size_t value_len; /* a put: its bytes; a get: the room's */
	/* What came of it. */
	int status; /* 0; -ENOENT: there is none; -EMSGSIZE: it is longer; another one: it failed */
	const char *data; /* of a get, until the next call on the connection */
	size_t data_len;
};

struct system;

struct driver {
	/*
	 * Up to @depth operations in flight, of values up to @value_max bytes. Returns 0, or a
	 * negative errno with @err.
	 */
	int (*open)(const struct system *system, unsigned depth, size_t value_max, void **out,
		    struct error *err);
	/* May only be remembered until collect(). */
	void (*submit)(void *connection, struct kv_op *op);
	/*
	 * Wait for completions, until @until_ns where that is not 0. Returns how many of @done were
	 * filled, 0 only when that time has come; or a negative errno with @err: the connection is
	 * of no use any more.
	 */
	int (*collect)(void *connection, struct kv_op **done, unsigned max, uint64_t until_ns,
		       struct error *err);
	void (*close)(void *connection);
};

extern const struct driver driver_gracekv;
extern const struct driver driver_stream; /* of all that speak over a socket */
