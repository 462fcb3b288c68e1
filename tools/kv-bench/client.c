/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What a thread does: it keeps up to `depth` operations in flight, one for each slot. In a closed
 * loop a slot that is free gets the next operation at once. In an open loop (pace.h) it gets one
 * when that is meant to start, or as soon after as there is a free slot, and the latency counts
 * from when it was meant to.
 *
 * Nothing is allocated here, and the clock is read twice for an operation. Choosing the key and
 * making the record are outside of an operation's latency, and inside of the throughput: YCSB
 * measures so too. A read-modify-write is one operation, from the read to the end of the write.
 */
#include "tools/kv-bench/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "tools/lib/samples.h"
#include "tools/lib/stop.h"

#define NAP_NS	 (NS_PER_S / 10) /* SIGINT is noticed as late */
#define AWAKE_NS 80000u /* a sleep ends so much later than it was asked to, at most, as a rule */

int client_open(struct client *c)
{
	const struct run_plan *p = c->plan;

	c->slot = calloc(p->depth, sizeof(*c->slot));
	c->done = calloc(p->depth, sizeof(struct kv_op *));
	c->values = calloc(p->depth, p->record_len + 1);
	if (!c->slot || !c->done || !c->values)
		return error_set(&c->err, -ENOMEM, "no memory for a thread");
	for (unsigned i = 0; i < p->depth; i++) {
		c->slot[i].free = true;
		c->slot[i].op.key = c->slot[i].key;
		c->slot[i].op.value = c->values + i * p->record_len;
	}
	c->chooser =
		(struct key_chooser){ .space = &c->shared->keys, .distribution = p->distribution };
	if (p->zipf)
		c->chooser.zipf = *p->zipf;
	return p->system->driver->open(p->system, p->depth, p->record_len, &c->connection, &c->err);
}

void client_close(struct client *c)
{
	if (c->connection)
		c->plan->system->driver->close(c->connection);
	free(c->slot);
	free(c->done);
	free(c->values);
	c->connection = NULL;
}

static void hand_over(struct client *c, struct client_slot *s, enum kv_verb verb)
{
	s->op.verb = verb;
	s->op.value_len = c->plan->record_len;
	if (verb == KV_PUT)
		record_fill(s->op.value, c->plan->record_len, s->number, ++c->version);
}

/* Which record; false: there is none any more for this operation. */
static bool choose(struct client *c, struct client_slot *s)
{
	switch (s->what) {
	case OP_INSERT:
		return key_space_take(&c->shared->keys, &s->number);
	case OP_DELETE:
		s->number = atomic_fetch_add(&c->shared->next_delete, 1);
		return s->number < c->plan->records + c->plan->inserts;
	default:
		s->number = key_choose(&c->chooser, bench_random(&c->random));
		return true;
	}
}

/* The next operation into a free slot, and on its way. */
static void begin(struct client *c, struct client_slot *s)
{
	static const enum kv_verb verb[OPERATIONS] = { [OP_READ] = KV_GET,
						       [OP_UPDATE] = KV_PUT,
						       [OP_INSERT] = KV_PUT,
						       [OP_RMW] = KV_GET,
						       [OP_DELETE] = KV_DEL };

	s->what = workload_choose(c->plan->workload, bench_random(&c->random));
	if (!choose(c, s)) {
		atomic_store(&c->shared->over, true);
		c->ended = true;
		return;
	}
	s->op.key_len = record_key(c->plan->base + s->number, s->key);
	hand_over(c, s, verb[s->what]);
	s->free = false;
	c->in_flight++;
	c->left--;
	s->start_ns = c->pace.interval > 0 ? pace_intended(&c->pace, c->begun) : time_now_ns();
	c->begun++;
	c->plan->system->driver->submit(c->connection, &s->op);
}

static void complain(struct client *c, const struct client_slot *s, const char *what)
{
	if (c->result.trouble[0])
		return;
	snprintf(c->result.trouble, sizeof(c->result.trouble),
		 "%s of %s: record %.*s (number %" PRIu64 ") %s", operation_name[s->what],
		 c->plan->system->name, (int)s->op.key_len, s->key, s->number, what);
}

/* What was read is what was written there: only the floor server may answer anything. */
static void judge(struct client *c, const struct client_slot *s)
{
	size_t len = c->plan->record_len;

	if (s->op.status == -EMSGSIZE || s->op.data_len != len ||
	    (!c->plan->system->keeps_nothing && !record_right(s->op.data, len, s->number))) {
		c->result.wrong++;
		complain(c, s, "is not what was written");
	}
}

/* Returns false where the slot goes on: a read-modify-write has been read. */
static bool through(struct client *c, struct client_slot *s)
{
	int status = s->op.status;

	if (status == -ENOENT) {
		c->result.missing++;
		complain(c, s, "is not there");
	} else if (status && (status != -EMSGSIZE || s->op.verb != KV_GET)) {
		c->ended = true;
		atomic_store(&c->shared->over, true);
		if (!c->err.code)
			error_set(&c->err, status, "%s of %s failed: %s", operation_name[s->what],
				  c->plan->system->name, error_name(status));
		return true;
	} else if (s->op.verb == KV_GET) {
		judge(c, s);
		if (s->what == OP_RMW) {
			hand_over(c, s, KV_PUT);
			c->plan->system->driver->submit(c->connection, &s->op);
			return false;
		}
	} else if (s->what == OP_INSERT) {
		c->result.inserted++;
		key_space_acknowledge(&c->shared->keys, s->number);
	}
	histogram_add(&c->result.latency[s->what], c->now_ns - s->start_ns);
	c->result.operations++;
	return true;
}

/* Whether another operation may begin. @due_ns receives when the next one is meant to, or 0. */
static bool may_begin(struct client *c, uint64_t *due_ns)
{
	*due_ns = 0;
	if (!c->ended)
		c->ended = c->left == 0 || stop_wanted() || (c->end_ns && c->now_ns >= c->end_ns) ||
			   atomic_load_explicit(&c->shared->over, memory_order_relaxed);
	if (c->ended || c->pace.interval <= 0)
		return !c->ended;
	*due_ns = pace_intended(&c->pace, c->begun);
	if (c->end_ns && *due_ns >= c->end_ns)
		c->ended = true;
	if (*due_ns > c->now_ns)
		c->now_ns = time_now_ns();
	return !c->ended && *due_ns <= c->now_ns;
}

/* Until it is time for the next one; asleep but for the end. */
static void idle_until(struct client *c, uint64_t due_ns)
{
	while ((c->now_ns = time_now_ns()) < due_ns && !stop_wanted()) {
		uint64_t left = due_ns - c->now_ns;
		struct timespec ts = { 0 };

		if (left <= AWAKE_NS) {
			time_relax();
			continue;
		}
		left -= AWAKE_NS;
		ts.tv_nsec = (long)(left < NAP_NS ? left : NAP_NS);
		nanosleep(&ts, NULL);
	}
}

static int collect(struct client *c, uint64_t until_ns)
{
	int n = c->plan->system->driver->collect(c->connection, c->done, c->plan->depth, until_ns,
						 &c->err);

	c->now_ns = time_now_ns();
	for (int i = 0; i < n; i++) {
		struct client_slot *s = (struct client_slot *)c->done[i]; /* its first member */

		if (through(c, s)) {
			s->free = true;
			c->in_flight--;
			c->last_ns = c->now_ns;
		}
	}
	return n < 0 ? n : 0;
}

void client_work(struct client *c)
{
	unsigned at = 0, depth = c->plan->depth;
	uint64_t due_ns = 0;
	int rc = 0;

	c->now_ns = c->last_ns = time_now_ns();
	while (rc == 0) {
		while (c->in_flight < depth && may_begin(c, &due_ns)) {
			while (!c->slot[at].free)
				at = (at + 1) % depth;
			begin(c, &c->slot[at]);
		}
		if (c->in_flight)
			rc = collect(c, c->in_flight < depth && !c->ended ? due_ns : 0);
		else if (c->ended)
			break;
		else
			idle_until(c, due_ns);
	}
	if (rc)
		atomic_store(&c->shared->over, true);
	if (c->pace.interval > 0 && c->end_ns) {
		bool over = atomic_load(&c->shared->over) && c->now_ns < c->end_ns;

		c->pace.next = c->begun;
		c->result.not_started = pace_behind(&c->pace, (over ? c->now_ns : c->end_ns) - 1);
	}
}
