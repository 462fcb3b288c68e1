/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The log's other holders. A batch is sent to them before it is written to the disk, so that both
 * go on at once, and is committed when the disk and each mirror that must hold it do. The next
 * batch is begun after that: what comes meanwhile goes with it, as it does while a disk syncs.
 *
 * With a disk the writer waits for other machines (batch.c); without one nobody does (turn.c).
 * Whoever decides which of them must hold the log (another thread) ends the wait, since held() asks
 * again each time. A mirror that need not hold it, and is slow, keeps buffers; there is one more
 * than the writer needs, and who lets a mirror keep all of them stops the log.
 *
 * held() grows no further than what was sent, and may fall, or be less than what is committed,
 * where one that lacks something becomes one that must hold it: nothing more is committed then
 * until it has caught up. What was committed stays so: log_raise() lowers nothing.
 */
#include "server/log/log_internal.h"

bool holders_buffer(struct log *l)
{
	const struct log_mirror *m = l->config.mirror;

	for (unsigned i = 0; m && i < LOG_BUFFERS; i++) {
		if (!m->is_free(m->ctx, i))
			continue;
		l->batch = l->buffers + i * BATCH_BYTES_MAX;
		return true;
	}
	return !m;
}

static void send(struct log *l, struct log_sent *s)
{
	const struct log_mirror *m = l->config.mirror;

	s->committed = log_committed(l);
	/* relaxed: see turn.c */
	atomic_store_explicit(&l->told, s->committed, memory_order_relaxed);
	s->clock_ms = l->config.clock_ms(l->config.ctx);
	m->send(m->ctx, s);
}

void holders_send(struct log *l, const struct group *g)
{
	struct log_sent s = { .position = g->position,
			      .records = l->batch + sizeof(struct log_batch_header),
			      .bytes = g->bytes,
			      .count = g->records };

	if (!l->config.mirror)
		return;
	s.buffer = (unsigned)((uint64_t)(l->batch - l->buffers) / BATCH_BYTES_MAX);
	send(l, &s);
}

bool holders_have(struct log *l, uint64_t end)
{
	const struct log_mirror *m = l->config.mirror;

	if (m && m->held(m->ctx) < end)
		return false;
	/* Not all that held() says: who must hold what comes next, it will say then.
	 * relaxed: see committed_by() */
	if (m)
		atomic_store_explicit(&l->held, end, memory_order_relaxed);
	return true;
}

bool holders_lag(const struct log *l)
{
	/* relaxed: see turn.c */
	return l->config.mirror &&
	       atomic_load_explicit(&l->told, memory_order_relaxed) != log_committed(l);
}

void holders_tell(struct log *l)
{
	struct log_sent s = { .position = l->taken, .buffer = LOG_BUFFERS };

	if (holders_lag(l))
		send(l, &s);
}
