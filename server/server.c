/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/server.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/layout/root.h"
#include "common/rdma/tcp.h"
#include "server/session/control.h"
#include "server/stats.h"

/* Memory for one record with its slot, that the index is sized for. */
#define BYTES_PER_SLOT 512u

static int register_region(void *ctx, int fd, void *addr, size_t len, struct memory_region *out,
			   struct error *err)
{
	struct rdma_region region;
	int rc = rdma_region_register(ctx, addr, len,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, "an extent",
				      &region, err);

	(void)fd; /* soft0 finds it by the mapping */
	if (rc)
		return rc;
	*out = (struct memory_region){ region.mr, region.lkey, region.rkey };
	return 0;
}

static void unregister_region(void *ctx, struct memory_region *region)
{
	struct rdma_region r = { .mr = region->handle, .dev = ctx };

	rdma_region_unregister(&r);
}

/* The largest power of two of segments whose slots the memory is expected to fill. */
static uint64_t slots_for(const struct config *c)
{
	uint64_t segment = SEGMENT_BUCKETS * BUCKET_SLOTS, slots = segment;

	if (c->index_slots)
		return c->index_slots;
	while (2 * slots <= c->memory_bytes / BYTES_PER_SLOT && slots < segment << DEPTH_MAX)
		slots *= 2;
	return slots;
}

static int make_store(struct server *s, uint64_t incarnation, struct error *err)
{
	struct store_config config = {
		.bytes_max = s->config.memory_bytes,
		.slots = slots_for(&s->config),
		.server_incarnation = incarnation,
		.hooks = { .register_region = register_region,
			   .unregister_region = unregister_region,
			   .ctx = s->dev },
		.sessions = session_order_sessions(&s->order),
	};

	if (getrandom(&config.hash_seed, sizeof(config.hash_seed), 0) != sizeof(config.hash_seed))
		return error_set(err, -EIO, "getrandom failed: %s", error_name(errno));
	return store_create(&s->store, &config, err);
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
	index_describe(s->store.index, &root->directory);
	root->extents.addr = (uintptr_t)memory_extent_table(m);
	root->extents.rkey = memory_extent_table_region(m)->rkey;
	root->extents.entries = EXTENTS_MAX;
	root_extents_seal(&root->extents);
	atomic_init(&root->epoch, 1);
	atomic_init(&root->hint_floor, 0);
	atomic_init(&root->clock_ms, time_wall_ms());
	return 0;
}

static int make_workers(struct server *s, struct error *err)
{
	const struct worker_config config = {
		.dev = s->dev,
		.store = &s->store,
		.stats = server_stats_text,
		.stats_ctx = s,
		.notice_fd = s->sessions.notice_fd,
	};

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
	s->sessions.order = &s->order;
	rc = sessions_init(&s->sessions);
	if (rc)
		return error_set(err, rc, "making the table of sessions failed: %s",
				 error_name(rc));
	return make_workers(s, err);
}

int server_create(struct server *s, const struct config *config, struct error *err)
{
	uint64_t incarnation;
	char address[64];
	int rc;

	memset(s, 0, sizeof(*s));
	s->config = *config;
	s->config.rdma.device = s->config.device;
	s->started_ns = time_now_ns();
	s->listen_fd = -1;
	session_order_init(&s->order);
	if (getrandom(&incarnation, sizeof(incarnation), 0) != sizeof(incarnation))
		return error_set(err, -EIO, "getrandom failed: %s", error_name(errno));
	incarnation |= 1; /* never 0 */
	rc = tcp_listen(config->host, config->port, &s->listen_fd, s->bound, err);
	if (rc == 0) {
		tcp_local_address(s->listen_fd, address);
		rc = rdma_device_open(&s->dev, &s->config.rdma, address, err);
	}
	if (rc == 0)
		rc = make_store(s, incarnation, err);
	if (rc == 0)
		rc = make_root(s, incarnation, err);
	if (rc == 0)
		rc = make_sessions(s, err);
	if (rc)
		server_destroy(s);
	return rc;
}

int server_run(struct server *s, struct error *err)
{
	return control_run(&s->sessions, s->listen_fd, err);
}

void server_destroy(struct server *s)
{
	while (s->sessions.worker_count)
		worker_destroy(s->sessions.workers[--s->sessions.worker_count]);
	sessions_destroy(&s->sessions);
	rdma_buffer_destroy(&s->root);
	store_destroy(&s->store);
	rdma_device_close(s->dev);
	if (s->listen_fd >= 0)
		close(s->listen_fd);
	memset(s, 0, sizeof(*s));
	s->listen_fd = -1;
}
