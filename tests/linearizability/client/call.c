/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* One call, which waits for its answer: all functions of the public API for one key. */

#include "client/src/call/get.h"
#include "tests/linearizability/client/actor.h"

static void get_call(struct actor *a, struct attempt *d, struct gkv *kv, unsigned way)
{
	size_t len = 0;
	int rc;

	actor_begins(a, d, way);
	rc = gkv_get(kv, d->key, d->key_len, d->place, VALUE_BYTES_MAX, &len);
	actor_ends(a, d, rc, d->place, len, 0, 0, gkv_error(kv));
}

static void get_view(struct actor *a, struct attempt *d)
{
	struct gkv_meta meta = { 0 };
	const void *value = NULL;
	int rc;

	actor_begins(a, d, HISTORY_VIEW);
	rc = gkv_get_view(a->kv, d->key, d->key_len, &value, &meta);
	actor_ends(a, d, rc, value, meta.value_len, meta.version, 0, gkv_error(a->kv));
}

static void get_into(struct actor *a, struct attempt *d)
{
	struct gkv_meta meta = { 0 };
	int rc;

	actor_begins(a, d, HISTORY_INTO);
	rc = gkv_get_into(a->kv, d->key, d->key_len, a->memory, d->place, VALUE_BYTES_MAX, &meta);
	actor_ends(a, d, rc, d->place, meta.value_len, meta.version, 0, gkv_error(a->kv));
}

/*
 * A look-up that has failed too often one-sided already: what is left is to ask the server. The
 * library comes there by itself only where writers never rest.
 */
static void get_asked(struct actor *a, struct attempt *d)
{
	struct lookup l = { .state = LOOKUP_ASK,
			    .key = d->key,
			    .key_len = (uint32_t)d->key_len,
			    .dest = d->place,
			    .cap = VALUE_BYTES_MAX };
	int rc;

	actor_begins(a, d, HISTORY_ASKED);
	rc = handle_begin(a->kv);
	if (rc == 0) {
		rc = handle_lookup(a->kv, &l, 1);
		if (rc == 0 && l.state != LOOKUP_FOUND)
			rc = -ENOENT;
		rc = handle_end(a->kv, rc);
	}
	actor_ends(a, d, rc, d->place, l.value_len, l.version, 0, gkv_error(a->kv));
}

static void get(struct actor *a, struct attempt *d)
{
	switch (actor_below(a, 8)) {
	case 0:
		get_asked(a, d);
		break;
	case 1:
		get_view(a, d);
		break;
	case 2:
		if (a->memory) {
			get_into(a, d);
			break;
		}
		/* fall through */
	case 3:
		get_call(a, d, a->plain, HISTORY_NO_HINTS);
		break;
	default:
		get_call(a, d, a->kv, HISTORY_CALL);
	}
}

static void exists(struct actor *a, struct attempt *d)
{
	struct gkv_meta meta = { 0 };
	int rc;

	actor_begins(a, d, HISTORY_CALL);
	rc = gkv_exists(a->kv, d->key, d->key_len, &meta);
	actor_ends(a, d, rc, NULL, 0, meta.version, 0, gkv_error(a->kv));
}

static void put(struct actor *a, struct attempt *d)
{
	const struct gkv_write_options options = attempt_options(d);
	struct gkv_meta meta = { 0 };
	int rc;

	actor_begins(a, d, HISTORY_CALL);
	rc = gkv_put_with(a->kv, d->key, d->key_len, d->place, d->len, &options, &meta);
	actor_ends(a, d, rc, NULL, 0, meta.version, 0, gkv_error(a->kv));
}

static void cas(struct actor *a, struct attempt *d)
{
	uint64_t version = d->as.expected;
	int rc;

	actor_begins(a, d, HISTORY_CALL);
	rc = gkv_cas(a->kv, d->key, d->key_len, &version, d->place, d->len);
	actor_ends(a, d, rc, NULL, 0, version, 0, gkv_error(a->kv));
}

static void del(struct actor *a, struct attempt *d)
{
	int rc;

	actor_begins(a, d, HISTORY_CALL);
	rc = d->as.op == HISTORY_DEL ? gkv_del(a->kv, d->key, d->key_len)
				     : gkv_del_if(a->kv, d->key, d->key_len, d->as.expected);
	actor_ends(a, d, rc, NULL, 0, 0, 0, gkv_error(a->kv));
}

static void incr(struct actor *a, struct attempt *d)
{
	int64_t sum = 0;
	int rc;

	actor_begins(a, d, HISTORY_CALL);
	rc = gkv_incr(a->kv, d->key, d->key_len, d->delta, &sum);
	actor_ends(a, d, rc, NULL, 0, 0, sum, gkv_error(a->kv));
}

static void append(struct actor *a, struct attempt *d)
{
	struct gkv_meta meta = { 0 };
	int rc;

	actor_begins(a, d, HISTORY_CALL);
	rc = gkv_append(a->kv, d->key, d->key_len, d->place, d->len, NULL, &meta);
	actor_ends(a, d, rc, NULL, 0, meta.version, 0, gkv_error(a->kv));
}

static void getdel(struct actor *a, struct attempt *d)
{
	struct gkv_meta meta = { 0 };
	int rc;

	actor_begins(a, d, HISTORY_CALL);
	rc = gkv_getdel(a->kv, d->key, d->key_len, d->place, VALUE_BYTES_MAX, &meta);
	actor_ends(a, d, rc, d->place, meta.value_len, meta.version, 0, gkv_error(a->kv));
}

void call_step(struct actor *a)
{
	struct attempt *d = &a->call;

	if (!attempt_old(a, d))
		attempt_choose(a, d, ATTEMPT_ALL);
	switch (d->as.op) {
	case HISTORY_GET:
		get(a, d);
		break;
	case HISTORY_EXISTS:
		exists(a, d);
		break;
	case HISTORY_CAS:
		cas(a, d);
		break;
	case HISTORY_DEL:
	case HISTORY_DEL_IF:
		del(a, d);
		break;
	case HISTORY_INCR:
		incr(a, d);
		break;
	case HISTORY_APPEND:
		append(a, d);
		break;
	case HISTORY_GETDEL:
		getdel(a, d);
		break;
	default:
		put(a, d);
	}
}
