/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Zeroes ahead of the writer. A block that was reserved and never written is more to the file
 * system than its data: that it is written now has to be durable too, which in ext4 and XFS is a
 * commit of the journal. Where a batch is one block that is most of its sync. So the keeper writes
 * zeroes a little ahead, in pieces of which each costs one such commit for hundreds of batches. It
 * does so where the disk was seen to gain by it (io.h), for logs that sync each batch, and while
 * batches are small: of large ones the commit is a small part.
 *
 * THE TWO NEVER MEET. Under the lock the writer claims what its next batch covers, before it writes
 * it: `claimed` is that batch's end. The keeper takes a piece that begins at `claimed` or above,
 * and says so in `zeroing`. A batch that reaches into the piece waits for it, which is one write of
 * the keeper's. So no byte is written by both at once, and what the writer has written, or is about
 * to write, is never zeroed.
 *
 * A crash leaves what it left before: behind the last batch the file reads as zeroes, whether any
 * were written or not.
 */
#include <errno.h>
#include <sys/mman.h>

#include "common/base/mutant.h"
#include "server/log/log_internal.h"

#define SMALL_BYTES (64u << 10) /* of a batch */
#define PIECE_BYTES (1u << 20)
#define LEAST_BYTES (1u << 20) /* ahead of the writer: else another piece is due */
#define GAP_BYTES   (128u << 10) /* from the writer to a piece, so that they seldom meet */

static_assert(PIECE_BYTES % LOG_BLOCK == 0 && GAP_BYTES % LOG_BLOCK == 0, "pieces are of blocks");

int ahead_open(struct log *l)
{
	if (!l->io || !l->io->zeroes_pay || l->config.sync != LOG_SYNC_ALWAYS)
		return 0;
	l->zeroes = mmap(NULL, PIECE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (l->zeroes != MAP_FAILED)
		return 0;
	l->zeroes = NULL;
	return -errno;
}

void ahead_close(struct log *l)
{
	if (l->zeroes)
		munmap((void *)(uintptr_t)l->zeroes, PIECE_BYTES);
}

void ahead_begin(struct log *l, uint64_t offset)
{
	l->claimed = l->zeroed = offset;
	l->small = false;
}

/* Under the lock. Where the next piece would begin. */
static uint64_t next_piece(const struct log *l)
{
	uint64_t least = l->claimed + GAP_BYTES;

	if (MUTANT(zero_behind) && l->claimed > 2 * LOG_BLOCK)
		least = l->claimed - LOG_BLOCK;
	return l->zeroed > least ? l->zeroed : least;
}

bool ahead_due(const struct log *l)
{
	return l->small && l->zeroed < l->claimed + LEAST_BYTES &&
	       next_piece(l) < l->current->bytes;
}

bool ahead_busy(const struct log *l)
{
	return l->zeroing.from < l->zeroing.until;
}

void ahead_claim(struct log *l, uint64_t bytes)
{
	const uint64_t until = l->offset + bytes;

	if (!l->zeroes)
		return;
	pthread_mutex_lock(&l->lock);
	while (ahead_busy(l) && until > l->zeroing.from && l->offset < l->zeroing.until)
		pthread_cond_wait(&l->changed, &l->lock);
	l->claimed = until;
	l->small = bytes <= SMALL_BYTES;
	if (ahead_due(l))
		pthread_cond_signal(&l->chores); /* the keeper alone waits there */
	pthread_mutex_unlock(&l->lock);
}

void ahead_fill(struct log *l)
{
	const struct segment *s = l->current; /* stays, while ahead_busy() */
	uint64_t from = next_piece(l), until = from + PIECE_BYTES;
	int rc;

	if (until > s->bytes)
		until = s->bytes;
	l->zeroing.from = from;
	l->zeroing.until = until;
	pthread_mutex_unlock(&l->lock);
	rc = l->io->write(s->file, l->zeroes, until - from, from);
	if (rc)
		log_fail(l, "writing zeroes to", s->name, rc);
	pthread_mutex_lock(&l->lock);
	l->zeroed = until;
	l->zeroing.from = l->zeroing.until = 0;
	pthread_cond_broadcast(&l->changed);
}
