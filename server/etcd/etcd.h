/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * etcd, by its JSON gateway: https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/, and
 * https://etcd.io/docs/v3.4/dev-guide/api_reference_v3/ for the fields.
 *
 * A struct etcd belongs to one thread at a time; etcd_wake() alone may be called by others. Every
 * call ends within its time: that of the configuration, over all endpoints together. The endpoint
 * that answered last is asked first.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define ETCD_ENDPOINTS_MAX 16u

struct etcd;

struct etcd_config {
	const char *endpoints; /* "http://HOST:PORT,https://..." */
	const char *user, *password; /* NULL: etcd asks for none */
	const char *ca, *cert,
		*key; /* files, PEM; NULL: the system's CAs, no certificate of ours */
	unsigned timeout_ms; /* of a call */
};

/*
 * etcd_open - nothing is connected yet. Copies the configuration. Returns 0, -EINVAL: an endpoint
 * is none; -ENOENT: a file cannot be read; -ENOMEM; with @err.
 */
int etcd_open(struct etcd **out, const struct etcd_config *config, struct error *err);
void etcd_close(struct etcd *e);

struct etcd_value {
	char *bytes; /* with a 0 behind them; NULL: there is no such key */
	size_t len;
	int64_t modified; /* mod_revision; 0: there is no such key */
	int64_t revision; /* of the store, when it was read */
};

/*
 * etcd_get - read a key, linearizably: what was changed before the call began is seen. The caller
 * frees with etcd_value_free(), whatever is returned.
 * Returns 0, also where there is no such key; -EACCES: refused; -EPROTO: no etcd answers there;
 * -EREMOTEIO: one does, and cannot: it has no leader, or no quorum; -ETIMEDOUT, -EHOSTUNREACH:
 * nobody answers; -ECANCELED: etcd_wake(). @err says it of each endpoint.
 */
int etcd_get(struct etcd *e, const char *key, struct etcd_value *out, struct error *err);
void etcd_value_free(struct etcd_value *v);

struct etcd_change {
	const char *key;
	int64_t modified; /* must be its mod_revision still; 0: the key must not be there */
	const void *bytes; /* the new value; NULL: the key is compared only */
	size_t len;
};

/*
 * etcd_change - a transaction: all of @changes where each key is as it must be, or nothing. It is
 * sent once.
 * Returns 0: done, and @modified is the new mod_revision; -EAGAIN: nothing was changed, a key is
 * another; -EINPROGRESS: nobody knows, and it may still come; else as etcd_get(): it was not done
 * and will not be.
 */
int etcd_change(struct etcd *e, const struct etcd_change *changes, unsigned count,
		int64_t *modified, struct error *err);

/*
 * etcd_watch - ask to be told of changes of @key behind @revision. One watch at a time;
 * etcd_close() and etcd_unwatch() end it.
 * etcd_watch_wait - wait for at most @timeout_ms. Returns 1: read the key again, since it may have
 * been changed; 0: nothing was told; negative: the watch is over, watch again after a read: @err.
 */
int etcd_watch(struct etcd *e, const char *key, int64_t revision, struct error *err);
int etcd_watch_wait(struct etcd *e, unsigned timeout_ms, struct error *err);
void etcd_unwatch(struct etcd *e);

/* etcd_wake - whatever waits now, and each call from now on, returns -ECANCELED. Any thread. */
void etcd_wake(struct etcd *e);

/* etcd_endpoint - which one answered last: its URL, which stays until etcd_close(). */
const char *etcd_endpoint(const struct etcd *e);
