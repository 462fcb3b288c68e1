/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Session and handles, what was settled for them, and memory for what is in flight. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tools/kv-bw-lat/perf.h"

#define HINTS_A_KEY    64u /* bytes: so many that hardly a set overflows */
#define HINT_BYTES_MIN (64ull << 20)
#define FLIGHT_BYTES   (128ull << 20) /* of values in flight, on all handles */

#define SLOWEST_NS_PER_BYTE 250u /* as channel_patience() */

static uint64_t hint_bytes(const struct perf_options *o)
{
	uint64_t bytes = o->hint_bytes ? o->hint_bytes : HINT_BYTES_MIN;

	while (!o->hint_bytes && bytes < o->keys * HINTS_A_KEY)
		bytes *= 2;
	return bytes;
}

/* The library's own, and what all that is in flight takes at the least rate that it calls alive. */
static unsigned timeout_ms(const struct perf_options *o, unsigned usual_ms)
{
	uint64_t most = 0, bytes;

	if (o->timeout_ms)
		return (unsigned)o->timeout_ms;
	for (unsigned i = 0; i < o->sizes; i++)
		most = o->size[i] > most ? o->size[i] : most;
	bytes = most * o->depth < FLIGHT_BYTES ? most * o->depth : FLIGHT_BYTES;
	return usual_ms + (unsigned)(bytes * SLOWEST_NS_PER_BYTE / NS_PER_MS);
}

static int open_session(struct perf *p)
{
	const struct perf_options *o = &p->o;
	struct gkv_options options;
	int rc;

	gkv_options_init(&options);
	options.server = o->address;
	options.device = o->device;
	options.name = perf_program(o)->name;
	options.hint_bytes = hint_bytes(o);
	options.timeout_ms = timeout_ms(o, options.timeout_ms);
	if (o->ib_port != PERF_UNSET)
		options.ib_port = (unsigned)o->ib_port;
	if (o->gid_index != PERF_UNSET)
		options.gid_index = (int)o->gid_index;
	if (o->mtu != PERF_UNSET)
		options.mtu = (unsigned)o->mtu;
	options.pkey_index = (unsigned)o->pkey_index;
	options.service_level = (unsigned)o->service_level;
	options.traffic_class = (unsigned)o->traffic_class;
	if (o->cm)
		options.connect = GKV_CONNECT_CM;
	rc = gkv_session_open(&options, &p->session, p->error.text, sizeof(p->error.text));
	if (rc)
		p->error.code = rc;
	return rc;
}

static int open_handle(struct perf *p, unsigned depth, bool no_hints, struct gkv **out)
{
	const struct gkv_handle_options options = { .depth = depth,
						    .flags = no_hints ? GKV_NO_HINTS : 0 };

	p->error.code = gkv_open(p->session, &options, out, p->error.text, sizeof(p->error.text));
	return p->error.code;
}

/* What was asked for and is not so. */
static int check(struct perf *p, struct gkv *h)
{
	const struct perf_options *o = &p->o;
	unsigned mtu = rdma_mtu_bytes(h->link.qp.mtu);

	if (o->mtu != PERF_UNSET && mtu != o->mtu)
		return error_set(&p->error, -EPROTO,
				 "an MTU of %u bytes was asked for, and %u is what both ends "
				 "settled on (give -m %u, or start kv-server with --mtu %u)",
				 (unsigned)o->mtu, mtu, mtu, (unsigned)o->mtu);
	if (o->inline_bytes == PERF_UNSET)
		return 0;
	if (o->inline_bytes > h->link.qp.inline_max)
		return error_set(&p->error, -ERANGE,
				 "%u bytes inline were asked for, and a queue pair has %u: the "
				 "library asks %s for 128 (give -I %u or less)",
				 (unsigned)o->inline_bytes, h->link.qp.inline_max,
				 h->device->rdma->name, h->link.qp.inline_max);
	h->link.qp.inline_max = (unsigned)o->inline_bytes; /* what is longer is not sent so */
	return 0;
}

int perf_connect(struct perf *p)
{
	const struct perf_options *o = &p->o;
	int rc = open_session(p);

	if (rc == 0)
		rc = open_handle(p, PERF_POLL, false, &p->loader);
	for (; rc == 0 && p->opened < o->qps; p->opened++) {
		rc = open_handle(p, (unsigned)o->depth, o->no_hints, &p->handle[p->opened].kv);
		if (rc)
			break;
		rc = check(p, p->handle[p->opened].kv);
	}
	if (rc == 0)
		rc = perf_tell(p, p->loader, MEASURE_LOOK);
	if (rc)
		return rc;
	p->device = session_device_get(p->session);
	if (!p->device)
		return error_set(&p->error, -ENODEV,
				 "the RDMA device has failed before anything was measured (look at "
				 "the kernel's log, and start again)");
	p->software = p->device->rdma->software;
	p->spin_polls = channel_spin_polls(p->device->rdma);
	return 0;
}

void perf_disconnect(struct perf *p)
{
	perf_release_handles(p);
	for (unsigned i = 0; i < PERF_QPS_MAX; i++)
		gkv_close(p->handle[i].kv);
	gkv_close(p->loader);
	session_device_put(p->session, p->device);
	gkv_session_close(p->session);
}

void perf_release_handles(struct perf *p)
{
	for (unsigned i = 0; i < PERF_QPS_MAX; i++) {
		struct perf_handle *f = &p->handle[i];

		gkv_memory_release(f->registered);
		if (f->memory)
			munmap(f->memory, f->memory_bytes);
		free(f->since);
		free(f->free);
		free(f->request);
		free(f->item);
		*f = (struct perf_handle){ .kv = f->kv };
	}
}

/* Of what never changes from request to request. */
static void fill_requests(const struct perf *p, struct perf_handle *f)
{
	for (unsigned i = 0; i < p->o.post_list; i++)
		f->request[i] = (struct gkv_request){
			.key_len = p->keys.key_len,
			.len = p->keys.size,
		};
	for (unsigned i = 0; i < p->o.group; i++) {
		f->item[i].key_len = p->keys.key_len;
		f->item[i].value = f->memory + i * p->stride;
		f->item[i].cap = p->keys.size;
	}
}

static int prepare_handle(struct perf *p, struct perf_handle *f)
{
	const unsigned places = p->depth > p->o.group ? p->depth : p->o.group;

	f->memory_bytes = places * p->stride;
	f->memory = mmap(NULL, f->memory_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (f->memory == MAP_FAILED)
		f->memory = NULL;
	f->since = calloc(p->depth, sizeof(*f->since));
	f->free = calloc(p->depth, sizeof(*f->free));
	f->request = calloc(p->o.post_list, sizeof(*f->request));
	f->item = calloc(p->o.group, sizeof(*f->item));
	if (!f->memory || !f->since || !f->free || !f->request || !f->item)
		return error_set(&p->error, -ENOMEM,
				 "no memory for %u operations of %" PRIu64
				 " bytes in flight (give less of -t, -q, -s)",
				 places, p->keys.size);
	memset(f->memory, 'v', f->memory_bytes);
	for (unsigned i = 0; i < p->depth; i++)
		f->free[f->free_count++] = p->depth - 1 - i;
	fill_requests(p, f);
	p->error.code = gkv_memory_register(p->session, f->memory, f->memory_bytes, &f->registered,
					    p->error.text, sizeof(p->error.text));
	return p->error.code;
}

int perf_prepare_handles(struct perf *p)
{
	uint64_t room;
	int rc = 0;

	/* raw READs bring a whole block */
	p->stride = (p->keys.block_bytes + 63u) & ~63u;
	if (p->o.raw && p->stride < BUCKET_BYTES)
		p->stride = BUCKET_BYTES;
	room = FLIGHT_BYTES / p->o.qps / p->stride;
	p->depth = room < 1 ? 1 : room < p->o.depth ? (unsigned)room : (unsigned)p->o.depth;
	for (unsigned i = 0; i < p->o.qps && rc == 0; i++)
		rc = prepare_handle(p, &p->handle[i]);
	return rc;
}

int perf_tell(struct perf *p, struct gkv *h, enum measure_phase phase)
{
	static const enum measure_op ops[] = {
		[PERF_GET] = MEASURE_GET,
		[PERF_PUT] = MEASURE_PUT,
		[PERF_MIXED] = MEASURE_MIXED,
		[PERF_MGET] = MEASURE_GET,
	};
	const struct perf_options *o = &p->o;
	struct rpc_measure plan = {
		.phase = phase,
		.op = ops[o->op],
		.queue_pairs = (uint32_t)o->qps,
		.depth = p->depth ? p->depth : 1,
		.threads = (uint32_t)o->threads,
		.keys = p->keys.count,
		.value_bytes = p->keys.size,
		.iterations = o->iterations,
		.duration_ms = (uint64_t)(o->seconds * 1000 + 0.5),
		.rate = (uint64_t)(o->rate + 0.5),
	};
	int rc;

	snprintf(plan.tool, sizeof(plan.tool), "%s", perf_program(o)->name);
	rc = measure_tell(h, &plan, &p->server);
	return rc ? error_set(&p->error, rc, "%s", gkv_error(h)) : 0;
}

int perf_begin(struct perf *p)
{
	int rc = 0;

	for (unsigned i = 0; i < p->opened && rc == 0; i++)
		rc = perf_tell(p, p->handle[i].kv, MEASURE_BEGIN);
	return rc;
}
