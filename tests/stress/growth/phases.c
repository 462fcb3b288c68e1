/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The phases. In each, writers bring the table to a size while everybody reads, and go on changing
 * keys until every remote reader has read enough of it; then they stand still, and every key is
 * read once more, here and remotely, and what the index says of itself is compared.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "common/base/time.h"
#include "tests/stress/growth/growth.h"

#define LOOK_MS	    10u /* between two looks at the directory */
#define GETS_MIN    1000u /* of a remote reader in a phase */
#define TIDY_S	    10u /* for merges that were put off */
#define SHRINK_LESS 16u /* a table this many times smaller must have a smaller index */

struct phase {
	const char *name;
	uint32_t target;
	bool stay; /* some remote readers stay connected */
};

static void look(struct home *h)
{
	struct index_stats ix;

	index_stats_get(h->server.server.store.index, &ix);
	atomic_store(&h->s->segments, ix.segments);
	watch_segments(h->watch, &h->server.server);
}

/* Let time pass; true: something is wrong, give up waiting. */
static bool tick(struct home *h)
{
	int status;
	pid_t gone = waitpid(-1, &status, WNOHANG);

	if (gone > 0)
		model_wrong(h->m, WRONG_ERROR, MODEL_NO_KEY,
			    "a remote reader, process %d, ended with status %x", (int)gone, status);
	return home_tick(h, LOOK_MS);
}

static uint32_t step_next(struct home *h, enum step step)
{
	uint32_t word = ((atomic_load(&h->s->step) >> 2) + 1) << 2 | step;

	atomic_store(&h->s->step, word);
	return word;
}

/* Until every remote reader is through with the step; after a wrong answer too: they end early. */
static void step_done(struct home *h, uint32_t word)
{
	for (unsigned i = 0; i < h->s->seats; i++) {
		while (atomic_load(&h->s->seat[i].at) != word &&
		       !atomic_load(&h->m->wrong[WRONG_ERROR]))
			tick(h);
	}
}

static bool writers_reached(struct home *h, uint32_t number)
{
	for (unsigned i = 0; i < h->writers; i++) {
		if (atomic_load(&h->writer[i].reached) != number)
			return false;
	}
	return true;
}

static bool remotes_worked(struct home *h)
{
	for (unsigned i = 0; i < h->s->seats; i++) {
		const struct seat *seat = &h->s->seat[i];

		if (atomic_load(&seat->counts.phase_work) <
		    (seat->role == ROLE_SCAN ? 1 : GETS_MIN))
			return false;
	}
	return true;
}

static void writers_pause(struct home *h)
{
	atomic_store(&h->goal.pause, true);
	for (unsigned i = 0; i < h->writers; i++) {
		while (!atomic_load(&h->writer[i].paused))
			tick(h);
	}
}

/* Merges that were put off come when there is memory for them; the writers see to it. */
static void index_tidied(struct home *h)
{
	uint64_t end = time_now_ns() + TIDY_S * NS_PER_S;

	while (store_untidy(&h->server.server.store) && time_now_ns() < end && !tick(h))
		;
}

static uint64_t model_records(const struct model *m)
{
	uint64_t n = 0;

	for (uint32_t k = 0; k < m->keys; k++)
		n += model_lives(m, k);
	return n;
}

static void check_index(struct home *h, const struct index_stats *before,
			const struct index_stats *now, uint32_t target)
{
	uint64_t records = model_records(h->m);

	if (now->records != records)
		model_wrong(h->m, WRONG_STATE, MODEL_NO_KEY,
			    "the index has %" PRIu64 " records, there are %" PRIu64, now->records,
			    records);
	if (h->s->o.slots)
		return; /* of a size that does for all */
	/* The depth may stand one above need after a shrink. */
	if (target > before->slots &&
	    (now->segments <= before->segments || 1u << now->depth < now->segments))
		model_wrong(h->m, WRONG_STATE, MODEL_NO_KEY, "the index did not grow");
	if (target * SHRINK_LESS < before->records && before->segments >= 256 &&
	    (now->segments > before->segments / 2 || now->depth >= before->depth))
		model_wrong(h->m, WRONG_STATE, MODEL_NO_KEY, "the index did not shrink");
}

#define SUM(field) shared_sum(h->s, -1, offsetof(struct seat_counts, field))

static void report(struct home *h, const struct phase *p, uint64_t ns[2],
		   const struct index_stats *before, const struct index_stats *now)
{
	uint64_t puts = 0, dels = 0, reused = 0, grown = 0, full = 0, gets = 0;

	for (unsigned i = 0; i < h->writers; i++) {
		puts += atomic_load(&h->writer[i].puts);
		dels += atomic_load(&h->writer[i].dels);
		reused += atomic_load(&h->writer[i].reused);
		grown += atomic_load(&h->writer[i].grown);
		full += atomic_load(&h->writer[i].full) + atomic_load(&h->writer[i].busy);
	}
	for (unsigned i = 0; i < h->locals; i++)
		gets += atomic_load(&h->local[i].gets);
	printf("%-7s %9" PRIu64 " records, depth %u -> %u, segments %" PRIu64 " -> %" PRIu64
	       ", overflow buckets %" PRIu64 "; %.1f s, verified in %.1f s\n",
	       p->name, now->records, before->depth, now->depth, before->segments, now->segments,
	       now->overflow_used, (double)ns[0] / 1e9, (double)ns[1] / 1e9);
	printf("        so far: puts %" PRIu64 " (into used blocks %" PRIu64 "), dels %" PRIu64
	       ", waits for growth %" PRIu64 ", for memory %" PRIu64 "; local gets %" PRIu64 "\n",
	       puts, reused, dels, grown, full, gets);
	printf("        remote: sessions %" PRIu64 ", gets %" PRIu64 ", scans %" PRIu64
	       " (over a changing index %" PRIu64 "), READs %" PRIu64 ", obsolete %" PRIu64
	       ", checksum %" PRIu64 ", directory %" PRIu64 ", asked %" PRIu64 "\n",
	       SUM(sessions), SUM(gets), SUM(scans), SUM(scans_changed), SUM(reads), SUM(obsolete),
	       SUM(checksum), SUM(directory), SUM(asked));
	fflush(stdout);
}

static void verify(struct home *h)
{
	uint32_t word;

	atomic_store(&h->s->verify_next, 0);
	word = step_next(h, STEP_VERIFY);
	verify_local(h);
	step_done(h, word);
	if (h->s->seats && atomic_load(&h->s->verify_next) < h->m->keys &&
	    !atomic_load(&h->m->any_wrong))
		model_wrong(h->m, WRONG_ERROR, MODEL_NO_KEY, "not every key was read remotely");
}

static void run(struct home *h, const struct phase *p)
{
	uint32_t number = atomic_load(&h->goal.number) + 1;
	uint64_t start = time_now_ns(), ns[2];
	struct index_stats before, now;

	index_stats_get(h->server.server.store.index, &before);
	atomic_fetch_add(&h->m->phase, 1);
	for (unsigned i = 0; i < h->s->seats; i++)
		atomic_store(&h->s->seat[i].counts.phase_work, 0);
	atomic_store(&h->s->stay, p->stay);
	atomic_store(&h->goal.target, p->target);
	atomic_store(&h->goal.number, number);
	atomic_store(&h->goal.pause, false);
	step_next(h, STEP_RUN);
	while (!tick(h) && !(writers_reached(h, number) && remotes_worked(h)))
		look(h);
	step_done(h, step_next(h, STEP_IDLE));
	writers_pause(h);
	index_tidied(h);
	look(h);
	ns[0] = time_now_ns() - start;
	if (!atomic_load(&h->m->any_wrong))
		verify(h);
	index_stats_get(h->server.server.store.index, &now);
	if (!atomic_load(&h->m->any_wrong))
		check_index(h, &before, &now, p->target);
	ns[1] = time_now_ns() - start - ns[0];
	report(h, p, ns, &before, &now);
}

/* Everybody has gone: what was retired comes back, and only what lives is in use. */
static void check_memory(struct home *h)
{
	struct store *store = &h->server.server.store;
	bool released = state_released(h->m, store);
	uint64_t used = 0, records = model_records(h->m);
	struct reclaim_stats r;
	struct memory_stats m;

	reclaim_stats_get(store->reclaim, &r);
	memory_stats_get(store->memory, &m);
	for (unsigned c = 0; c < m.classes; c++)
		used += m.class[c].blocks_used;
	printf("memory: retired %" PRIu64 ", freed %" PRIu64 ", lost %" PRIu64
	       "; blocks in use %" PRIu64 ", exhausted %" PRIu64 ", slabs dead %" PRIu64
	       ", segments exhausted %" PRIu64 "\n",
	       r.retired, r.freed, r.lost, used, m.blocks_exhausted, m.slabs_dead,
	       m.segments_exhausted);
	if (released && used != records)
		model_wrong(h->m, WRONG_STATE, MODEL_NO_KEY,
			    "%" PRIu64 " blocks are in use for %" PRIu64 " records", used, records);
	if (h->s->o.used_up && (!m.blocks_exhausted || (!h->s->o.slots && !m.segments_exhausted)))
		model_wrong(h->m, WRONG_STATE, MODEL_NO_KEY,
			    "no address has come to the end of its incarnations");
}

static void check_reuse(struct home *h)
{
	struct watch_counts w;

	watch_counts_get(h->watch, &w);
	printf("addresses: blocks %" PRIu64 ", reused %" PRIu64 " times, highest incarnation %u; "
	       "segments %" PRIu64 ", reused %" PRIu64 " times, highest incarnation %u\n",
	       w.blocks, w.blocks_reused, w.block_incarnation, w.segments, w.segments_reused,
	       w.segment_incarnation);
	if (!w.blocks_reused)
		model_wrong(h->m, WRONG_STATE, MODEL_NO_KEY, "no block was ever used again");
	if (!h->s->o.slots && h->s->o.rounds && !w.segments_reused)
		model_wrong(h->m, WRONG_STATE, MODEL_NO_KEY, "no segment was ever used again");
}

/* What the run was for has happened under the readers' eyes. */
static void check_readers(struct home *h)
{
	const struct options *o = &h->s->o;

	if (!o->slots && o->rounds && o->remotes && !SUM(directory))
		model_wrong(h->m, WRONG_STATE, MODEL_NO_KEY,
			    "no remote reader ever met a segment that had been replaced");
	if (!o->slots && o->rounds && o->remotes > 2 && !SUM(scans_changed))
		model_wrong(h->m, WRONG_STATE, MODEL_NO_KEY,
			    "no scan came to its end over an index that changed");
}

static void remotes_end(struct home *h)
{
	step_next(h, STEP_END);
	for (unsigned i = 0; i < h->s->seats; i++) {
		int status;

		if (waitpid(-1, &status, 0) > 0 && status)
			model_wrong(h->m, WRONG_ERROR, MODEL_NO_KEY,
				    "a remote reader ended with status %x", status);
	}
}

int growth_run(struct home *h)
{
	const struct options *o = &h->s->o;
	uint32_t keys = (uint32_t)o->keys, keep = (uint32_t)o->keep;
	const struct phase first = { "fill", keep, true }, last = { "empty", 0, false };
	const struct phase phase[] = {
		{ "grow", keys, true },
		{ "shrink", keep, false },
		{ "grow", keys, false },
		{ "shrink", keep, true },
	};
	int rc;

	h->watch = watch_create(h->m);
	if (!h->watch)
		return -ENOMEM;
	look(h);
	rc = writers_start(h);
	if (rc == 0)
		rc = locals_start(h);
	if (rc == 0)
		run(h, &first);
	for (uint64_t i = 0; rc == 0 && i < o->rounds && !atomic_load(&h->m->any_wrong); i++)
		run(h, &phase[i % 4]);
	if (rc == 0 && !atomic_load(&h->m->any_wrong))
		run(h, &last);
	remotes_end(h);
	locals_stop(h);
	writers_stop(h);
	if (rc == 0 && !atomic_load(&h->m->any_wrong)) {
		check_memory(h);
		check_reuse(h);
		check_readers(h);
	}
	watch_destroy(h->watch);
	return rc;
}
