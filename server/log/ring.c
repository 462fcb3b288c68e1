/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The ring: what was appended and is not yet in a batch. The byte of position P stands at P modulo
 * the ring's length. The same memory is mapped twice, one mapping behind the other, so that a
 * record that passes the end is in one piece.
 *
 * 1. The appender takes room in memory, then room on disk, then its position. Room in memory is at
 *    most what the writer gave back, so a position's bytes are free: positions drawn are at most
 *    what was taken in all. The giving back is a release, the taking an acquire; an appender whose
 *    position lies behind that of one that took later room learns of it through `tail`, which both
 *    change.
 * 2. The word at offset 8 of a record, its length with key_len, kind and handle, is 0 until the
 *    record is filled: all bytes of the ring are 0 when their room is given back. It is never 0 in
 *    a filled one, since length is not.
 * 3. The writer looks at it only below `tail`, takes whole records in order of position, copies
 *    them, zeroes them, and gives their room back.
 * 4. Any record is taken only where the longest one would be. Otherwise short ones, which find room
 *    again as soon as a few of them were written, would keep it from ever being enough for long
 *    ones.
 * An appender waits for nobody. The writer waits for the one whose record is the next.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/hash.h"
#include "server/log/log_internal.h"

#define RING_BYTES (64ull << 20)

#define WORD_OFFSET offsetof(struct log_record, length)

/* Bytes 8 to 15 of a record. */
union head {
	uint64_t word;
	struct {
		uint32_t length;
		uint16_t key_len;
		uint8_t kind;
		uint8_t handle;
	};
};

static_assert(WORD_OFFSET == 8 && sizeof(union head) == 8, "one word is published");

static struct log_record *record_at(const struct log *l, uint64_t position)
{
	return (struct log_record *)(l->ring + position % l->ring_bytes);
}

static _Atomic uint64_t *head_at(const struct log *l, uint64_t position)
{
	return (_Atomic uint64_t *)((uint8_t *)record_at(l, position) + WORD_OFFSET);
}

static int map_twice(struct log_memory *m, int fd)
{
	uint8_t *base =
		mmap(NULL, 2 * m->ring_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (base == MAP_FAILED)
		return -errno;
	for (unsigned i = 0; i < 2; i++) {
		/* The faults are taken here, not by those who append. */
		if (mmap(base + i * m->ring_bytes, m->ring_bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) == MAP_FAILED) {
			int rc = -errno;

			munmap(base, 2 * m->ring_bytes);
			return rc;
		}
	}
	m->ring = base;
	return 0;
}

static int no_memory(uint64_t bytes, int rc, struct error *err)
{
	return error_set(err, rc,
			 "taking %llu MiB of memory for the log failed: %s (give the server more "
			 "memory)",
			 (unsigned long long)(bytes >> 20), error_name(rc));
}

int log_memory_take(struct log_memory *out, uint64_t ring_bytes, struct error *err)
{
	autoclose int fd = -1;
	int rc = 0;

	*out = (struct log_memory){ .ring_bytes = ring_bytes ? ring_bytes : RING_BYTES };
	if (out->ring_bytes <= 2ull * LOG_RECORD_MAX ||
	    out->ring_bytes % (size_t)sysconf(_SC_PAGESIZE))
		return error_set(err, -EINVAL,
				 "the log's ring of %llu bytes is too small or no multiple of the "
				 "page (it must exceed %u)",
				 (unsigned long long)out->ring_bytes, 2 * LOG_RECORD_MAX);
	fd = memfd_create("gracekv-log", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)out->ring_bytes))
		rc = -errno;
	if (!rc)
		rc = map_twice(out, fd);
	return rc ? no_memory(out->ring_bytes, rc, err) : 0;
}

void log_memory_free(struct log_memory *m)
{
	if (m->ring)
		munmap(m->ring, 2 * m->ring_bytes);
	*m = (struct log_memory){ 0 };
}

/* Those that no mirror needs are addresses, and no memory. */
static int map_buffers(struct log *l)
{
	l->buffers = mmap(NULL, BUFFERS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	if (l->buffers == MAP_FAILED) {
		l->buffers = NULL;
		return -errno;
	}
	l->batch = l->buffers;
	return l->config.mirror
		       ? l->config.mirror->memory(l->config.mirror->ctx, l->buffers, BUFFERS_BYTES)
		       : 0;
}

int ring_open(struct log *l, struct error *err)
{
	struct log_memory own = { 0 }, *m = l->config.memory ? l->config.memory : &own;
	int rc = m->ring ? 0 : log_memory_take(m, l->config.ring_bytes, err);

	if (rc)
		return rc;
	l->ring = m->ring;
	l->ring_bytes = m->ring_bytes;
	*m = (struct log_memory){ 0 };
	rc = map_buffers(l);
	if (rc)
		return no_memory(BUFFERS_BYTES, rc, err);
	atomic_store_explicit(&l->ring_room, (int64_t)l->ring_bytes, memory_order_relaxed);
	return 0;
}

void ring_close(struct log *l)
{
	if (l->ring)
		munmap(l->ring, 2 * l->ring_bytes);
	if (!l->buffers)
		return;
	if (l->config.mirror)
		l->config.mirror->memory(l->config.mirror->ctx, NULL, 0);
	munmap(l->buffers, BUFFERS_BYTES);
}

/* All or nothing, and nothing below @least, which is @bytes or more. It may fail where another one
 * that fails has just taken too much. */
static bool take(_Atomic int64_t *room, int64_t bytes, int64_t least)
{
	/* relaxed: a guess, that spares the others our failing */
	if (atomic_load_explicit(room, memory_order_relaxed) < least)
		return false;
	/* acquire: pairs with ring_take(), the bytes are zero */
	if (atomic_fetch_sub_explicit(room, bytes, memory_order_acquire) >= least)
		return true;
	/* relaxed: nothing was done with it. It goes on what a release began. */
	atomic_fetch_add_explicit(room, bytes, memory_order_relaxed);
	return false;
}

static int refused(_Atomic uint64_t *count, int rc)
{
	atomic_fetch_add_explicit(count, 1, memory_order_relaxed); /* a figure */
	return rc;
}

void log_refuse(struct log *l, bool refuse)
{
	atomic_store_explicit(&l->refuses, refuse, memory_order_relaxed);
}

int log_append_begin(struct log *l, uint32_t key_len, uint32_t value_len, struct log_place *out)
{
	const uint32_t length = log_record_length(key_len, value_len);

	if (log_has_failed(l))
		return -EIO;
	if (atomic_load_explicit(&l->refuses, memory_order_relaxed)) /* soon is early enough */
		return -EROFS;
	if (!take(&l->ring_room, length, LOG_RECORD_MAX))
		return refused(&l->refused_busy, -EBUSY);
	if (!take(&l->disk_room, (int64_t)log_batch_bytes(length),
		  (int64_t)log_batch_bytes(LOG_RECORD_MAX))) {
		/* relaxed: as in take() */
		atomic_fetch_add_explicit(&l->ring_room, length, memory_order_relaxed);
		return log_is_full(l) ? refused(&l->refused_space, -ENOSPC)
				      : refused(&l->refused_busy, -EBUSY);
	}
	/*
	 * seq_cst: a snapshot's S0, which is read from it before the oldest positions of the
	 * doors, and log_kick(), which looks at `asleep` after it.
	 */
	out->start = atomic_fetch_add_explicit(&l->tail, length, memory_order_seq_cst);
	out->end = out->start + length;
	return 0;
}

void log_append_end(struct log *l, const struct log_place *at, const struct log_entry *e)
{
	struct log_record *r = record_at(l, at->start);
	const union head head = { .length = (uint32_t)(at->end - at->start),
				  .key_len = (uint16_t)e->key_len,
				  .kind = (uint8_t)e->kind,
				  .handle = e->handle };

	r->position = at->start;
	r->version = e->version;
	r->client[0] = e->client[0];
	r->client[1] = e->client[1];
	r->sequence = e->sequence;
	r->number = e->number;
	r->expiry_ms = e->expiry_ms;
	r->value_len = e->value_len;
	r->slot = e->slot;
	r->body = e->key_len + e->value_len ? e->body : hash_bytes(r->data, 0);
	if (e->key_len)
		memcpy(r->data, e->key, e->key_len);
	if (e->value_len)
		memcpy(r->data + e->key_len, e->value, e->value_len);
	/* release: pairs with ring_look(), which takes the record for filled */
	atomic_store_explicit(head_at(l, at->start), head.word, memory_order_release);
}

bool ring_look(const struct log *l, struct group *out)
{
	/* seq_cst: after `asleep` was raised it must not be missed (log_kick()) */
	const uint64_t tail = atomic_load_explicit(&l->tail, memory_order_seq_cst);

	*out = (struct group){ .position = l->taken };
	while (out->position + out->bytes < tail) {
		/* acquire: pairs with log_append_end() */
		const union head head = { .word = atomic_load_explicit(
						  head_at(l, out->position + out->bytes),
						  memory_order_acquire) };

		if (!head.word || (out->records && out->bytes + head.length > BATCH_RECORDS_BYTES))
			break;
		out->bytes += head.length;
		out->records++;
		out->worst += log_batch_bytes(head.length);
	}
	return out->records;
}

void ring_take(struct log *l, const struct group *g, uint8_t *out)
{
	void *from = record_at(l, g->position);

	memcpy(out, from, g->bytes);
	memset(from, 0, g->bytes);
	l->taken = g->position + g->bytes;
	/* release: pairs with take(), which may use the bytes */
	atomic_fetch_add_explicit(&l->ring_room, g->bytes, memory_order_release);
}
