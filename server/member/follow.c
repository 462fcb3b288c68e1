/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * ONE WHO LEARNS starts empty, always: what it had from another primary may have been deleted
 * since. It gets the table of clients before it takes anything out of its ring, then takes both
 * what comes in the ring and what the walk brings, in turns: a piece of the walk, then all that has
 * come meanwhile. It has caught up when the walk is over and in the store; then the primary waits
 * for what is missing yet, and puts it in sync (lead.c).
 *
 * ONE THAT HAS LEARNED keeps what it holds over primaries (follower.c). It leaves a primary before
 * it dials the next one, or takes over: the ring is taken away first, then what had come in it is
 * taken out, to the last batch that is whole.
 *
 * DIALLING goes on until it succeeds, or the group's thread ends it: that the primary is not there,
 * or does not know yet that it is primary, is what happens at a take-over. Only what the primary
 * refuses for good makes the member unfit.
 *
 * ROOM: what comes is applied at least as fast as it is taken, so what is committed does not pile
 * up; the primary sends no more than a few batches that are not (follower.c, HELD_MAX). A store
 * that is slow makes the ring full, which holds up nobody but the primary's log, and that takes out
 * who is too slow.
 *
 * THE LINE's end proves nothing: as long as the ring is there, what comes in it counts. Whoever is
 * taken out learns it from the configuration. But where it ends there will be another configuration
 * soon, as a rule, and who asks etcd for it has it sooner than who waits until etcd tells.
 */
#include "server/member/follow.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/parse.h"
#include "common/base/time.h"
#include "common/rdma/tcp.h"
#include "server/member/join.h"

#define DIAL_NS	    NS_PER_S /* until nobody is there */
#define JOIN_NS	    (10 * NS_PER_S)
#define PATIENCE_NS (60 * NS_PER_S) /* for each frame of the table, and for the log before it */
#define REST_MIN_NS (2 * NS_PER_MS) /* between two attempts: it may be primary in a moment; ... */
#define REST_MAX_NS (50 * NS_PER_MS) /* ... then twice as long each time, up to that */
#define APPLY_BYTES (4ull * LOG_BATCH_RECORDS_MAX) /* between two looks at the ring */
#define IDLE_MIN_NS (200 * 1000ull)
#define IDLE_MAX_NS NS_PER_MS
#define LIFELINE_MS 2000u
#define PREPARE_NS  (200 * NS_PER_MS) /* after it has come to a primary, which opens first */

struct follow {
	struct follow_config config;
	char address[sizeof(((struct wire_peer_hello *)0)->address)];
	pthread_t thread;
	bool runs;
	_Atomic bool stop;
	/* The thread's while it runs; then the group's. */
	struct joined line;
	struct follower *follower;
	bool walked; /* the walk is over, and in the store */
	struct rdma_buffer spare; /* a ring's memory, for the next primary */
	struct backup *left; /* the ring of the one before, to be closed when there is time */
	uint64_t prepare_ns; /* when there is; 0: that is done */
	/* Under the lock: what the other thread looks at. */
	pthread_mutex_t lock;
	int fd; /* to be shut down; -1: none */
	struct follow_state state;
};

static bool stopped(const struct follow *f)
{
	return atomic_load_explicit(&f->stop, memory_order_acquire);
}

static void set_stage(struct follow *f, enum follow_stage stage)
{
	pthread_mutex_lock(&f->lock);
	f->state.stage = stage;
	f->state.learned |= stage == FOLLOW_FOLLOWS;
	pthread_mutex_unlock(&f->lock);
	eventfd_write(f->config.wake_fd, 1);
}

/* What follow_leave() may shut down: a descriptor of its own, so it is never another's by then. */
static void set_fd(struct follow *f, int fd)
{
	pthread_mutex_lock(&f->lock);
	if (f->fd >= 0)
		close(f->fd);
	f->fd = fd < 0 ? -1 : dup(fd);
	if (f->fd >= 0 && stopped(f))
		shutdown(f->fd, SHUT_RDWR);
	pthread_mutex_unlock(&f->lock);
}

/* What the primary, or its absence, may say to one that is to dial again. */
static bool is_for_now(int rc)
{
	return rc == -EAGAIN || rc == -ECONNREFUSED || rc == -ECONNRESET || rc == -ETIMEDOUT ||
	       rc == -EHOSTUNREACH || rc == -ENETUNREACH || rc == -EPIPE || rc == -EUSERS;
}

static int dial(struct follow *f, struct error *err)
{
	const struct join_config config = { .dev = f->config.dev,
					    .ring_bytes = f->config.ring_bytes,
					    .spare = &f->spare,
					    .who = f->config.who };
	char host[256] = "", port[8] = "";
	int fd, rc = parse_host_port("the primary's address", f->address, host, port, err);

	if (rc)
		return rc;
	rc = tcp_connect(host, port, time_now_ns() + DIAL_NS, &fd, err);
	if (rc)
		return rc;
	tcp_lifeline(fd, LIFELINE_MS);
	set_fd(f, fd);
	rc = join_begin(&f->line, fd, &config, time_now_ns() + JOIN_NS, err);
	if (rc)
		set_fd(f, -1); /* it is closed */
	return rc;
}

static int dial_until(struct follow *f, struct error *err)
{
	uint64_t rest_ns = REST_MIN_NS;
	int rc = -EAGAIN;

	while (!stopped(f)) {
		rc = dial(f, err);
		if (!is_for_now(rc))
			break;
		time_sleep(rest_ns);
		rest_ns = rest_ns * 2 < REST_MAX_NS ? rest_ns * 2 : REST_MAX_NS;
	}
	return rc;
}

/* Beats may begin. */
static void tell_term(struct follow *f)
{
	pthread_mutex_lock(&f->lock);
	f->state.term = f->line.as.term;
	f->state.lease_ms = f->line.as.lease_ms;
	f->state.rho_ppm = f->line.as.rho_ppm;
	f->state.pulse = f->line.pulse;
	pthread_mutex_unlock(&f->lock);
	eventfd_write(f->config.wake_fd, 1);
}

static int get_table(struct follow *f, struct error *err)
{
	const struct follower_config config = { .position = f->line.begins,
						.apply = f->config.hooks.apply,
						.ctx = f->config.hooks.ctx };
	const struct follow_hooks *h = &f->config.hooks;
	int rc = h->begins(h->ctx, f->line.as.term, f->line.begins, err);

	if (rc == 0)
		rc = join_clients(&f->line, h->client, h->ctx, PATIENCE_NS, err);
	return rc ? rc : follower_open(&f->follower, &config, err);
}

/* A batch, and what is committed. 1: something was done. */
static int take_some(struct follow *f, struct error *err)
{
	const struct ring_receiver *r = backup_take(f->line.backup);
	int rc = r ? follower_take(f->follower, &r->batch, r->copy, err) : 0;

	if (rc == 0)
		rc = follower_apply(f->follower, APPLY_BYTES, err);
	pthread_mutex_lock(&f->lock);
	follower_look(f->follower, &f->state.log);
	pthread_mutex_unlock(&f->lock);
	backup_tell(f->line.backup, f->state.log.applied);
	return rc < 0 ? rc : r || rc;
}

/*
 * A ring is memory of many pages, and to take it, or give it back, takes a while. Neither is done
 * while the group waits for its next primary; without a spare, that one waits for this server.
 */
static void prepare(struct follow *f)
{
	struct error err;

	if (!f->prepare_ns || time_now_ns() < f->prepare_ns)
		return;
	f->prepare_ns = 0;
	backup_close(f->left);
	f->left = NULL;
	if (!f->spare.addr && backup_spare(f->config.dev, f->config.ring_bytes, &f->spare, &err))
		log_warn("group", "no ring in advance: %s", err.text);
}

/* 1: the walk goes on. */
static int walk_on(struct follow *f, struct error *err)
{
	const struct follow_hooks *h = &f->config.hooks;
	int rc = h->walk(h->ctx, f->address, err);

	if (rc == 0)
		rc = h->learned(h->ctx, err);
	if (rc)
		return rc;
	f->walked = true;
	rc = join_caught_up(&f->line, f->state.log.applied, time_now_ns() + PATIENCE_NS, err);
	if (rc == 0) {
		set_stage(f, FOLLOW_FOLLOWS);
		f->prepare_ns = time_now_ns() + PREPARE_NS;
	}
	return rc;
}

/* Nothing is read: what the primary says last is for hear_the_last(). */
static void look_at_line(struct follow *f)
{
	char byte;

	if (f->state.line_ended || recv(f->line.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0 ||
	    errno == EAGAIN || errno == EINTR)
		return;
	pthread_mutex_lock(&f->lock);
	f->state.line_ended = true;
	pthread_mutex_unlock(&f->lock);
	eventfd_write(f->config.wake_fd, 1);
}

static int follow_on(struct follow *f, struct error *err)
{
	uint64_t idle_ns = IDLE_MIN_NS;

	while (!stopped(f)) {
		int rc = take_some(f, err);

		if (rc >= 0 && !f->walked)
			rc = walk_on(f, err) < 0 ? err->code : 1;
		if (rc < 0)
			return rc;
		prepare(f);
		if (rc) {
			idle_ns = IDLE_MIN_NS;
			continue;
		}
		if (idle_ns == IDLE_MAX_NS)
			look_at_line(f);
		time_sleep(idle_ns);
		idle_ns = idle_ns * 2 < IDLE_MAX_NS ? idle_ns * 2 : IDLE_MAX_NS;
	}
	return 0;
}

static int run_until(struct follow *f, struct error *err)
{
	const bool learns = !f->follower;
	int rc = dial_until(f, err);

	if (rc)
		return rc;
	tell_term(f);
	set_stage(f, learns ? FOLLOW_LEARNS : FOLLOW_FOLLOWS);
	if (learns)
		rc = get_table(f, err);
	else
		f->prepare_ns = time_now_ns() + PREPARE_NS;
	return rc ? rc : follow_on(f, err);
}

static void *run(void *arg)
{
	struct follow *f = arg;
	struct error err = { 0 };
	int rc = run_until(f, &err);

	if (rc == 0 || stopped(f))
		return NULL;
	if (f->line.fd >= 0)
		join_unfit(&f->line, &err);
	pthread_mutex_lock(&f->lock);
	f->state.err = err;
	pthread_mutex_unlock(&f->lock);
	set_stage(f, FOLLOW_UNFIT);
	return NULL;
}

int follow_create(struct follow **out, const struct follow_config *config, struct error *err)
{
	struct follow *f = calloc(1, sizeof(*f));

	if (!f)
		return error_set(err, -ENOMEM, "there is no memory for a member of a group");
	f->config = *config;
	f->fd = f->line.fd = -1;
	pthread_mutex_init(&f->lock, NULL);
	*out = f;
	return 0;
}

void follow_destroy(struct follow *f)
{
	if (!f)
		return;
	follow_rest(f);
	follower_close(f->follower);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

int follow_dial(struct follow *f, const char *address, struct error *err)
{
	int rc;

	snprintf(f->address, sizeof(f->address), "%s", address);
	f->line = (struct joined){ .fd = -1 };
	f->state.stage = FOLLOW_DIALS;
	f->state.line_ended = false;
	f->state.dismissed = (struct error){ 0 };
	atomic_store_explicit(&f->stop, false, memory_order_relaxed); /* before the thread */
	rc = -pthread_create(&f->thread, NULL, run, f);
	if (rc)
		return error_set(err, rc,
				 "starting a thread for the primary failed: %s (raise the limit of "
				 "threads)",
				 error_name(rc));
	f->runs = true;
	pthread_setname_np(f->thread, "gkv-apply");
	return 0;
}

static void stop(struct follow *f)
{
	pthread_mutex_lock(&f->lock);
	/* release: pairs with stopped() */
	atomic_store_explicit(&f->stop, true, memory_order_release);
	if (f->fd >= 0)
		shutdown(f->fd, SHUT_RDWR);
	pthread_mutex_unlock(&f->lock);
	if (f->runs)
		pthread_join(f->thread, NULL);
	f->runs = false;
	set_fd(f, -1);
}

/* All that had come is held, and what is committed of it is applied. */
static void take_the_rest(struct follow *f)
{
	struct error err;
	int rc;

	while ((rc = take_some(f, &err)) > 0)
		;
	if (rc == 0)
		return;
	f->state.err = err;
	f->state.stage = FOLLOW_UNFIT;
}

/* What the primary may have said last. */
static void hear_the_last(struct follow *f)
{
	struct wire_frame frame;
	struct error err;

	if (exchange_read(f->line.fd, &f->line.reader, &frame, &err) > 0 &&
	    frame.type == WIRE_REFUSE && frame.refuse.code == WIRE_PEER_DISMISSED)
		exchange_refusal(&frame.refuse, &f->state.dismissed);
}

int follow_leave(struct follow *f, struct error *err)
{
	int rc = 0;

	stop(f);
	if (f->line.fd >= 0)
		hear_the_last(f);
	if (f->line.backup)
		rc = backup_revoke(f->line.backup, err);
	if (rc == 0 && f->line.backup && f->state.stage == FOLLOW_FOLLOWS)
		take_the_rest(f);
	if (f->line.backup) {
		backup_close(f->left);
		f->left = f->line.backup;
		f->line.backup = NULL;
	}
	if (f->line.fd >= 0)
		join_end(&f->line);
	f->state.term = 0;
	f->state.pulse = NULL;
	if (f->state.stage != FOLLOW_UNFIT)
		f->state.stage = FOLLOW_NOBODY;
	return rc;
}

void follow_rest(struct follow *f)
{
	backup_close(f->left);
	f->left = NULL;
	rdma_buffer_destroy(&f->spare);
}

void follow_look(struct follow *f, struct follow_state *out)
{
	pthread_mutex_lock(&f->lock);
	*out = f->state;
	pthread_mutex_unlock(&f->lock);
}

struct follower *follow_held(struct follow *f)
{
	return f->follower;
}
