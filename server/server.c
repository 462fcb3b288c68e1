/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/server.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/cores.h"
#include "common/base/log.h"
#include "common/base/numa.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "common/layout/root.h"
#include "common/rdma/cm.h"
#include "common/rdma/tcp.h"
#include "server/durable.h"
#include "server/grouped.h"
#include "server/session/control.h"
#include "server/measure.h"
#include "server/stats.h"

#define FULL_TOLD_NS (10 * NS_PER_S) /* between two lines about a full store */

static int register_region(void *ctx, int fd, void *addr, size_t len, struct memory_region *out,
			   struct error *err)
{
	const struct server *s = ctx;
	struct rdma_region region;
	int rc = rdma_region_register(s->dev, addr, len,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, "an extent",
				      &region, err);

	(void)fd; /* soft0 finds it by the mapping */
	if (rc)
		return rc;
	*out = (struct memory_region){ region.mr, region.lkey, region.rkey };
	return 0;
}

static int unregister_region(void *ctx, struct memory_region *region)
{
	const struct server *s = ctx;
	struct rdma_region r = { .mr = region->handle, .dev = s->dev };

	return rdma_region_unregister(&r);
}

/* Asked by whoever takes memory: at the start nobody else listens to signals yet. */
bool server_told_to_stop(void)
{
	sigset_t set;

	return sigpending(&set) == 0 && (sigismember(&set, SIGTERM) || sigismember(&set, SIGINT));
}

static bool told_to_stop(void *ctx)
{
	(void)ctx;
	return server_told_to_stop();
}

static uint64_t elsewhere(void *ctx, const void *addr, size_t bytes)
{
	const struct server *s = ctx;

	return numa_elsewhere(addr, bytes, s->place.node);
}

static int make_store(struct server *s, uint64_t incarnation, struct error *err)
{
	struct store_config config = {
		.bytes_max = s->config.memory_bytes,
		.extent_bytes_max = s->dev->attr.max_mr_size,
		.fill = s->config.populate,
		.slots = s->config.index_slots,
		.server_incarnation = incarnation,
		.hooks = { .register_region = register_region,
			   .unregister_region = unregister_region,
			   .ctx = s,
			   .stopping = told_to_stop,
			   .elsewhere = elsewhere },
		.deferred_max = s->config.deferred_max,
		.limit_ms = s->config.lease_ms,
	};
	int rc = 0;

	if (s->data)
		config.hash_seed = data_hash_seed(s->data);
	else if (s->grouped)
		config.hash_seed = s->hash_seed;
	else
		rc = random_fill(&config.hash_seed, sizeof(config.hash_seed), err);
	if (rc)
		return rc;
	rc = store_create(&s->store, &config, err);
	return rc ? error_prefix(err, "%s", s->config.memory_from) : 0;
}

static int make_root(struct server *s, uint64_t incarnation, struct error *err)
{
	const struct memory *m = s->store.memory;
	struct root *root;
	int rc = rdma_buffer_create(s->dev, sizeof(*root),
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
				    "the root page", &s->root, err);

	if (rc)
		return rc;
	root = s->root.addr; /* zeroed; nobody reads it before WELCOME names it */
	root->magic = ROOT_MAGIC;
	root->layout_version = LAYOUT_VERSION;
	root->segment_buckets = SEGMENT_BUCKETS;
	root->layout_hash = layout_hash();
	root->server_incarnation = incarnation;
	root->hash_seed = s->store.hash_seed;
	index_set_root(s->store.index, &root->directory);
	root->extents.addr = (uintptr_t)memory_extent_table(m);
	root->extents.rkey = memory_extent_table_region(m)->rkey;
	root->extents.entries = EXTENTS_MAX;
	root_extents_seal(&root->extents);
	grace_set_root(reclaim_grace(s->store.reclaim), root);
	atomic_init(&root->clock_ms, time_wall_ms());
	return 0;
}

/* On the cores that are left to the process, where it runs beside its device. */
static unsigned default_workers(void)
{
	unsigned workers = cores_usable() / 2;

	return workers < 1 ? 1 : workers > 8 ? 8 : workers;
}

int server_make_workers(struct server *s, struct error *err)
{
	const struct worker_config config = {
		.dev = s->dev,
		.store = &s->store,
		.stats = server_stats_text,
		.measure = server_measure,
		.save = durable_save,
		.stats_ctx = s,
		.notice_fd = s->sessions.notice_fd,
		.obeyed = &s->sessions.pairs.obeyed,
		.lease_until = s->grouped ? &((struct root *)s->root.addr)->lease_until : NULL,
	};

	if (!s->config.workers)
		s->config.workers = default_workers();
	for (unsigned i = 0; i < s->config.workers; i++) {
		int rc = worker_create(&s->sessions.workers[i], &config, i, err);

		if (rc)
			return rc;
		s->sessions.worker_count++;
	}
	return 0;
}

static int make_sessions(struct server *s, struct error *err)
{
	int rc;

	s->sessions.dev = s->dev;
	s->sessions.store = &s->store;
	s->sessions.root = s->root.addr;
	s->sessions.root_rkey = s->root.region.rkey;
	s->sessions.lease_ms = s->config.lease_ms;
	s->sessions.cm = s->cm;
	s->sessions.cm_port = s->cm ? tcp_local_port(s->listen_fd) : 0;
	rc = sessions_init(&s->sessions);
	if (rc)
		return error_set(err, rc, "making the table of sessions failed: %s",
				 error_name(rc));
	if (!s->grouped) /* a member may not need what it has */
		rc = durable_recover(s, err);
	if (rc == 0)
		rc = clock_start(&s->clock, s->root.addr, &s->store, &s->sessions.leases, err);
	if (rc == 0 && s->grouped) /* when it is primary, it has workers */
		return grouped_start(s, err);
	if (rc == 0)
		rc = server_make_workers(s, err);
	if (rc == 0)
		rc = pairs_start(&s->sessions, err);
	return rc ? rc : durable_serve(s, err);
}

/*
 * With --connect cm: listen at the address and port of the TCP socket too. The device is the one
 * that this address belongs to; on all addresses it is chosen as without the CM.
 */
static int listen_by_cm(struct server *s, struct error *err)
{
	struct rdma_options *o = &s->config.rdma;
	struct sockaddr_storage at;
	const struct cm_route *route;
	socklen_t len = sizeof(at);
	int rc;

	if (s->config.connect != CONNECT_CM)
		return 0;
	memset(&at, 0, sizeof(at));
	getsockname(s->listen_fd, (struct sockaddr *)&at, &len);
	rc = cm_listen(&s->cm, (struct sockaddr *)&at, err);
	if (rc)
		return error_prefix(err, "--connect cm");
	route = cm_listener_route(s->cm);
	if (!route->device[0])
		return 0;
	if (strcmp(o->device, "auto") != 0 && strcmp(o->device, route->device) != 0)
		return error_set(
			err, -EXDEV,
			"the address of --listen %s belongs to device %s, --device says %s "
			"(leave --device out, or listen on an address of that one)",
			s->bound, route->device, o->device);
	if (o->ib_port && o->ib_port != route->port)
		return error_set(
			err, -EXDEV,
			"the address of --listen %s belongs to port %u of %s, --ib-port "
			"says %u (leave --ib-port out, or listen on an address of that one)",
			s->bound, route->port, route->device, o->ib_port);
	if (strcmp(o->device, "auto") == 0)
		o->why = "it holds the address that the RDMA CM listens on";
	strcpy(s->config.device, route->device);
	o->ib_port = route->port;
	return 0;
}

static int open_device(struct server *s, struct error *err)
{
	const bool nowhere = s->cm && !cm_listener_route(s->cm)->device[0];
	char address[64];
	int rc;

	tcp_local_address(s->listen_fd, address);
	rc = rdma_device_open(&s->dev, &s->config.rdma, address, err);
	if (rc == 0 && nowhere && s->dev->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET &&
	    (strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0))
		return error_set(err, -EADDRNOTAVAIL,
				 "--connect cm: no route of the RDMA CM leads to %s on RoCE (give "
				 "--listen an address of %s's network device: rdma link shows it)",
				 address, s->dev->name);
	if (rc == 0 && s->cm && s->dev->software)
		return error_set(err, -ENODEV,
				 "--connect cm: there is no RDMA device with an ACTIVE port but "
				 "soft0, which the RDMA CM does not know (bring a link up, or use "
				 "--connect tcp)");
	return rc;
}

int server_create(struct server *s, const struct config *config, struct error *err)
{
	uint64_t incarnation;
	int rc;

	memset(s, 0, sizeof(*s));
	s->config = *config;
	s->config.rdma.device = s->config.device;
	snprintf(s->spare, sizeof(s->spare), "lower %s", config->memory_from);
	s->config.rdma.spare = s->spare;
	s->started_ns = time_now_ns();
	s->listen_fd = -1;
	rc = random_fill(&incarnation, sizeof(incarnation), err);
	if (rc)
		return rc;
	incarnation |= 1; /* never 0 */
	rc = tcp_listen(config->host, config->port, &s->listen_fd, s->bound, err);
	if (rc == 0)
		rc = listen_by_cm(s, err);
	if (rc == 0)
		rc = durable_open(s, err);
	if (rc == 0)
		rc = grouped_open(s, err);
	if (rc == 0)
		rc = open_device(s, err);
	if (rc == 0) {
		/* before any thread that touches data begins, and before memory is taken */
		numa_settle("", s->dev->name, s->dev->numa_node, &s->place);
		rc = make_store(s, incarnation, err);
	}
	if (rc == 0)
		rc = make_root(s, incarnation, err);
	if (rc == 0)
		rc = make_sessions(s, err);
	if (rc)
		server_destroy(s);
	return rc;
}

void server_block_signals(void)
{
	sigset_t set;

	control_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* The log says when the store begins to refuse writes, and now and then while it goes on. */
static void tell_full(void *ctx)
{
	struct server *s = ctx;
	uint64_t refused = server_writes_refused(s), now = time_now_ns();

	if (refused == s->full_told || (s->full_told && now - s->full_told_ns < FULL_TOLD_NS))
		return;
	log_warn("memory",
		 "the store is full: it refused %" PRIu64 " write%s for want of memory, %" PRIu64
		 " since the start; %s is %" PRIu64
		 " MiB (delete records, give them a time to live, or start kv-server with more)",
		 refused - s->full_told, refused - s->full_told == 1 ? "" : "s", refused,
		 s->config.memory_from, s->config.memory_bytes >> 20);
	s->full_told = refused;
	s->full_told_ns = now;
}

int server_run(struct server *s, void (*reload)(void *ctx), void *ctx, bool *again,
	       struct error *err)
{
	const struct control_hooks hooks = {
		.reload = reload, .reload_ctx = ctx, .tick = tell_full, .tick_ctx = s
	};
	int rc = durable_explain(s, control_run(&s->sessions, s->listen_fd, &hooks, err), err);

	return grouped_explain(s, rc, again, err);
}

int server_destroy(struct server *s)
{
	int rc;

	grouped_stop(s); /* it may be about to make workers */
	pairs_stop(&s->sessions);
	if (s->listen_fd >= 0)
		close(s->listen_fd); /* before what may wait for the disk: who dials is refused */
	s->listen_fd = -1;
	grouped_give_way(s);
	durable_rest(s); /* while workers are there, whose doors a snapshot looks at */
	while (s->sessions.worker_count)
		worker_destroy(s->sessions.workers[--s->sessions.worker_count]);
	rc = durable_close(s); /* before the store, whose clock the log goes by */
	grouped_close(s); /* likewise */
	clock_stop(&s->clock);
	if (s->root.addr) {
		index_set_root(s->store.index, NULL);
		grace_set_root(reclaim_grace(s->store.reclaim), NULL);
	}
	store_destroy(&s->store);
	rdma_buffer_destroy(&s->root); /* after the reclaimer, which looks at E */
	sessions_destroy(&s->sessions);
	cm_unlisten(s->cm);
	rdma_device_close(s->dev);
	memset(s, 0, sizeof(*s));
	s->listen_fd = -1;
	return rc;
}
