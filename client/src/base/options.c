/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/base/options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/parse.h"

#define DEFAULT_HOST	    "127.0.0.1"
#define DEFAULT_PORT	    "7471"
#define DEFAULT_TIMEOUT_MS  5000u
#define DEFAULT_LIFELINE_MS 2000u
#define DEFAULT_HINT_BYTES  (64ull << 20)
#define HINT_BYTES_MAX	    (1ull << 40)
#define MS_MAX		    (24u * 3600 * 1000)

#define CONNECT_UNKNOWN UINT_MAX /* $GRACEKV_CONNECT is neither; said by settings_take() */

static unsigned connect_default(void)
{
	const char *text = getenv("GRACEKV_CONNECT");

	if (!text || !text[0] || strcmp(text, "tcp") == 0)
		return GKV_CONNECT_TCP;
	return strcmp(text, "cm") == 0 ? GKV_CONNECT_CM : CONNECT_UNKNOWN;
}

static unsigned check_threads_default(void)
{
	const char *text = getenv("GRACEKV_CHECK_THREADS");

	return text && strcmp(text, "1") == 0 ? GKV_CHECK_THREADS : 0;
}

void gkv_options_init(struct gkv_options *options)
{
	struct rdma_options rdma = rdma_options_default();

	if (!options)
		return;
	*options = (struct gkv_options){
		.gid_index = rdma.gid_index,
		.timeout_ms = DEFAULT_TIMEOUT_MS,
		.lifeline_ms = DEFAULT_LIFELINE_MS,
		.ack_timeout = rdma.timeout,
		.retry_cnt = rdma.retry_cnt,
		.rnr_retry = rdma.rnr_retry,
		.connect = connect_default(),
		.housekeeper = GKV_HOUSEKEEPER_THREAD,
		.flags = check_threads_default(),
		.hint_bytes = DEFAULT_HINT_BYTES,
	};
}

bool options_reserved(const void *reserved, size_t bytes)
{
	const unsigned char *at = reserved;

	while (bytes && !*at)
		at++, bytes--;
	return bytes;
}

/* The caller's first, then the environment's; NULL where both are silent. */
static const char *choose(const char *given, const char *variable)
{
	const char *env;

	if (given)
		return given;
	env = getenv(variable);
	return env && env[0] ? env : NULL;
}

static int in_range(const char *what, unsigned value, unsigned min, unsigned max, struct error *err)
{
	if (value >= min && value <= max)
		return 0;
	return error_set(err, -ERANGE, "%s is %u, it must be between %u and %u", what, value, min,
			 max);
}

static int check_numbers(const struct gkv_options *o, struct error *err)
{
	int rc = in_range("timeout_ms", o->timeout_ms, 1, MS_MAX, err);

	if (rc == 0)
		rc = in_range("lifeline_ms", o->lifeline_ms, 1, MS_MAX, err);
	if (rc == 0)
		rc = in_range("ib_port", o->ib_port, 0, 255, err);
	if (rc == 0)
		rc = in_range("pkey_index", o->pkey_index, 0, RDMA_PKEY_INDEX_MAX, err);
	if (rc == 0)
		rc = in_range("service_level", o->service_level, 0, RDMA_SERVICE_LEVEL_MAX, err);
	if (rc == 0)
		rc = in_range("traffic_class", o->traffic_class, 0, RDMA_TRAFFIC_CLASS_MAX, err);
	if (rc == 0)
		rc = in_range("ack_timeout", o->ack_timeout, 1, 31, err);
	if (rc == 0)
		rc = in_range("retry_cnt", o->retry_cnt, 0, 7, err);
	if (rc == 0)
		rc = in_range("rnr_retry", o->rnr_retry, 0, 7, err);
	if (rc == 0 && o->housekeeper > GKV_HOUSEKEEPER_TICK)
		rc = error_set(err, -ERANGE,
			       "housekeeper is %u, it must be %u (a thread) or %u (gkv_tick())",
			       o->housekeeper, GKV_HOUSEKEEPER_THREAD, GKV_HOUSEKEEPER_TICK);
	if (rc == 0 && o->flags & ~(GKV_CHECK_THREADS | GKV_SERVERS_GIVEN))
		rc = error_set(err, -ERANGE,
			       "flags are 0x%x, known are 0x%x (GKV_CHECK_THREADS) and 0x%x "
			       "(GKV_SERVERS_GIVEN)",
			       o->flags, GKV_CHECK_THREADS, GKV_SERVERS_GIVEN);
	if (rc == 0 && o->hint_bytes > HINT_BYTES_MAX)
		rc = error_set(err, -ERANGE, "hint_bytes is %llu, at most %llu",
			       (unsigned long long)o->hint_bytes,
			       (unsigned long long)HINT_BYTES_MAX);
	if (rc == 0 && (o->gid_index < RDMA_GID_AUTO || o->gid_index > RDMA_GID_INDEX_MAX))
		rc = error_set(err, -ERANGE, "gid_index is %d, it must be -1 (chosen) to %d",
			       o->gid_index, RDMA_GID_INDEX_MAX);
	return rc;
}

static int check_connect(const struct gkv_options *o, const char *device, struct error *err)
{
	const char *env = getenv("GRACEKV_CONNECT");

	if (o->connect == CONNECT_UNKNOWN && env && connect_default() == CONNECT_UNKNOWN)
		return error_set(err, -EINVAL, "GRACEKV_CONNECT is '%.40s', neither tcp nor cm",
				 env);
	if (o->connect > GKV_CONNECT_CM)
		return error_set(err, -ERANGE, "connect is %u, it must be %u (tcp) or %u (cm)",
				 o->connect, GKV_CONNECT_TCP, GKV_CONNECT_CM);
	if (o->connect == GKV_CONNECT_TCP)
		return 0;
	if (strcmp(device, "soft0") == 0)
		return error_set(err, -EOPNOTSUPP,
				 "connecting by the CM: it is the kernel's and does not know soft0 "
				 "(leave the device out, name a real one, or connect by tcp)");
	if (o->gid_index != RDMA_GID_AUTO)
		return error_set(err, -EINVAL,
				 "gid_index is %d, but the CM chooses GIDs, by addresses (leave it "
				 "out, or connect by tcp)",
				 o->gid_index);
	if (o->pkey_index)
		return error_set(err, -EINVAL,
				 "pkey_index is %u, but by the CM the partition is that of the "
				 "network device on the route (leave it out, or connect by tcp)",
				 o->pkey_index);
	return 0;
}

static int take_server(struct settings *out, const char *text, size_t len, struct error *err)
{
	struct settings_server *at = &out->server[out->servers];
	char one[sizeof(at->host) + sizeof(at->port) + 4];

	if (out->servers == SETTINGS_SERVERS_MAX)
		return error_set(err, -EINVAL, "server: more than %u of them",
				 SETTINGS_SERVERS_MAX);
	out->servers++;
	snprintf(at->host, sizeof(at->host), "%s", DEFAULT_HOST);
	snprintf(at->port, sizeof(at->port), "%s", DEFAULT_PORT);
	snprintf(one, sizeof(one), "%.*s", (int)len, text);
	return text[0] ? parse_host_port("server", one, at->host, at->port, err) : 0;
}

/* "HOST:PORT", or several with commas between them. NULL: the default. */
static int take_servers(struct settings *out, const char *text, struct error *err)
{
	int rc = text ? 0 : take_server(out, "", 0, err);

	while (text && rc == 0) {
		size_t len = strcspn(text, ",");

		rc = take_server(out, text, len, err);
		text = text[len] ? text + len + 1 : NULL;
	}
	return rc;
}

int settings_take(struct settings *out, const struct gkv_options *options, struct error *err)
{
	struct gkv_options o;
	const char *text;
	int rc;

	if (options)
		o = *options;
	else
		gkv_options_init(&o);
	if (options_reserved(o.reserved, sizeof(o.reserved)))
		return error_set(err, -EINVAL,
				 "a reserved field of the options is not 0 (call "
				 "gkv_options_init() before you set fields)");
	rc = check_numbers(&o, err);
	if (rc)
		return rc;
	memset(out, 0, sizeof(*out));
	rc = take_servers(out, choose(o.server, "GRACEKV_SERVER"), err);
	if (rc)
		return rc;
	text = choose(o.device, "GRACEKV_DEVICE");
	if (text && strlen(text) >= sizeof(out->device))
		return error_set(err, -EINVAL, "the device's name is longer than %zu bytes",
				 sizeof(out->device) - 1);
	snprintf(out->device, sizeof(out->device), "%s", text ? text : "auto");
	rc = check_connect(&o, out->device, err);
	if (rc)
		return rc;
	out->connect = o.connect;
	out->housekeeper = o.housekeeper;
	out->flags = o.flags;
	out->hint_bytes = o.hint_bytes;
	snprintf(out->name, sizeof(out->name), "%s",
		 o.name ? o.name : program_invocation_short_name);
	out->timeout_ms = o.timeout_ms;
	out->lifeline_ms = o.lifeline_ms;
	out->trace = o.trace;
	out->trace_arg = o.trace_arg;
	out->rdma = (struct rdma_options){
		.spare = "register less (fewer handles, smaller memory of the application)",
		.device = out->device,
		.ib_port = o.ib_port,
		.gid_index = o.gid_index,
		.mtu_bytes = o.mtu,
		.pkey_index = o.pkey_index,
		.service_level = o.service_level,
		.traffic_class = o.traffic_class,
		.timeout = o.ack_timeout,
		.retry_cnt = o.retry_cnt,
		.rnr_retry = o.rnr_retry,
	};
	return 0;
}
