/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The log's other holders. A batch is sent to them before it is written to the disk, so that both
 * go on at once, and is committed when the disk and each mirror that must hold it do. The next
 * batch is begun after that: what comes meanwhile goes with it, as it does while a disk syncs.
 *
 * The writer waits here for other machines, and for nothing else: whoever decides which of them
 * must hold the log (another thread) ends the wait, since held() asks again each time. A mirror
 * that need not hold it, and is slow, keeps buffers; there is one more than the writer needs, and
 * who lets a mirror keep all of them stops the log.
 *
 * held() grows no further than what was sent, and may fall, or be less than what is committed,
 * where one that lacks something becomes one that must hold it: nothing more is committed then
 * until it has caught up. What was committed stays so: log_raise() lowers nothing.
 */
#include "common/base/time.h"
#include "server/log/log_internal.h"

bool holders_buffer(struct log *l)
{
	const struct log_mirror *m = l->config.mirror;

	if (!m)
		return true;
	while (!log_has_failed(l)) {
		for (unsigned i = 0; i < LOG_BUFFERS; i++) {
			if (!m->is_free(m->ctx, i))
				continue;
			l->batch = l->buffers + i * BATCH_BYTES_MAX;
			return true;
		}
		time_give_way();
	}
	return false;
}

static void send(struct log *l, struct log_sent *s)
{
	const struct log_mirror *m = l->config.mirror;

	s->committed = l->told = log_committed(l);
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

void holders_await(struct log *l, uint64_t end)
{
	const struct log_mirror *m = l->config.mirror;

	if (!m)
		return;
	while (m->held(m->ctx) < end) {
		if (log_has_failed(l))
			return;
		time_give_way();
	}
	/* Not all that held() says: who must hold what comes next, it will say then.
	 * relaxed: see committed_by() */
	atomic_store_explicit(&l->held, end, memory_order_relaxed);
	log_raise(l, 0, 0);
}

void holders_tell(struct log *l)
{
	struct log_sent s = { .position = l->taken, .buffer = LOG_BUFFERS };

	if (l->config.mirror && l->told != log_committed(l))
		send(l, &s);
}
