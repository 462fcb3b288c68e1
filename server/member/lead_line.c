/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* One member, as its primary sees it: lead.c has the argument. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/member/lead_internal.h"

#define CONNECT_NS  (10 * NS_PER_S) /* for queue pairs */
#define BRING_NS    (2 * NS_PER_S) /* for them and what is brought: nobody is answered until then */
#define PATIENCE_NS (60 * NS_PER_S) /* for each frame of the table, and for the log before it */
#define LEARNER_NS  (2 * NS_PER_S) /* that one who learns may hold up the log */

void line_stage(struct line *n, enum lead_stage stage)
{
	static const char *const words[] = {
		[LEAD_FREE] = "is forgotten",  [LEAD_AWAITED] = "is awaited",
		[LEAD_WAITS] = "has dialled",  [LEAD_COMES] = "connects",
		[LEAD_LEARNS] = "learns",      [LEAD_CATCHES_UP] = "catches up",
		[LEAD_IN_SYNC] = "is in sync", [LEAD_CUT] = "is cut",
	};

	log_debug("group", "member %s %s", n->who.node, words[stage]);
	n->stage = stage;
	n->stage_ns = time_now_ns();
}

static uint64_t lease_ns(const struct line *n)
{
	return n->lead->known.config.lease_ms * NS_PER_MS;
}

void line_await(struct line *n, const struct group_member *m)
{
	n->who = (struct wire_peer_hello){ .life = m->life };
	memcpy(n->who.node, m->node, sizeof(n->who.node));
	n->was_in_sync = true;
	n->admitted.fd = -1;
	mirror_must(n->lead->config.mirror, n->peer, true);
	beat_count(n->lead->config.beat, n->peer, true);
	line_stage(n, LEAD_AWAITED);
}

void line_take(struct line *n, int fd, const struct wire_peer_hello *who)
{
	n->who = *who;
	n->admitted = (struct admitted){ .fd = fd };
	line_stage(n, LEAD_WAITS);
}

static void tell(struct line *n, enum line_progress p)
{
	atomic_store_explicit(&n->progress, p, memory_order_release);
	eventfd_write(n->lead->config.wake_fd, 1);
}

static void *run(void *arg)
{
	struct line *n = arg;
	const uint64_t deadline_ns = time_now_ns() + (n->was_in_sync ? BRING_NS : CONNECT_NS);

	n->rc = admit_connect(&n->admitted, n->admitted.fd, &n->config, deadline_ns, &n->err);
	if (n->rc == 0) {
		tell(n, LINE_CONNECTED);
		n->rc = admit_begin(&n->admitted, &n->config, deadline_ns, &n->err);
	}
	if (n->rc == 0 && !n->was_in_sync)
		n->rc = admit_clients(&n->admitted, &n->config, &n->lead->config.table, PATIENCE_NS,
				      &n->err);
	tell(n, LINE_DONE);
	return NULL;
}

/* Its thread has ended, or there was none: what it had is undone. */
static void sever(struct line *n)
{
	if (n->beats)
		beat_peer(n->lead->config.beat, n->peer, NULL);
	n->beats = false;
	if (n->config.mirror)
		admit_end(&n->admitted, &n->config);
	else if (n->admitted.fd >= 0)
		close(n->admitted.fd);
	n->admitted.fd = -1;
}

void line_cut(struct line *n, const char *why)
{
	log_warn("group", "member %s is taken out: %s", n->who.node, why);
	line_let_go(n, why);
}

void line_let_go(struct line *n, const char *why)
{
	snprintf(n->why, sizeof(n->why), "%s", why);
	line_stage(n, LEAD_CUT);
	if (n->runs)
		shutdown(n->admitted.fd, SHUT_RDWR); /* it ends soon */
	else
		sever(n);
}

void line_begin(struct line *n)
{
	const struct lead_config *c = &n->lead->config;
	int rc;

	n->config = (struct admit_config){
		.dev = c->dev,
		.mirror = c->mirror,
		.peer = n->peer,
		.as = { .term = n->lead->term, /* of this server's rings */
			.primary = c->self,
			.lease_ms = n->lead->known.config.lease_ms,
			.rho_ppm = n->lead->known.config.rho_ppm },
		.brings = n->was_in_sync ? c->brings : NULL,
	};
	atomic_store_explicit(&n->progress, LINE_BEGINS, memory_order_relaxed);
	line_stage(n, LEAD_COMES);
	rc = pthread_create(&n->thread, NULL, run, n);
	n->runs = rc == 0;
	if (rc)
		line_cut(n, "it has no thread here (raise the limit of threads)");
	else
		pthread_setname_np(n->thread, "gkv-line");
}

bool line_is_cut(const struct line *n)
{
	return n->stage == LEAD_CUT && !n->runs && n->admitted.fd < 0;
}

void line_free(struct line *n)
{
	mirror_remove(n->lead->config.mirror, n->peer); /* it need not hold the log any more */
	beat_count(n->lead->config.beat, n->peer, false);
	*n = (struct line){ .lead = n->lead, .peer = n->peer, .admitted.fd = -1 };
}

/* What its thread has done. */
static void take_progress(struct line *n)
{
	const int p = atomic_load_explicit(&n->progress, memory_order_acquire);

	if (n->stage != LEAD_CUT && !n->beats &&
	    (p == LINE_CONNECTED || (p == LINE_DONE && n->rc == 0)))
		n->beats = beat_peer(n->lead->config.beat, n->peer, n->admitted.pulse) == 0;
	if (p != LINE_DONE)
		return;
	pthread_join(n->thread, NULL);
	n->runs = false;
	if (n->stage == LEAD_CUT)
		return;
	if (n->rc)
		line_cut(n, n->err.text);
	else
		line_stage(n, n->was_in_sync ? LEAD_IN_SYNC : LEAD_LEARNS);
}

/* It counts from now on, before anybody is asked to put it in sync. */
static void count(struct line *n)
{
	const struct lead_config *c = &n->lead->config;

	mirror_must(c->mirror, n->peer, true);
	if (!MUTANT(promote_uncounted))
		beat_count(c->beat, n->peer, true);
	n->sent = mirror_sent(c->mirror);
	line_stage(n, LEAD_CATCHES_UP);
}

static void hear(struct line *n)
{
	struct error err;
	uint64_t applied;
	int rc = admit_heard(&n->admitted, &applied, &err);

	if (rc < 0)
		line_cut(n, err.text);
	else if (rc && n->stage == LEAD_LEARNS)
		count(n);
}

/* Whether it still takes the log. */
static void watch_log(struct line *n)
{
	const uint64_t patience_ns =
		n->stage <= LEAD_LEARNS && lease_ns(n) < LEARNER_NS ? LEARNER_NS : lease_ns(n);
	struct mirror_state s;

	mirror_look(n->lead->config.mirror, n->peer, &s);
	if (s.failed)
		line_cut(n, s.why);
	else if (s.since_ns && time_now_ns() > s.since_ns + patience_ns)
		line_cut(n, "it does not take the log, or not as fast as it grows");
}

/* A backup whose answers stay out for two leases: nothing can be read meanwhile. */
static void watch_lease(struct line *n)
{
	const uint64_t granted_ns = beat_granted(n->lead->config.beat, n->peer);

	if (time_now_ns() > n->stage_ns + 2 * lease_ns(n) &&
	    time_read_ns(CLOCK_BOOTTIME) > granted_ns + lease_ns(n))
		line_cut(n, "it does not answer beats");
}

void line_turn(struct line *n)
{
	if (n->runs)
		take_progress(n);
	if (n->stage == LEAD_COMES && n->beats)
		watch_log(n);
	if (n->runs)
		return;
	if (n->stage >= LEAD_LEARNS && n->stage <= LEAD_IN_SYNC)
		hear(n);
	if (n->stage >= LEAD_LEARNS && n->stage <= LEAD_IN_SYNC)
		watch_log(n);
	if (n->stage == LEAD_IN_SYNC)
		watch_lease(n);
	if (n->stage == LEAD_AWAITED && time_now_ns() > n->stage_ns + 2 * lease_ns(n))
		line_cut(n, "it has not come to its new primary");
	if (n->stage == LEAD_CUT)
		sever(n);
}
