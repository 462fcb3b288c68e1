/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A log without a disk: whoever waits for it writes it.
 *
 * What a batch waits for then is other machines' memory, for as long as a READ takes. To hand it to
 * a thread of its own, and its end back, takes longer. So what the writer does is cut into steps,
 * none of which waits: send a batch of what has come; or, where one is under way, look whether all
 * that must hold it do, and commit it. Whoever has the turn, a lock, takes a step. Those who wait
 * for the log only try to take it: while another one has it their records are the next batch's.
 *
 * The log's thread is for those who do not look again. It takes the turn as they do, and sleeps
 * while there is nothing to be done.
 *
 * WHAT IS UNDER WAY IS NOT SLEPT OVER. Who appends waits and looks, by log_step(), or kicks; and
 * who stops looking although it waits kicks (log_leave()). Of the last step of one who leaves and
 * the last look of the thread, both under the turn, one came first. If the step did, the look finds
 * what it left under way. If the look did, the thread had said before it that it is about to sleep,
 * so who leaves reads that after its step, and wakes it. Who finds the turn taken has left its
 * records to nobody: it looks again, or leaves, too.
 *
 * WHAT IS COMMITTED IS TOLD with the next batch, and if none comes for a while by who leaves: those
 * who have to wait for that come back. They read `told` and `committed` without the turn, but
 * whoever committed last reads what it stored itself, and leaves after that.
 *
 * A LONG BATCH is the thread's, so that those who answer clients do not copy it meanwhile: they
 * keep away from the turn until it has begun it.
 */
#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/log/log_internal.h"

#define TELL_NS	   (10 * NS_PER_MS)
#define STEP_BYTES (64u << 10) /* of records: longer batches are the thread's */

/* Must have the turn. Whether the batch that is under way is committed, or none was. */
static bool is_committed(struct log *l)
{
	const uint64_t end = l->under_way;

	if (!end)
		return true;
	if (!holders_have(l, end) && !MUTANT(commit_alone))
		return false;
	l->under_way = 0;
	/* relaxed: see at the top, as of `told` */
	atomic_store_explicit(&l->committed_ns, time_now_ns(), memory_order_relaxed);
	return log_raise(l, end, end);
}

/* Must have the turn. */
static void begin(struct log *l, const struct group *g)
{
	ring_take(l, g, l->batch + sizeof(struct log_batch_header));
	holders_send(l, g);
	/* relaxed: a count of bytes; what was taken comes back */
	atomic_fetch_add_explicit(&l->disk_room, (int64_t)g->worst, memory_order_relaxed);
	batch_count(l, g, g->bytes, 0);
	l->under_way = g->position + g->bytes;
}

/* Must have the turn. False: there was nothing to do, or it has to wait. */
static bool step(struct log *l, uint64_t bytes_max)
{
	const uint64_t was = l->under_way;
	struct group g;

	if (log_has_failed(l) || !is_committed(l) || !ring_look(l, &g))
		return was && !l->under_way;
	/* relaxed: who does not see it tries to take a turn more */
	atomic_store_explicit(&l->is_long, g.bytes > bytes_max, memory_order_relaxed);
	if (g.bytes > bytes_max || !holders_buffer(l))
		return was;
	begin(l, &g);
	is_committed(l); /* it may be there already */
	return true;
}

bool turn_take(struct log *l)
{
	bool moved;

	pthread_mutex_lock(&l->turn);
	moved = step(l, UINT64_MAX);
	pthread_mutex_unlock(&l->turn);
	return moved;
}

bool turn_rests(struct log *l)
{
	bool rests;

	pthread_mutex_lock(&l->turn);
	rests = !l->under_way && log_tail(l) == l->taken;
	pthread_mutex_unlock(&l->turn);
	return rests;
}

void turn_tell(struct log *l)
{
	pthread_mutex_lock(&l->turn);
	holders_tell(l);
	pthread_mutex_unlock(&l->turn);
}

bool log_needs_thread(const struct log *l)
{
	return l->io || atomic_load_explicit(&l->is_long, memory_order_relaxed);
}

void log_step(struct log *l)
{
	if (log_needs_thread(l) || pthread_mutex_trylock(&l->turn))
		return;
	step(l, STEP_BYTES);
	pthread_mutex_unlock(&l->turn);
	if (log_needs_thread(l))
		log_kick(l);
}

void log_push(struct log *l)
{
	if (l->io)
		log_kick(l);
	else
		log_step(l);
}

static uint64_t tell_later(struct log *l)
{
	/* relaxed: see at the top, as of `told` */
	const uint64_t since = atomic_load_explicit(&l->committed_ns, memory_order_relaxed);
	const uint64_t now = time_now_ns();

	if (now < since + TELL_NS)
		return since + TELL_NS - now;
	if (pthread_mutex_trylock(&l->turn)) {
		log_kick(l);
		return UINT64_MAX;
	}
	holders_tell(l);
	pthread_mutex_unlock(&l->turn);
	return UINT64_MAX;
}

uint64_t log_leave(struct log *l, bool waits)
{
	if (l->io || MUTANT(leave_quietly))
		return UINT64_MAX;
	if (log_tail(l) == log_committed(l))
		return holders_lag(l) ? tell_later(l) : UINT64_MAX;
	if (waits)
		log_kick(l);
	return UINT64_MAX;
}
