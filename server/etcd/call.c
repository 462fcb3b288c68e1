/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * One question to etcd, whichever endpoint answers it.
 *
 * A read goes to the next endpoint where one fails. A change does so only where nothing of it can
 * have left: a transaction that an endpoint has got may be executed later, whatever the endpoint
 * says or does not say, unless it says that the request was wrong, or not allowed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/time.h"
#include "server/etcd/etcd_internal.h"

#define STATUS_OK	 200
#define STATUS_BAD	 400
#define STATUS_WHO	 401
#define STATUS_FORBIDDEN 403
#define STATUS_NOT_FOUND 404
#define STATUS_TOO_MANY	 429
#define STATUS_FAILED	 500
#define WORDS_MAX	 160

char *json_text(json_t *body)
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

	json_decref(body);
	return text;
}

static json_t *parse(const struct http_answer *a)
{
	json_t *j = a->text ? json_loads(a->text, 0, NULL) : NULL;

	if (json_is_object(j))
		return j;
	json_decref(j);
	return NULL;
}

static int refused(const struct etcd *e, unsigned at, const struct http_answer *a,
		   struct error *err)
{
	json_t *j = parse(a);
	const char *words = json_string_value(json_object_get(j, "message"));
	int rc;

	if (!words)
		words = json_string_value(json_object_get(j, "error"));
	switch (a->status) {
	case STATUS_WHO:
	case STATUS_FORBIDDEN:
		rc = error_set(err, -EACCES,
			       "%s refuses it: %.*s (give the user and the password of one that "
			       "may read and write the cluster's keys)",
			       e->endpoint[at], WORDS_MAX, words ? words : "not allowed");
		break;
	case STATUS_BAD:
		/* What it says where it wants a user, and none was named: "user name is empty". */
		rc = error_set(err, words && strstr(words, "user") ? -EACCES : -EINVAL,
			       "%s refuses it: %.*s%s", e->endpoint[at], WORDS_MAX,
			       words ? words : "no reason was given",
			       words && strstr(words, "user name is empty")
				       ? " (give the user and the password for etcd)"
				       : "");
		break;
	case STATUS_TOO_MANY:
		rc = error_set(err, -ENOSPC,
			       "%s has no room: %.*s (look at etcd's alarms and quota)",
			       e->endpoint[at], WORDS_MAX, words ? words : "no reason was given");
		break;
	default:
		/* It has no leader, or no time. */
		rc = words && a->status >= STATUS_FAILED ? -EREMOTEIO : -EPROTO;
		error_set(err, rc, "%s: status %ld: %.*s", e->endpoint[at], a->status, WORDS_MAX,
			  words ? words : "this is no etcd with a JSON gateway");
		break;
	}
	json_decref(j);
	return rc;
}

/* Whether a status says that nothing was done, and will not be. */
static bool is_final(long status)
{
	return status == STATUS_BAD || status == STATUS_WHO || status == STATUS_FORBIDDEN ||
	       status == STATUS_NOT_FOUND || status == STATUS_TOO_MANY;
}

static int take_token(struct etcd *e, unsigned at, const struct http_answer *a, struct error *err)
{
	json_t *j = a->status == STATUS_OK ? parse(a) : NULL;
	const char *token = json_string_value(json_object_get(j, "token"));
	int rc = 0;

	free(e->token);
	e->token = NULL;
	if (!token)
		rc = refused(e, at, a, err);
	else if (asprintf(&e->token, "Authorization: %s", token) < 0) {
		e->token = NULL;
		rc = error_set(err, -ENOMEM, "there is no memory for etcd's token");
	}
	json_decref(j);
	return rc;
}

/* The token is asked for once, and again where etcd does not know it any more. */
static int authenticate(struct etcd *e, unsigned at, uint64_t deadline_ns, struct error *err)
{
	autofree char *text = json_text(json_pack("{ss ss}", "name", e->config.user, "password",
						  e->config.password ? e->config.password : ""));
	struct http_answer a;
	int rc;

	if (!text)
		return error_set(err, -EINVAL,
				 "etcd's user or password is no text in UTF-8 (give another one)");
	rc = http_post(e, at, "/v3/auth/authenticate", text, deadline_ns, false, &a, err);
	if (rc)
		return rc;
	rc = take_token(e, at, &a, err);
	free(a.text);
	return rc;
}

/* What one endpoint made of it. */
struct attempt {
	int rc;
	bool maybe; /* it may have been done, or may be yet */
	bool final; /* no other endpoint is asked */
};

static struct attempt ask(struct etcd *e, unsigned at, const char *path, const char *body,
			  bool changes, uint64_t deadline_ns, json_t **out, struct error *err)
{
	struct attempt t = { 0 };
	struct http_answer a = { 0 };

	for (unsigned tries = 0; tries < 2; tries++) {
		if (e->config.user && !e->token)
			t.rc = authenticate(e, at, deadline_ns, err);
		if (t.rc) {
			t.final = t.rc == -EACCES || t.rc == -ECANCELED;
			return t;
		}
		t.rc = http_post(e, at, path, body, deadline_ns, changes, &a, err);
		if (t.rc || a.status != STATUS_WHO || !e->config.user || tries)
			break;
		free(e->token); /* it is too old, or of another life of etcd */
		e->token = NULL;
		free(a.text);
	}
	if (t.rc) {
		t.maybe = a.sent;
		t.final = t.rc == -ECANCELED;
		return t;
	}
	*out = a.status == STATUS_OK ? parse(&a) : NULL;
	if (!*out) {
		t.rc = refused(e, at, &a, err);
		t.final = is_final(a.status) && t.rc != -EPROTO;
		t.maybe = !is_final(a.status);
	}
	free(a.text);
	return t;
}

static int call_text(struct etcd *e, const char *path, const char *body, bool changes, json_t **out,
		     struct error *err)
{
	const unsigned first = e->at;
	const uint64_t each_ns = e->config.timeout_ms * NS_PER_MS / e->count;
	struct error all = { 0 };
	struct attempt t = { 0 };

	for (unsigned i = 0; i < e->count; i++) {
		const unsigned at = (first + i) % e->count;
		const size_t len = strlen(all.text);

		t = ask(e, at, path, body, changes, time_now_ns() + each_ns, out, err);
		if (!t.rc)
			e->at = at;
		if (changes && t.rc && t.maybe)
			return error_set(err, -EINPROGRESS,
					 "etcd has not said whether it has changed the "
					 "configuration; it may have, or may do so yet");
		if (!t.rc || t.final)
			return t.rc;
		snprintf(all.text + len, sizeof(all.text) - len, "%s%.300s", len ? "; " : "",
			 err->text);
	}
	return error_set(err, t.rc,
			 "etcd does not answer: %.400s (look whether it runs, has a quorum, and "
			 "can be reached from here)",
			 all.text);
}

int call(struct etcd *e, const char *path, json_t *body, bool changes, json_t **out,
	 struct error *err)
{
	autofree char *text = json_text(body);
	struct error own;

	*out = NULL;
	if (!text)
		return error_set(err, -ENOMEM, "there is no memory for a request to etcd");
	return call_text(e, path, text, changes, out, err ? err : &own);
}
