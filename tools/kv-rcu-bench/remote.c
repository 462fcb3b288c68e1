/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * remote: the store's own reclaimer, with remote readers.
 *
 * A whole kv-server is in this process, on soft0. Each shared pointer is a record, each reader a
 * session of the client library with a handle that GETs records one-sided, each updater a thread
 * that writes into the store as a worker of kv-server does. So the old block goes the whole way:
 * the updater's batch, the reclaimer, one local grace period, and the wait for every session to
 * announce a later epoch.
 *
 * Its grace periods are counted by the reclaimer. They are timed by a probe: from a look at how
 * many blocks have been retired to the first look at which as many have been freed, so what is
 * timed is the whole way, up to 5 ms in the updater's batch included.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <gracekv.h>

#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "tools/lib/server_thread.h"
#include "tools/kv-rcu-bench/strategy.h"

#define KEY_LEN	       8u
#define DEFERRED_SHARE 4u /* of the store's memory, that may wait: kv-server's default */
#define MEMORY_MIN     (64ull << 20)
#define PROBE_NS       250000
#define BUSY_NS	       100000
#define GROWTH_MS      10u
#define DRAIN_NS       (20 * NS_PER_S)

struct value {
	uint64_t word[OBJECT_WORDS];
};

struct visitor {
	struct gkv_session *session;
	struct gkv *handle;
};

struct remote {
	struct server_thread server;
	sigset_t signals; /* of the main thread, before the server blocked some */
	struct visitor *visitor; /* one a reader */
	struct store_worker *worker; /* one an updater */
	unsigned workers;
	uint64_t retired_before; /* blocks, when the run began */
	uint64_t periods_before;
	pthread_t probe;
	bool probing;
	_Atomic bool stop; /* of the probe */
};

/* There is one server in a process, and it must not lie on a stack. */
static struct remote remote;

static void nap(uint64_t ns)
{
	struct timespec ts = { 0, (long)ns };

	nanosleep(&ts, NULL);
}

static void source_key(unsigned source, char key[KEY_LEN])
{
	for (unsigned n = 0; n < KEY_LEN; n++, source >>= 4)
		key[KEY_LEN - 1 - n] = "0123456789abcdef"[source & 15];
}

static void wait_offline(struct rcu_domain *d, int why)
{
	qsbr_offline();
	if (why == -EAGAIN)
		memory_growth_wait(remote.server.server.store.memory, GROWTH_MS);
	else
		nap(BUSY_NS);
	qsbr_online();
}

static bool stopped(const struct rcu_domain *d)
{
	return atomic_load_explicit(&d->stop, memory_order_relaxed);
}

/* One try. -EAGAIN, -EBUSY, -ENOMEM: nothing was written. */
static int put_once(struct rcu_domain *d, struct store_worker *w, unsigned source, uint64_t serial)
{
	struct store_result result;
	struct store_put put;
	struct value value;
	char key[KEY_LEN];
	int rc;

	source_key(source, key);
	for (unsigned i = 0; i < OBJECT_WORDS; i++)
		value.word[i] = serial ^ object_mask(i);
	rc = store_put_begin(w, key, sizeof(key), sizeof(value), 0, &put);
	if (rc)
		return rc;
	memcpy(put.block->data + sizeof(key), &value, sizeof(value));
	while ((rc = store_put_commit(w, &put, &store_always, &result)) == -EAGAIN) {
		if (stopped(d)) {
			store_put_abort(w, &put);
			return -EINTR;
		}
		wait_offline(d, rc);
	}
	return rc;
}

static int put(struct rcu_domain *d, struct store_worker *w, unsigned source, uint64_t serial)
{
	int rc;

	for (;;) {
		rc = put_once(d, w, source, serial);
		if (rc == -ENOMEM && reclaim_wanting(w->store->reclaim))
			rc = -EBUSY;
		if (rc != -EAGAIN && rc != -EBUSY)
			return rc;
		if (stopped(d))
			return -EINTR;
		wait_offline(d, rc);
	}
}

static int remote_update(struct rcu_updater *u)
{
	struct rcu_source *s = rcu_next_source(u->domain, &u->turn);
	int rc;

	rc = put(u->domain, u->own, (unsigned)(s - u->domain->source), u->serial += UPDATERS_MAX);
	if (rc == 0)
		rcu_count(&u->retired, 1);
	return rc;
}

/* What a worker does in each loop. */
static void remote_after(struct rcu_updater *u)
{
	struct store_worker *w = u->own;

	reclaim_poll(w->reclaim, time_now_ns());
}

static uint64_t remote_read(struct rcu_reader *r)
{
	uint64_t serial, failures = 0;
	struct visitor *s = r->own;
	struct rcu_object o;
	struct value value;
	char key[KEY_LEN];
	size_t len = 0;
	int rc;

	for (unsigned i = 0; i < PERIOD_READS; i++) {
		struct rcu_source *from = rcu_next_source(r->domain, &r->turn);

		source_key((unsigned)(from - r->domain->source), key);
		rc = gkv_get(s->handle, key, sizeof(key), &value, sizeof(value), &len);
		if (rc) {
			atomic_store_explicit(&r->domain->failed, rc, memory_order_relaxed);
			return failures;
		}
		for (unsigned n = 0; n < OBJECT_WORDS; n++)
			atomic_store_explicit(&o.word[n], value.word[n], memory_order_relaxed);
		failures += len != sizeof(value) || !object_read(&o, &serial);
	}
	return failures;
}

static void *probe_main(void *arg)
{
	struct rcu_domain *d = arg;
	uint64_t since = 0, wanted = 0, now;
	struct reclaim_stats s;

	while (!atomic_load_explicit(&remote.stop, memory_order_relaxed)) {
		if (atomic_load(&remote.server.ended))
			atomic_store_explicit(&d->failed, -EINTR, memory_order_relaxed);
		reclaim_stats_get(remote.server.server.store.reclaim, &s);
		now = time_now_ns();
		atomic_store_explicit(&d->freed, s.freed - remote.retired_before,
				      memory_order_relaxed);
		if (since && s.freed >= wanted) {
			if (!stopped(d))
				rcu_grace_add(&d->grace, now - since);
			since = 0;
		}
		if (!since && s.retired > s.freed) {
			since = now;
			wanted = s.retired;
		}
		nap(PROBE_NS);
	}
	return NULL;
}

/* Each reader's session, connected. */
static int sessions_open(struct rcu_domain *d, struct error *err)
{
	struct gkv_options options;
	char why[ERROR_TEXT_MAX];
	int rc;

	gkv_options_init(&options);
	options.server = remote.server.server.bound;
	options.device = RCU_REMOTE_DEVICE;
	options.connect = GKV_CONNECT_TCP;
	options.name = "kv-rcu-bench";
	for (unsigned i = 0; i < d->readers; i++) {
		struct visitor *s = &remote.visitor[i];

		if (atomic_load(&remote.server.ended))
			return error_set(err, -EINTR, "a signal ended the server");
		rc = gkv_session_open(&options, &s->session, why, sizeof(why));
		if (rc)
			return error_set(err, rc, "session %u of a reader: %s", i + 1, why);
		rc = gkv_open(s->session, NULL, &s->handle, why, sizeof(why));
		if (rc)
			return error_set(err, rc, "handle of reader %u: %s", i + 1, why);
		d->reader[i].own = s;
	}
	return 0;
}

static int workers_open(struct rcu_domain *d, struct error *err)
{
	int rc;

	for (unsigned i = 0; i < d->updaters; i++, remote.workers++) {
		rc = store_worker_create(&remote.worker[i], &remote.server.server.store, 0);
		if (rc)
			return error_set(err, rc, "updater %u cannot write into the store: %s",
					 i + 1, error_name(rc));
		d->updater[i].own = &remote.worker[i];
	}
	return 0;
}

static int records_write(struct rcu_domain *d, struct error *err)
{
	int rc = 0;

	qsbr_register();
	for (unsigned i = 0; i < d->sources && rc == 0; i++)
		rc = put(d, &remote.worker[0], i, 0);
	qsbr_unregister();
	return rc ? error_set(err, rc, "writing the records: %s", error_name(rc)) : 0;
}

static int probe_start(struct rcu_domain *d, struct error *err)
{
	struct reclaim_stats s;
	int rc;

	reclaim_stats_get(remote.server.server.store.reclaim, &s);
	remote.retired_before = s.retired;
	remote.periods_before = s.grace_periods;
	rc = -pthread_create(&remote.probe, NULL, probe_main, d);
	remote.probing = rc == 0;
	return rc ? error_set(err, rc, "starting a thread failed: %s", error_name(rc)) : 0;
}

/* Until all that was retired is free. */
static void drain(struct rcu_domain *d)
{
	uint64_t end = time_now_ns() + DRAIN_NS;
	struct reclaim_stats s;

	do {
		nap(NS_PER_MS);
		reclaim_kick(remote.server.server.store.reclaim);
		reclaim_stats_get(remote.server.server.store.reclaim, &s);
	} while (s.freed != s.retired && time_now_ns() < end);
	d->periods = s.grace_periods - remote.periods_before;
	atomic_store(&d->freed, s.freed - remote.retired_before);
}

static int remote_close(struct rcu_domain *d, struct error *err)
{
	bool ended = atomic_load(&remote.server.ended);
	int rc;

	for (unsigned i = 0; i < d->readers; i++) {
		gkv_close(remote.visitor[i].handle);
		gkv_session_close(remote.visitor[i].session);
	}
	for (unsigned i = 0; i < remote.workers; i++)
		store_worker_destroy(&remote.worker[i]);
	if (remote.probing) {
		atomic_store(&remote.stop, true);
		pthread_join(remote.probe, NULL);
		drain(d);
	}
	rc = server_thread_stop(&remote.server);
	pthread_sigmask(SIG_SETMASK, &remote.signals, NULL);
	free(remote.visitor);
	free(remote.worker);
	if (rc)
		return error_set(err, rc, "remote: the server: %s", remote.server.err.text);
	return ended ? error_set(err, -EINTR, "remote: a signal ended the server") : 0;
}

static int remote_open(struct rcu_domain *d, struct error *err)
{
	uint64_t memory = d->deferred_max * sizeof(struct rcu_object) * DEFERRED_SHARE;
	int rc;

	memset(&remote, 0, sizeof(remote));
	pthread_sigmask(SIG_SETMASK, NULL, &remote.signals);
	remote.visitor = calloc(d->readers, sizeof(*remote.visitor));
	remote.worker = calloc(d->updaters, sizeof(*remote.worker));
	if (remote.visitor && remote.worker)
		rc = server_thread_start(&remote.server, memory > MEMORY_MIN ? memory : MEMORY_MIN,
					 0, err);
	else
		rc = error_set(err, -ENOMEM, "no memory for sessions");
	if (rc) {
		pthread_sigmask(SIG_SETMASK, &remote.signals, NULL);
		free(remote.visitor);
		free(remote.worker);
		return rc;
	}
	rc = workers_open(d, err);
	if (rc == 0)
		rc = records_write(d, err);
	if (rc == 0)
		rc = sessions_open(d, err);
	if (rc == 0)
		rc = probe_start(d, err);
	if (rc)
		remote_close(d, NULL);
	return rc;
}

const struct rcu_strategy rcu_remote = {
	.name = "remote",
	.how = "the store's own: its reclaimer, and readers that are sessions over soft0 (reads "
	       "are GETs)",
	.qsbr_updaters = true,
	.unbreakable = true,
	.open = remote_open,
	.read = remote_read,
	.update = remote_update,
	.after = remote_after,
	.close = remote_close,
};
