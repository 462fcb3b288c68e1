/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * This store, by its library as it is installed. One operation at a time is a call that waits; more
 * are submitted and polled.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include <gracekv.h>

#include "common/base/time.h"
#include "tools/kv-bench/system.h"

#define WAIT_MS 1000u

struct connection {
	struct gkv *kv;
	unsigned depth;
	struct kv_op *done; /* depth 1: the one that is through */
	unsigned requests; /* handed over, and not submitted */
	struct gkv_request *request;
	struct gkv_completion *completion;
};

static void driver_close(void *connection)
{
	struct connection *c = connection;

	gkv_close(c->kv);
	free(c->request);
	free(c->completion);
	free(c);
}

static int driver_open(const struct system *system, unsigned depth, size_t value_max, void **out,
		       struct error *err)
{
	struct connection *c = calloc(1, sizeof(*c));
	struct gkv_handle_options o = { .depth = depth };
	char why[ERROR_TEXT_MAX] = "out of memory";
	int rc = -ENOMEM;

	if (!c)
		return error_set(err, rc, "no memory");
	c->depth = depth;
	c->request = calloc(depth, sizeof(*c->request));
	c->completion = calloc(depth, sizeof(*c->completion));
	if (c->request && c->completion)
		rc = gkv_open(system->session, &o, &c->kv, why, sizeof(why));
	if (rc == 0) {
		*out = c;
		return 0;
	}
	driver_close(c);
	return error_set(err, rc, "opening a handle failed: %s", why);
}

/* What the library says of an operation, for its caller. */
static void settle(struct kv_op *op, int status, size_t len)
{
	op->status = status;
	op->data = op->value;
	op->data_len = len;
}

static void at_once(struct connection *c, struct kv_op *op)
{
	size_t len = 0;
	int rc;

	if (op->verb == KV_GET)
		rc = gkv_get(c->kv, op->key, op->key_len, op->value, op->value_len, &len);
	else if (op->verb == KV_PUT)
		rc = gkv_put(c->kv, op->key, op->key_len, op->value, op->value_len, NULL);
	else
		rc = gkv_del(c->kv, op->key, op->key_len);
	settle(op, rc, len);
	c->done = op;
}

static void driver_submit(void *connection, struct kv_op *op)
{
	static const unsigned verb[] = {
		[KV_GET] = GKV_OP_GET, [KV_PUT] = GKV_OP_PUT, [KV_DEL] = GKV_OP_DEL
	};
	struct connection *c = connection;

	if (c->depth == 1) {
		at_once(c, op);
		return;
	}
	c->request[c->requests++] = (struct gkv_request){
		.op = verb[op->verb],
		.key = op->key,
		.key_len = op->key_len,
		.value = op->value,
		.len = op->value_len,
		.user = op,
	};
}

static int submit(struct connection *c)
{
	unsigned requests = c->requests;
	int n;

	c->requests = 0;
	if (!requests)
		return 0;
	n = gkv_submit(c->kv, c->request, requests);
	return n < 0 ? n : (unsigned)n == requests ? 0 : -EAGAIN; /* there is room for all */
}

static int next(struct connection *c, unsigned max, uint64_t until_ns)
{
	uint64_t now = until_ns ? time_now_ns() : 0;
	int n = gkv_poll(c->kv, c->completion, max);

	while (n == 0 && (until_ns == 0 || now < until_ns)) {
		uint64_t left_ms = until_ns ? (until_ns - now) / NS_PER_MS : WAIT_MS + 1;

		if (left_ms > 1) { /* it may last a ms longer than it is asked to */
			left_ms = left_ms - 1 < WAIT_MS ? left_ms - 1 : WAIT_MS;
			n = gkv_wait(c->kv, c->completion, max, (unsigned)left_ms);
		} else {
			time_relax();
			n = gkv_poll(c->kv, c->completion, max);
		}
		now = until_ns ? time_now_ns() : 0;
	}
	return n;
}

static bool failed(const struct kv_op *op)
{
	return op->status && op->status != -ENOENT && op->status != -EMSGSIZE;
}

static int driver_collect(void *connection, struct kv_op **done, unsigned max, uint64_t until_ns,
			  struct error *err)
{
	struct connection *c = connection;
	int n;

	if (c->depth == 1) {
		done[0] = c->done;
		if (failed(c->done))
			error_set(err, c->done->status, "%s", gkv_error(c->kv));
		return 1;
	}
	n = submit(c);
	if (n == 0)
		n = next(c, max, until_ns);
	for (int i = 0; i < n; i++) {
		const struct gkv_completion *one = &c->completion[i];

		done[i] = one->user;
		settle(done[i], one->status, one->len);
		if (failed(done[i]))
			error_set(err, one->status, "%s", gkv_error(c->kv));
	}
	return n < 0 ? error_set(err, n, "%s", gkv_error(c->kv)) : n;
}

const struct driver driver_gracekv = { driver_open, driver_submit, driver_collect, driver_close };
