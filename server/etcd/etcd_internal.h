/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Private to server/etcd. */
#include <curl/curl.h>
#include <jansson.h>
#include <stdatomic.h>

#include "server/etcd/etcd.h"

#define ETCD_ANSWER_MAX (4u << 20) /* bytes of an answer, or of a line of a watch */

/* What etcd sends; it grows to ETCD_ANSWER_MAX. */
struct etcd_text {
	char *bytes; /* with a 0 behind them, or NULL */
	size_t len, room;
};

/* One request under way. */
struct etcd_request {
	CURL *curl; /* NULL: there is none */
	struct curl_slist *headers;
	char why[CURL_ERROR_SIZE];
	struct etcd_text text;
	CURLcode code;
	bool ended; /* `code` is its result */
};

struct etcd {
	struct etcd_config config; /* all strings are ours */
	char *urls, *endpoint[ETCD_ENDPOINTS_MAX];
	unsigned count;
	unsigned at; /* which endpoint answered last */
	char *token; /* "Authorization: ..."; NULL: none was asked for yet */
	CURLM *multi;
	struct etcd_request watch;
	_Atomic bool woken;
};

struct http_answer {
	char *text; /* the caller's; NULL: it is empty */
	long status;
	bool sent; /* etcd may have got the request, whatever was returned */
};

/* http.c
 * http_begin - POST @body, which is copied, to endpoint @at. @timeout_ms 0: no end. http_end - it
 * is over, ended or not.
 * http_run - do what can be done, and wait for more, for @timeout_ms at most. Returns 0, or
 * -ECANCELED: etcd_wake().
 * http_rest - wait for @ms, unless woken. Returns 0 or -ECANCELED.
 * http_post - a request and its answer, until @deadline_ns. @fresh: over a connection of its
 * own, so that it leaves once. Returns 0, whatever the status is, or a negative errno with @err. */
int http_begin(struct etcd *e, struct etcd_request *r, unsigned at, const char *path,
	       const char *body, unsigned timeout_ms, struct error *err);
void http_end(struct etcd *e, struct etcd_request *r);
int http_run(struct etcd *e, unsigned timeout_ms);
int http_rest(struct etcd *e, unsigned ms);
int http_post(struct etcd *e, unsigned at, const char *path, const char *body, uint64_t deadline_ns,
	      bool fresh, struct http_answer *out, struct error *err);

/* call.c
 * call - ask one endpoint after the other until one answers, within the time of a call. @changes:
 * only one may have got it. *@out: the answer, to be freed with json_decref(). Returns 0, or what
 * etcd_get() and etcd_change() say.
 * json_text - @body as text, to be freed; takes the reference. NULL: no memory, or no body. */
int call(struct etcd *e, const char *path, json_t *body, bool changes, json_t **out,
	 struct error *err);
char *json_text(json_t *body);

/* base64.c: JSON strings of bytes, or of a key, and back. NULL: no memory; or the text is none. */
json_t *base64_json(const void *bytes, size_t len);
json_t *base64_key(const char *key);
char *base64_bytes(const json_t *text, size_t *len);
