/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/etcd/etcd_internal.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* Whether curl finds a host in it, and nothing that is not ours to send. */
static bool is_endpoint(const char *text)
{
	CURLU *url = curl_url();
	char *scheme = NULL, *host = NULL, *path = NULL, *query = NULL;
	bool good;

	if (!url)
		return false;
	good = !curl_url_set(url, CURLUPART_URL, text, 0) &&
	       !curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) &&
	       (!strcmp(scheme, "http") || !strcmp(scheme, "https")) &&
	       !curl_url_get(url, CURLUPART_HOST, &host, 0) && *host &&
	       !curl_url_get(url, CURLUPART_PATH, &path, 0) && !strcmp(path, "/") &&
	       curl_url_get(url, CURLUPART_QUERY, &query, 0) == CURLUE_NO_QUERY;
	curl_free(scheme);
	curl_free(host);
	curl_free(path);
	curl_free(query);
	curl_url_cleanup(url);
	return good;
}

static int add_endpoint(struct etcd *e, char *text, struct error *err)
{
	size_t len = strlen(text);

	while (len && text[len - 1] == '/')
		text[--len] = 0;
	if (!is_endpoint(text))
		return error_set(err, -EINVAL,
				 "\"%s\" is no endpoint of etcd (write http://HOST:2379 or "
				 "https://HOST:2379, with commas between several)",
				 text);
	if (e->count == ETCD_ENDPOINTS_MAX)
		return error_set(err, -EINVAL,
				 "there are more than %u endpoints of etcd (give fewer)",
				 ETCD_ENDPOINTS_MAX);
	e->endpoint[e->count++] = text;
	return 0;
}

static int split_endpoints(struct etcd *e, struct error *err)
{
	char *rest = NULL;
	int rc = 0;

	for (char *one = strtok_r(e->urls, ", ", &rest); one && !rc;
	     one = strtok_r(NULL, ", ", &rest))
		rc = add_endpoint(e, one, err);
	if (!rc && !e->count)
		return error_set(err, -EINVAL,
				 "no endpoint of etcd was given (write http://HOST:2379)");
	return rc;
}

/* Curl says less of a file that is not there. */
static int look_at(const char *what, const char *path, struct error *err)
{
	if (!path || access(path, R_OK) == 0)
		return 0;
	return error_set(err, -ENOENT,
			 "the %s for etcd, %s, cannot be read: %s (give another file)", what, path,
			 error_name(errno));
}

static int look_at_files(const struct etcd_config *c, struct error *err)
{
	int rc = look_at("file of CA certificates", c->ca, err);

	if (!rc)
		rc = look_at("certificate", c->cert, err);
	if (!rc)
		rc = look_at("private key", c->key, err);
	return rc;
}

static const char *copy(const char *text, bool *all)
{
	char *made = text ? strdup(text) : NULL;

	*all &= !text || made;
	return made;
}

static bool copy_config(struct etcd *e, const struct etcd_config *c)
{
	bool all = true;

	e->config = (struct etcd_config){
		.user = copy(c->user, &all),
		.password = copy(c->password, &all),
		.ca = copy(c->ca, &all),
		.cert = copy(c->cert, &all),
		.key = copy(c->key, &all),
		.timeout_ms = c->timeout_ms,
	};
	e->urls = strdup(c->endpoints);
	return all && e->urls;
}

int etcd_open(struct etcd **out, const struct etcd_config *config, struct error *err)
{
	struct etcd *e = calloc(1, sizeof(*e));
	int rc;

	pthread_once(&once, start_curl);
	if (!e || !copy_config(e, config) || !(e->multi = curl_multi_init())) {
		rc = error_set(err, -ENOMEM,
			       "there is no memory for talking to etcd (give the server more)");
	} else {
		rc = look_at_files(config, err);
		if (!rc)
			rc = split_endpoints(e, err);
	}
	if (rc) {
		etcd_close(e);
		return rc;
	}
	*out = e;
	return 0;
}

void etcd_close(struct etcd *e)
{
	if (!e)
		return;
	etcd_unwatch(e);
	if (e->multi)
		curl_multi_cleanup(e->multi);
	free((void *)e->config.user);
	free((void *)e->config.password);
	free((void *)e->config.ca);
	free((void *)e->config.cert);
	free((void *)e->config.key);
	free(e->token);
	free(e->urls);
	free(e);
}

void etcd_wake(struct etcd *e)
{
	/* seq_cst: the waiter looks at it before it polls; curl keeps the wake-up until then */
	atomic_store_explicit(&e->woken, true, memory_order_seq_cst);
	curl_multi_wakeup(e->multi);
}

const char *etcd_endpoint(const struct etcd *e)
{
	return e->endpoint[e->at];
}
