/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A shift is one session: opened, shared by all actors, each with two handles, and closed; what the
 * session is like is chosen for each. The actors stay, with their histories and what they have
 * seen.
 */
#include "tests/linearizability/client/member.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/time.h"

#define TICK_MAX_NS (20 * NS_PER_MS)

struct member {
	const struct member_options *o;
	struct board *board;
	struct gkv_session *session;
	uint64_t random;
	uint64_t end_ns; /* of the shift */
	bool ticks; /* the actors tick */
	struct actor *actor; /* o->threads */
};

static uint64_t below(struct member *m, uint64_t n)
{
	return model_random(&m->random) % n;
}

struct gkv_session *member_session(const struct member_options *o, struct board *board,
				   struct gkv_options *session)
{
	struct gkv_session *s;
	char text[700];

	session->server = o->server;
	session->device = o->device;
	while (!board_asks(&board->stop)) {
		int rc = gkv_session_open(session, &s, text, sizeof(text));

		if (rc == 0)
			return s;
		if (rc == -EINVAL || rc == -ERANGE || rc == -ENODEV || rc == -EPROTONOSUPPORT) {
			fprintf(stderr, "WRONG error: gkv_session_open() returned %d: %s\n", rc,
				text);
			exit(1);
		}
		usleep(3000);
	}
	return NULL;
}

static struct gkv *open_handle(struct member *m, bool hints)
{
	const struct gkv_handle_options o = { .depth = ACTOR_LANES,
					      .flags = hints ? 0 : GKV_NO_HINTS };
	struct gkv *kv;

	while (!board_asks(&m->board->stop) && time_now_ns() < m->end_ns)
		if (gkv_open(m->session, &o, &kv, NULL, 0) == 0)
			return kv;
	return NULL;
}

static void count_stats(struct board *b, struct gkv *kv)
{
	struct gkv_stats s;

	if (!kv)
		return;
	gkv_stats_get(kv, &s);
	board_count(&b->reads, s.reads);
	board_count(&b->hint_hits, s.hint_hits);
	board_count(&b->hint_stale, s.hint_stale);
	board_count(&b->retries, s.retry_obsolete + s.retry_checksum + s.retry_directory);
	board_count(&b->asked, s.rpc_fallbacks);
	board_count(&b->reconnects, s.reconnects);
}

static void tick(struct member *m, uint64_t *due_ns)
{
	uint64_t now = time_now_ns();
	int ms;

	if (now < *due_ns || board_asks(&m->board->mute))
		return;
	ms = gkv_tick(m->session, NULL, 0);
	*due_ns = now + (ms < 1 ? NS_PER_MS : (uint64_t)ms * NS_PER_MS);
	if (*due_ns > now + TICK_MAX_NS)
		*due_ns = now + TICK_MAX_NS;
}

static void work(struct member *m, struct actor *a)
{
	uint64_t due_ns = 0;

	while (!board_asks(&m->board->stop) && time_now_ns() < m->end_ns) {
		if (m->ticks)
			tick(m, &due_ns);
		for (unsigned i = 0; i < 8; i++)
			actor_step(a);
		if (m->o->pace_us)
			usleep((useconds_t)actor_below(a, 2 * m->o->pace_us));
	}
}

struct shift {
	struct member *m;
	struct actor *a;
	bool drain;
};

static void *shift_thread(void *arg)
{
	struct shift *s = arg;
	struct actor *a = s->a;

	a->kv = open_handle(s->m, true);
	a->plain = open_handle(s->m, false);
	gkv_memory_register(s->m->session, a->places, (size_t)ACTOR_PLACES * VALUE_BYTES_MAX,
			    &a->memory, NULL, 0); /* NULL where it failed */
	if (a->kv && a->plain)
		work(s->m, a);
	if (a->kv)
		actor_finish(a, s->drain);
	count_stats(s->m->board, a->kv);
	count_stats(s->m->board, a->plain);
	gkv_close(a->kv);
	gkv_close(a->plain);
	a->kv = a->plain = NULL;
	actor_abandon(a);
	if (a->memory)
		gkv_memory_release(a->memory);
	a->memory = NULL;
	return NULL;
}

static void run_shift(struct member *m)
{
	pthread_t thread[MEMBER_THREADS_MAX];
	struct shift shift[MEMBER_THREADS_MAX];
	bool drain = below(m, 3) != 0;

	for (unsigned i = 0; i < m->o->threads; i++) {
		shift[i] = (struct shift){ .m = m, .a = &m->actor[i], .drain = drain };
		if (pthread_create(&thread[i], NULL, shift_thread, &shift[i])) {
			fprintf(stderr, "lin-client: no thread can be started: ulimit -u?\n");
			exit(3);
		}
	}
	for (unsigned i = 0; i < m->o->threads; i++)
		pthread_join(thread[i], NULL);
}

static void session_options(struct member *m, struct gkv_options *o)
{
	static const uint64_t hint_bytes[] = { 64 << 20, 4 << 20, 4096, 0 };
	static const unsigned timeout_ms[] = { 400, 1000, 3000 };

	gkv_options_init(o);
	o->flags |= GKV_SERVERS_GIVEN; /* the relays, which cut lines */
	o->hint_bytes = hint_bytes[below(m, 8) < 5 ? 0 : below(m, 4)];
	o->timeout_ms = timeout_ms[below(m, 3)];
	o->lifeline_ms = 500 + (unsigned)below(m, 1500);
	m->ticks = below(m, 3) == 0;
	o->housekeeper = m->ticks ? GKV_HOUSEKEEPER_TICK : GKV_HOUSEKEEPER_THREAD;
}

static uint64_t shift_ms(struct member *m)
{
	if (board_asks(&m->board->brief))
		return 10 + below(m, 90);
	return below(m, 4) ? 500 + below(m, 4000) : 30 + below(m, 300);
}

static int create(struct member *m, struct error *err)
{
	const struct member_options *o = m->o;

	m->actor = calloc(o->threads, sizeof(*m->actor));
	if (!m->actor)
		return error_set(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < o->threads; i++) {
		struct actor *a = &m->actor[i];
		int rc;

		a->board = m->board;
		a->process = (uint32_t)o->process;
		a->thread = i;
		a->random = model_mix(o->seed + (o->process << 8) + i);
		rc = actor_create(a, o->folder, err);
		if (rc)
			return rc;
	}
	return 0;
}

int member_run(const struct member_options *o, struct board *board)
{
	struct member m = { .o = o, .board = board, .random = model_mix(~o->seed - o->process) };
	struct error err;

	if (create(&m, &err)) {
		fprintf(stderr, "lin-client: %s\n", err.text);
		return 3;
	}
	while (!board_asks(&board->stop)) {
		struct gkv_options options;

		session_options(&m, &options);
		m.session = member_session(o, board, &options);
		if (!m.session)
			break;
		m.end_ns = time_now_ns() + shift_ms(&m) * NS_PER_MS;
		run_shift(&m);
		gkv_session_close(m.session);
		board_count(&board->sessions, 1);
	}
	for (unsigned i = 0; i < o->threads; i++)
		actor_destroy(&m.actor[i]);
	free(m.actor);
	return 0;
}
