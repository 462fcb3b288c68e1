/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>

#include "common/base/time.h"
#include "common/layout/bucket.h"
#include "tests/stress/torture/torture.h"

#define LOOK_MS 10u
#define READY_S 30u /* for the hot keys to stand in the table */

#define SUM(field)	     shared_sum(h->s, -1, offsetof(struct seat_counts, field))
#define SUM_OF(role_, field) shared_sum(h->s, role_, offsetof(struct seat_counts, field))

static void report(struct home *h, double seconds)
{
	const struct pipe *p = h->s->pipe;
	uint64_t puts = SUM(puts), dels = 0, turns = 0, full = 0, busy = 0, images = 0, gets = 0,
		 held[2] = { 0 };

	for (unsigned i = 0; i < h->s->o.writers; i++) {
		puts += h->writer[i].puts;
		dels += h->writer[i].dels;
		turns += h->writer[i].turns;
		full += h->writer[i].full;
		busy += h->writer[i].busy;
		images += h->writer[i].forged;
	}
	for (unsigned i = 0; i < h->s->o.locals; i++) {
		gets += h->local[i].gets;
		held[0] += h->local[i].held[0];
		held[1] += h->local[i].held[1];
	}
	printf("%.1f s: puts %" PRIu64 ", dels %" PRIu64 ", turns %" PRIu64
	       ", waits: no memory %" PRIu64 ", too much deferred %" PRIu64
	       ", images in values %" PRIu64 "\n",
	       seconds, puts, dels, turns, full, busy, images);
	printf("blocks %" PRIu64 ", reused %" PRIu64 ", across older cuts %" PRIu64
	       "; segments %" PRIu64 ", reused %" PRIu64 "; frees %" PRIu64 "\n",
	       p->blocks, p->blocks_reused, p->recut, p->segments, p->segments_reused, p->now);
	printf("local: gets %" PRIu64 "; held: in use %" PRIu64 ", retired %" PRIu64 "\n", gets,
	       held[0], held[1]);
	printf("remote: processes %" PRIu64 ", sessions %" PRIu64 ", gets %" PRIu64
	       ", found %" PRIu64 "; held: in use %" PRIu64 ", retired %" PRIu64
	       "; segments: in use %" PRIu64 ", retired %" PRIu64 "; fenced %" PRIu64
	       "; lives compared %" PRIu64 ", unsure %" PRIu64 "\n",
	       h->s->forks, SUM(sessions), SUM(gets), SUM(found), SUM(held[0]), SUM(held[1]),
	       SUM(held_segments[0]), SUM(held_segments[1]), SUM(fenced), SUM(blocks), SUM(unsure));
	printf("remote: READs %" PRIu64 ", obsolete %" PRIu64 ", checksum %" PRIu64
	       ", directory %" PRIu64 ", asked %" PRIu64 ", reconnects %" PRIu64 "; hints %" PRIu64
	       ", good %" PRIu64 ", gone %" PRIu64 ", asked back %" PRIu64 "\n",
	       SUM(reads), SUM(obsolete), SUM(checksum), SUM(directory), SUM(asked),
	       SUM(reconnects), SUM(hints), SUM(hints_good), SUM(hints_gone), SUM(hints_asked));
	printf("disturbed: in sections: pauses %" PRIu64 ", stops %" PRIu64 ", kills %" PRIu64
	       "; anywhere: stops %" PRIu64 ", kills %" PRIu64 "\n",
	       SUM(pauses), SUM(stops), SUM(kills), h->s->stops, h->s->kills);
}

/* Whether the segments that the keys begin in can not hold all of them. */
static bool segments_split(const struct options *o)
{
	return o->keys > (64u >> KEYS_PREFIX_BITS) * SEGMENT_BUCKETS * BUCKET_SLOTS;
}

/* Everybody has gone: what was retired comes back. */
static void check_memory(struct home *h)
{
	struct store *store = &h->server.server.store;
	struct memory_stats m;

	state_released(h->m, store);
	memory_stats_get(store->memory, &m);
	printf("memory: exhausted blocks %" PRIu64 ", segments %" PRIu64 ", slabs dead %" PRIu64
	       "; extents released %" PRIu64 "\n",
	       m.blocks_exhausted, m.segments_exhausted, m.slabs_dead, m.extents_released);
	if (h->s->o.used_up &&
	    (!m.blocks_exhausted || (segments_split(&h->s->o) && !m.segments_exhausted)))
		model_wrong(h->m, WRONG_STATE, MODEL_NO_KEY,
			    "no address has come to the end of its incarnations");
}

static uint64_t held_locally(const struct home *h)
{
	uint64_t held = 0;

	for (unsigned i = 0; i < h->s->o.locals; i++)
		held += h->local[i].held[1];
	return held;
}

/* Returns what the run is for and has not happened yet under the readers' eyes, or NULL. */
static const char *not_met(struct home *h)
{
	const struct options *o = &h->s->o;
	const struct pipe *p = h->s->pipe;

	if (!p->blocks_reused)
		return "block was used again";
	if (o->gets)
		return NULL;
	if (segments_split(o) && !p->segments_reused)
		return "segment was used again";
	if (o->locals && !held_locally(h))
		return "local reader held a block that was retired";
	if (o->readers && !SUM_OF(ROLE_INDEX, held[1]))
		return "reader by the index held a block that was retired";
	if (o->readers && segments_split(o) && !SUM_OF(ROLE_INDEX, held_segments[1]))
		return "reader by the index held a segment that was retired";
	if (o->readers && !SUM_OF(ROLE_INDEX, blocks))
		return "READ was compared with what its bucket had named";
	if (o->readers && !(SUM(stops) + h->s->stops))
		return "reader was stopped";
	if (o->hinters && !SUM(hints_good))
		return "hint led to a block";
	return NULL;
}

static void check_met(struct home *h)
{
	const char *what = not_met(h);

	if (what)
		model_wrong(h->m, WRONG_STATE, MODEL_NO_KEY,
			    "the run was for nothing: no %s (a machine that is too slow? give more "
			    "--seconds)",
			    what);
}

/* The first keys stand in the table before anyone reads. */
static void wait_ready(struct home *h)
{
	uint64_t end = time_now_ns() + READY_S * NS_PER_S;

	for (uint32_t k = 0; k < h->s->o.hot; k++) {
		while (!atomic_load(&h->m->key[h->s->key[k]].done) && !home_tick(h, LOOK_MS)) {
			if (time_now_ns() >= end) {
				model_wrong(h->m, WRONG_ERROR, h->s->key[k], "nobody wrote it");
				return;
			}
		}
	}
}

/* At @end_ns, or as much later as a slow machine needs for what the run is for. */
static bool is_over(struct home *h, uint64_t end_ns)
{
	const uint64_t now_ns = time_now_ns();

	if (h->s->o.gets && atomic_load(&h->s->counted) >= h->s->o.gets)
		return true;
	return now_ns >= end_ns && (now_ns >= end_ns + MET_S * NS_PER_S || !not_met(h));
}

/*
 * Returns whether the nursery has ended; without WNOHANG in @flags it waits for that. It ends when
 * it is told to: where it died before, its readers died with it, and the run is for nothing.
 */
static bool nursery_ended(struct home *h, int flags)
{
	int status = 0;
	pid_t pid;

	do {
		pid = waitpid(-1, &status, flags);
	} while (pid < 0 && errno == EINTR);
	if (pid > 0 && (status || !shared_ended(h->s)))
		model_wrong(h->m, WRONG_ERROR, MODEL_NO_KEY, "the nursery died, wait status 0x%x",
			    (unsigned)status);
	return pid != 0;
}

int torture_run(struct home *h)
{
	uint64_t start = time_now_ns(), end = start + h->s->o.seconds * NS_PER_S;
	int rc = keys_choose(h->s, h->server.server.store.hash_seed);

	if (rc == 0)
		rc = writers_start(h);
	if (rc == 0)
		rc = locals_start(h);
	if (rc == 0) {
		wait_ready(h);
		atomic_store(&h->s->go, true);
		while (!home_tick(h, LOOK_MS) && !nursery_ended(h, WNOHANG) && !is_over(h, end))
			;
	}
	if (h->s->o.gets)
		printf("%" PRIu64 " look-ups in sections in %.1f s\n", h->s->counted,
		       (double)(time_now_ns() - start) / 1e9);
	if (h->s->o.gets && h->s->counted < h->s->o.gets && !atomic_load(&h->m->any_wrong))
		model_wrong(h->m, WRONG_STATE, MODEL_NO_KEY,
			    "there were to be %" PRIu64 " (give more --seconds)", h->s->o.gets);
	atomic_store(&h->s->end, true);
	nursery_ended(h, 0);
	locals_stop(h);
	writers_stop(h);
	report(h, (double)(time_now_ns() - start) / 1e9);
	if (rc == 0 && !atomic_load(&h->m->any_wrong)) {
		check_memory(h);
		check_met(h);
	}
	return rc;
}
