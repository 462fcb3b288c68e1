/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-bench/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "tools/kv-bench/client.h"
#include "tools/lib/samples.h"

static void *client_main(void *arg)
{
	struct client *c = arg;
	struct run_shared *s = c->shared;
	int rc = client_open(c);

	pthread_mutex_lock(&s->lock);
	s->ready++;
	if (rc)
		atomic_store(&s->over, true);
	pthread_cond_broadcast(&s->changed);
	while (!s->go)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
	c->pace.start = s->start_ns;
	c->end_ns = c->plan->duration_ns ? s->start_ns + c->plan->duration_ns : 0;
	if (rc == 0)
		client_work(c);
	pthread_mutex_lock(&s->lock);
	s->through++;
	pthread_cond_broadcast(&s->changed);
	while (!s->close)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
	client_close(c);
	return NULL;
}

static int64_t server_cpu_ns(const struct run_plan *p)
{
	return p->system->pid ? server_process_cpu_ns(p->system->pid) : -1;
}

static void wait_for(struct run_shared *s, const unsigned *count, unsigned threads)
{
	while (*count < threads)
		pthread_cond_wait(&s->changed, &s->lock);
}

/* From the moment that all are ready until all are through. */
static void measure(struct run_shared *s, unsigned threads, struct run_result *r)
{
	const struct run_plan *p = s->plan;
	uint64_t own;
	int64_t server;

	pthread_mutex_lock(&s->lock);
	wait_for(s, &s->ready, threads);
	own = time_cpu_ns();
	server = server_cpu_ns(p);
	s->start_ns = time_now_ns();
	s->go = true;
	pthread_cond_broadcast(&s->changed);
	wait_for(s, &s->through, threads);
	r->client_cpu_ns = (int64_t)(time_cpu_ns() - own);
	r->server_cpu_ns = server < 0 ? server : server_cpu_ns(p) - server;
	s->close = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void add_part(struct run_result *r, const struct run_result *part)
{
	r->operations += part->operations;
	r->inserted += part->inserted;
	r->missing += part->missing;
	r->wrong += part->wrong;
	r->not_started += part->not_started;
	for (unsigned i = 0; i < OPERATIONS; i++)
		histogram_merge(&r->latency[i], &part->latency[i]);
	if (!r->trouble[0])
		memcpy(r->trouble, part->trouble, sizeof(r->trouble));
}

/* @threads of them were started. */
static void end(struct run_shared *s, struct client *client, unsigned threads, struct run_result *r,
		struct error *err)
{
	for (unsigned i = 0; i < threads; i++) {
		struct client *c = &client[i];

		pthread_join(c->thread, NULL);
		add_part(r, &c->result);
		if (c->last_ns > s->start_ns && c->last_ns - s->start_ns > r->ns)
			r->ns = c->last_ns - s->start_ns;
		if (c->err.code && !err->code)
			*err = c->err;
	}
}

static void prepare(struct client *c, struct run_shared *s, unsigned index)
{
	const struct run_plan *p = s->plan;
	uint64_t seed = p->seed + index;

	c->shared = s;
	c->plan = p;
	c->index = index;
	c->random = bench_random(&seed);
	c->version = bench_random(&seed);
	c->pace = (struct pace){ .interval = p->target > 0 ? (double)NS_PER_S / p->target : 0,
				 .number = index,
				 .threads = p->threads,
				 .count = UINT64_MAX };
	c->left = p->operations ? p->operations / p->threads + (index < p->operations % p->threads)
				: UINT64_MAX;
}

int run(const struct run_plan *p, struct run_result *r, struct error *err)
{
	struct run_shared s = { .plan = p,
				.lock = PTHREAD_MUTEX_INITIALIZER,
				.changed = PTHREAD_COND_INITIALIZER };
	struct client *client = calloc(p->threads, sizeof(*client));
	int rc = key_space_init(&s.keys, p->records, p->inserts);
	unsigned threads = 0;

	memset(r, 0, sizeof(*r));
	err->code = 0;
	if (!client || rc) {
		free(client);
		key_space_free(&s.keys);
		return error_set(err, -ENOMEM, "no memory for threads");
	}
	atomic_init(&s.next_delete, p->records);
	for (; threads < p->threads && rc == 0; threads += rc == 0) {
		prepare(&client[threads], &s, threads);
		rc = -pthread_create(&client[threads].thread, NULL, client_main, &client[threads]);
	}
	if (rc) {
		error_set(err, rc, "no thread can be created: %s", error_name(rc));
		atomic_store(&s.over, true);
	}
	measure(&s, threads, r);
	end(&s, client, threads, r, err);
	key_space_free(&s.keys);
	free(client);
	return err->code;
}
