/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Requests by libcurl, all in one multi handle, so that a call and the watch are waited for at once
 * and another thread can end the wait. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/etcd/etcd_internal.h"

#define URL_MAX	 1024u
#define GRACE_NS (100 * NS_PER_MS)

/* curl: what comes of the answer. Less than was given ends the request. */
static size_t add_text(char *bytes, size_t one, size_t count, void *ctx)
{
	struct etcd_text *t = ctx;
	const size_t len = one * count;

	if (len > ETCD_ANSWER_MAX - t->len)
		return 0;
	if (t->len + len + 1 > t->room) {
		const size_t room = 2 * (t->len + len + 1);
		char *more = realloc(t->bytes, room);

		if (!more)
			return 0;
		t->bytes = more;
		t->room = room;
	}
	memcpy(t->bytes + t->len, bytes, len);
	t->len += len;
	t->bytes[t->len] = 0;
	return len;
}

static bool set_security(CURL *c, const struct etcd_config *config)
{
	return (!config->ca || !curl_easy_setopt(c, CURLOPT_CAINFO, config->ca)) &&
	       (!config->cert || !curl_easy_setopt(c, CURLOPT_SSLCERT, config->cert)) &&
	       (!config->key || !curl_easy_setopt(c, CURLOPT_SSLKEY, config->key));
}

/* @timeout_ms 0: it goes on for ever, but for a path that is dead. */
static bool set_up(struct etcd *e, struct etcd_request *r, const char *url, const char *body,
		   unsigned timeout_ms)
{
	CURL *c = r->curl;

	return !curl_easy_setopt(c, CURLOPT_URL, url) &&
	       !curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) &&
	       !curl_easy_setopt(c, CURLOPT_PROXY, "") && /* etcd is near */
	       !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") &&
	       !curl_easy_setopt(c, CURLOPT_HTTPHEADER, r->headers) &&
	       !curl_easy_setopt(c, CURLOPT_COPYPOSTFIELDS, body) &&
	       !curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)timeout_ms) &&
	       !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)e->config.timeout_ms) &&
	       !curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L) &&
	       !curl_easy_setopt(c, CURLOPT_TCP_KEEPIDLE, 5L) &&
	       !curl_easy_setopt(c, CURLOPT_TCP_KEEPINTVL, 5L) &&
	       !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, add_text) &&
	       !curl_easy_setopt(c, CURLOPT_WRITEDATA, &r->text) &&
	       !curl_easy_setopt(c, CURLOPT_ERRORBUFFER, r->why) &&
	       !curl_easy_setopt(c, CURLOPT_PRIVATE, r) && set_security(c, &e->config);
}

/* The list of headers is the request's: freed with it. */
static struct curl_slist *make_headers(const struct etcd *e)
{
	struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json"), *more;

	if (list && e->token) {
		more = curl_slist_append(list, e->token);
		if (!more)
			curl_slist_free_all(list);
		list = more;
	}
	return list;
}

int http_begin(struct etcd *e, struct etcd_request *r, unsigned at, const char *path,
	       const char *body, unsigned timeout_ms, struct error *err)
{
	char url[URL_MAX];

	*r = (struct etcd_request){ .curl = curl_easy_init(), .headers = make_headers(e) };
	snprintf(url, sizeof(url), "%s%s", e->endpoint[at], path);
	if (!r->curl || !r->headers || !set_up(e, r, url, body, timeout_ms) ||
	    curl_multi_add_handle(e->multi, r->curl)) {
		http_end(e, r);
		return error_set(err, -ENOMEM, "there is no memory for a request to etcd");
	}
	return 0;
}

void http_end(struct etcd *e, struct etcd_request *r)
{
	if (r->curl) {
		curl_multi_remove_handle(e->multi, r->curl);
		curl_easy_cleanup(r->curl);
	}
	curl_slist_free_all(r->headers);
	free(r->text.bytes);
	*r = (struct etcd_request){ 0 };
}

static void take_ends(struct etcd *e)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(e->multi, &left))) {
		struct etcd_request *r = NULL;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &r);
		r->code = m->data.result;
		r->ended = true;
	}
}

int http_run(struct etcd *e, unsigned timeout_ms)
{
	int running;

	if (atomic_load_explicit(&e->woken, memory_order_seq_cst)) /* see etcd_wake() */
		return -ECANCELED;
	/* First, or it would sleep over what the last step has done. A new request is at once. */
	curl_multi_poll(e->multi, NULL, 0, (int)timeout_ms, NULL);
	curl_multi_perform(e->multi, &running);
	take_ends(e);
	return 0;
}

/* Until then; at least 1. */
static unsigned left_ms(uint64_t deadline_ns)
{
	const uint64_t now = time_now_ns();

	return now < deadline_ns ? (unsigned)((deadline_ns - now) / NS_PER_MS) + 1 : 1;
}

int http_rest(struct etcd *e, unsigned ms)
{
	const uint64_t deadline_ns = time_now_ns() + ms * NS_PER_MS;
	int rc = 0;

	while (!rc && time_now_ns() < deadline_ns)
		rc = http_run(e, left_ms(deadline_ns));
	return rc;
}

static int errno_of(CURLcode code)
{
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
		return -EHOSTUNREACH;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
		return -EACCES;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	default:
		return -EPROTO;
	}
}

/* Whether a byte of the request may have left. */
static bool may_be_sent(CURL *c)
{
	long bytes = 0;

	return curl_easy_getinfo(c, CURLINFO_REQUEST_SIZE, &bytes) || bytes > 0;
}

int http_post(struct etcd *e, unsigned at, const char *path, const char *body, uint64_t deadline_ns,
	      bool fresh, struct http_answer *out, struct error *err)
{
	struct etcd_request r;
	int rc;

	*out = (struct http_answer){ 0 };
	rc = http_begin(e, &r, at, path, body, left_ms(deadline_ns), err);
	if (rc)
		return rc;
	/* Curl sends a request once more where a connection that it kept was dead. */
	if (fresh && !MUTANT(change_twice))
		curl_easy_setopt(r.curl, CURLOPT_FRESH_CONNECT, 1L);
	while (!rc && !r.ended) {
		rc = http_run(e, left_ms(deadline_ns));
		/* Curl's own time-out comes first, as a rule. */
		if (!rc && !r.ended && time_now_ns() > deadline_ns + GRACE_NS)
			rc = -ETIMEDOUT;
	}
	out->sent = may_be_sent(r.curl);
	if (rc) {
		error_set(err, rc, "%s: %s", e->endpoint[at], error_name(rc));
	} else if (r.code) {
		rc = error_set(err, errno_of(r.code), "%s: %s", e->endpoint[at],
			       r.why[0] ? r.why : curl_easy_strerror(r.code));
	} else {
		curl_easy_getinfo(r.curl, CURLINFO_RESPONSE_CODE, &out->status);
		out->text = r.text.bytes;
		r.text.bytes = NULL;
	}
	http_end(e, &r);
	return rc;
}
