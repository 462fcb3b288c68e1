/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A queue pair that can neither be brought to ERR nor be destroyed: its client may go on with its
 * READs, so nothing that it could find is used again (I4), and the server ends. A whole server, and
 * a client of it, in this process; the calls fail in the server's threads.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <gracekv.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/rdma/qp.h"
#include "common/rdma/region.h"
#include "tests/lib/fake_clock.h"
#include "tools/lib/server_thread.h"

#define MEMORY	 (64u << 20)
#define LEASE_MS 60000u /* no session is silent by accident */
#define WAIT_MS	 20000u
#define WAIT_NS	 (WAIT_MS * NS_PER_MS)

static struct server_thread server;
static pthread_t client;
static _Atomic bool destroy_fails, modify_fails, keys_stay;
static _Atomic int spared; /* calls of modify that do not fail */
static struct gkv_session *session;
static struct gkv *kv[2];

int __real_rdma_qp_destroy(struct rdma_qp *qp);
int __wrap_rdma_qp_destroy(struct rdma_qp *qp);
int __real_rdma_qp_fail(struct rdma_qp *qp);
int __wrap_rdma_qp_fail(struct rdma_qp *qp);

int __real_rdma_buffer_create(const struct rdma_device *dev, size_t len, unsigned access,
			      const char *what, struct rdma_buffer *out, struct error *err);
int __wrap_rdma_buffer_create(const struct rdma_device *dev, size_t len, unsigned access,
			      const char *what, struct rdma_buffer *out, struct error *err);
int __real_rdma_buffer_destroy(struct rdma_buffer *buffer);
int __wrap_rdma_buffer_destroy(struct rdma_buffer *buffer);

/* The session's, the only memory of the server's that clients write to. */
static _Atomic(void *) epoch_slot;

int __wrap_rdma_buffer_create(const struct rdma_device *dev, size_t len, unsigned access,
			      const char *what, struct rdma_buffer *out, struct error *err)
{
	int rc = __real_rdma_buffer_create(dev, len, access, what, out, err);

	if (rc == 0 && access & IBV_ACCESS_REMOTE_WRITE && !pthread_equal(pthread_self(), client))
		atomic_store(&epoch_slot, out->addr);
	return rc;
}

int __wrap_rdma_buffer_destroy(struct rdma_buffer *buffer)
{
	if (atomic_load(&keys_stay) && buffer->addr == atomic_load(&epoch_slot))
		return -EIO;
	return __real_rdma_buffer_destroy(buffer);
}

int __wrap_rdma_qp_destroy(struct rdma_qp *qp)
{
	if (atomic_load(&destroy_fails) && !pthread_equal(pthread_self(), client))
		return -EIO;
	return __real_rdma_qp_destroy(qp);
}

int __wrap_rdma_qp_fail(struct rdma_qp *qp)
{
	if (atomic_load(&modify_fails) && !pthread_equal(pthread_self(), client) &&
	    atomic_fetch_sub(&spared, 1) <= 0)
		return -EIO;
	return __real_rdma_qp_fail(qp);
}

static void let_fail(bool destroy, bool modify)
{
	atomic_store(&spared, 0);
	atomic_store(&destroy_fails, destroy);
	atomic_store(&modify_fails, modify);
}

static int set_up(void **state)
{
	struct gkv_options o;
	struct error err;
	char text[700] = "";

	client = pthread_self();
	fake_clock_begin(false);
	let_fail(false, false);
	log_setup("test", LOG_ERROR, LOG_TEXT);
	server.lease_ms = LEASE_MS;
	if (server_thread_start(&server, MEMORY, 0, &err)) {
		print_error("%s\n", err.text);
		return -1;
	}
	gkv_options_init(&o);
	o.server = server.server.bound;
	o.device = "soft0";
	o.housekeeper = GKV_HOUSEKEEPER_TICK; /* its queue pairs are this thread's too */
	if (gkv_session_open(&o, &session, text, sizeof(text))) {
		print_error("%s\n", text);
		return -1;
	}
	for (unsigned i = 0; i < 2; i++) {
		if (gkv_open(session, NULL, &kv[i], NULL, 0))
			return -1;
	}
	return gkv_tick(session, NULL, 0) < 0;
}

static int tear_down(void **state)
{
	let_fail(false, false);
	atomic_store(&keys_stay, false);
	for (unsigned i = 0; i < 2; i++) {
		if (kv[i])
			gkv_close(kv[i]);
	}
	if (session)
		gkv_session_close(session);
	server_thread_stop(&server);
	fake_clock_end();
	return 0;
}

static void assert_ends(const char *why)
{
	const struct timespec pause = { 0, NS_PER_MS };
	uint64_t end = time_now_ns() + WAIT_NS;

	while (!atomic_load(&server.ended) && time_now_ns() < end)
		nanosleep(&pause, NULL);
	assert_true(atomic_load(&server.ended));
	assert_int_not_equal(server.err.code, 0);
	assert_non_null(strstr(server.err.text, why));
}

/* What is replaced from now on comes back to nobody. */
static void assert_waited_for(void)
{
	struct reclaim *reclaim = server.server.store.reclaim;
	struct reclaim_stats stats;
	uint64_t from = grace_now(reclaim_grace(reclaim));

	assert_true(grace_reach(reclaim_grace(reclaim)) <= from);
	reclaim_stats_get(reclaim, &stats);
	assert_int_equal(stats.lost, 0);
}

/* In ERR it serves nothing: the server goes on. */
UNIT_TEST(one_that_is_in_err, set_up, tear_down)
{
	let_fail(true, false);
	gkv_close(kv[0]);
	kv[0] = NULL;
	let_fail(false, false);
	assert_int_equal(gkv_put(kv[1], "key", 3, "value", 5, NULL), 0);
	assert_false(atomic_load(&server.ended));
}

/* The client closes a handle; the other one is there still. */
UNIT_TEST(one_of_two, set_up, tear_down)
{
	let_fail(true, true);
	gkv_close(kv[0]);
	kv[0] = NULL;
	assert_ends("could not be destroyed");
	assert_waited_for();
}

/* The other one and the housekeeper's have gone before it. */
UNIT_TEST(the_last, set_up, tear_down)
{
	gkv_close(kv[1]);
	kv[1] = NULL;
	let_fail(true, true);
	atomic_store(&spared, 1); /* the housekeeper's */
	gkv_close(kv[0]);
	kv[0] = NULL;
	assert_ends("could not be destroyed");
	assert_waited_for();
}

/* Nobody ticks: the session is fenced, which does not come to its end. */
UNIT_TEST(a_fence_that_fails, set_up, tear_down)
{
	let_fail(true, true);
	fake_clock_ahead(LEASE_MS); /* a pause of the server's, which is forgiven once */
	for (unsigned i = 0; i < WAIT_MS && !atomic_load(&server.ended); i++) {
		time_sleep(NS_PER_MS);
		fake_clock_ahead(LEASE_MS / 8);
	}
	assert_ends("could not be destroyed");
	assert_int_equal(atomic_load(&server.server.sessions.counters.fenced_silent), 1);
	assert_int_equal(atomic_load(&server.server.sessions.counters.sessions), 0);
	assert_waited_for();
}

/* The queue pairs are gone, and the slot's key is not: what it announces may yet come. */
UNIT_TEST(a_slot_whose_key_stays, set_up, tear_down)
{
	atomic_store(&keys_stay, true);
	for (unsigned i = 0; i < 2; i++) {
		gkv_close(kv[i]);
		kv[i] = NULL;
	}
	gkv_session_close(session);
	session = NULL;
	assert_ends("could not be deregistered");
	assert_waited_for();
}
