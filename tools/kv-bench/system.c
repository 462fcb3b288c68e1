/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-bench/system.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/kv-bench/floor.h"

#define MIB (1ull << 20)

const char *const system_name[SYSTEMS] = { "gracekv", "redis-unix", "redis-tcp", "memcached",
					   "tcp" };

static struct system *add(struct systems *s, enum system_kind kind)
{
	struct system *one = &s->one[s->count++];

	*one = (struct system){ .kind = kind,
				.name = system_name[kind],
				.driver =
					kind == SYSTEM_GRACEKV ? &driver_gracekv : &driver_stream };
	return one;
}

/* Of a peer: what it says of itself, and how it is reached. */
static struct system *add_peer(struct systems *s, enum system_kind kind, const struct codec *codec,
			       const struct peer_process *p, bool local)
{
	struct system *one = add(s, kind);

	one->codec = codec;
	one->pid = p->pid;
	if (local)
		one->socket = p->socket;
	else
		one->port = p->port;
	snprintf(one->version, sizeof(one->version), "%s", p->version);
	if (strstr(one->version, " sha="))
		*strstr(one->version, " sha=") = 0; /* of the build */
	snprintf(one->how, sizeof(one->how), "%s", local ? "a Unix socket" : "TCP over loopback");
	return one;
}

static int peer_failed(int rc, const char *package, struct error *err)
{
	if (rc == -ENOENT)
		return error_set(err, rc, "%s is not installed (Debian's package: %s)", package,
				 package);
	return rc;
}

static int start_peers(struct systems *s, const struct systems_options *o, struct error *err)
{
	bool redis = o->wanted[SYSTEM_REDIS_UNIX] || o->wanted[SYSTEM_REDIS_TCP];
	int rc = 0;

	/* by fork(), so it comes first: before there is a thread */
	if (o->wanted[SYSTEM_FLOOR])
		rc = floor_start(&s->floor, err);
	if (rc == 0 && redis)
		rc = peer_failed(peer_start_redis(&s->redis, err), "redis-server", err);
	if (rc == 0 && o->wanted[SYSTEM_MEMCACHED])
		rc = peer_failed(peer_start_memcached(&s->memcached, o->memory + o->memory / 2,
						      o->value_max, err),
				 "memcached", err);
	return rc;
}

/* "server HOST:PORT (process N, device NAME, ...": the server's, which is of our kind. */
static void device_of(const struct gkv_session *session, char device[64])
{
	const char *at = strstr(gkv_session_describe(session), ", device ");

	if (!at || sscanf(at, ", device %63[^,]", device) != 1)
		snprintf(device, 64, "unknown");
}

static int start_ours(struct systems *s, const struct systems_options *o, struct error *err)
{
	struct system *one = add(s, SYSTEM_GRACEKV);
	struct gkv_options options;
	char memory[32], why[ERROR_TEXT_MAX];
	int rc = 0;

	snprintf(memory, sizeof(memory), "%" PRIu64 "M", (uint64_t)(o->memory / MIB + 1));
	if (!o->server)
		rc = server_process_start(&s->server,
					  &(struct server_options){ o->binary, o->host, memory,
								    o->device, o->connect, NULL },
					  err);
	if (rc)
		return rc;
	gkv_options_init(&options);
	options.server = o->server ? o->server : s->server.address;
	options.device = o->device;
	options.connect = strcmp(o->connect, "cm") == 0 ? GKV_CONNECT_CM : GKV_CONNECT_TCP;
	options.name = "kv-bench";
	if (o->timeout_ms)
		options.timeout_ms = (unsigned)o->timeout_ms;
	rc = gkv_session_open(&options, &one->session, why, sizeof(why));
	if (rc)
		return error_set(err, rc, "%s", why);
	one->pid = s->server.pid;
	device_of(one->session, s->device);
	s->software = strncmp(s->device, "soft", 4) == 0;
	snprintf(one->version, sizeof(one->version), "libgracekv %s", gkv_version());
	snprintf(one->how, sizeof(one->how), "READs and requests over %s%s", s->device,
		 s->software ? " (no RDMA)" : "");
	return 0;
}

int systems_start(struct systems *s, const struct systems_options *o, struct error *err)
{
	int rc;

	*s = (struct systems){ 0 };
	rc = start_peers(s, o, err);
	if (rc == 0)
		rc = start_ours(s, o, err);
	if (rc)
		return rc;
	if (o->wanted[SYSTEM_REDIS_UNIX])
		add_peer(s, SYSTEM_REDIS_UNIX, &codec_resp, &s->redis, true);
	if (o->wanted[SYSTEM_REDIS_TCP])
		add_peer(s, SYSTEM_REDIS_TCP, &codec_resp, &s->redis, false)->filled_by_another =
			true;
	if (o->wanted[SYSTEM_MEMCACHED])
		add_peer(s, SYSTEM_MEMCACHED, &codec_memcached, &s->memcached, false);
	if (o->wanted[SYSTEM_FLOOR])
		add_peer(s, SYSTEM_FLOOR, &codec_frame, &s->floor, false)->keeps_nothing = true;
	return 0;
}

int systems_stop(struct systems *s, struct error *err)
{
	int rc;

	for (unsigned i = 0; i < s->count; i++) {
		gkv_session_close(s->one[i].session);
		s->one[i].session = NULL;
	}
	peer_stop(&s->floor);
	peer_stop(&s->redis);
	peer_stop(&s->memcached);
	rc = server_process_stop(&s->server);
	return rc ? error_set(err, -ECHILD, "kv-server did not stop in order (status %d)", rc) : 0;
}
