/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Those who hold the log besides the disk, other servers' memories, as a table of functions. The
 * log's writer calls them, or without a disk whoever has its turn: one at a time. None of them
 * sleeps, or waits for another machine.
 */
#include <stdbool.h>
#include <stdint.h>

#define LOG_BUFFERS 3u /* batches that may be under way */

/* A batch of the log, or, with no records, what is committed. */
struct log_sent {
	uint64_t position; /* of the first record; of none: the next one */
	uint64_t committed;
	uint64_t clock_ms;
	const void *records; /* of @bytes, one behind the other; in buffer @buffer */
	uint32_t bytes, count;
	unsigned buffer; /* LOG_BUFFERS: there are no records */
};

struct log_mirror {
	void *ctx;
	/*
	 * memory - where all records stand that are sent: before the first is. To be registered.
	 * Returns 0 or a negative errno: then log_open() fails. @base NULL: it is about to go;
	 * nothing is sent any more.
	 * send - on its way to all that are to have it. The records stay as they are until the
	 * buffer is free.
	 * held - all below is held by each that must hold it; UINT64_MAX: nobody must. What must
	 * hold it may change at any time; what was committed stays so.
	 * is_free - nothing reads the buffer any more.
	 */
	int (*memory)(void *ctx, void *base, uint64_t bytes);
	void (*send)(void *ctx, const struct log_sent *s);
	uint64_t (*held)(void *ctx);
	bool (*is_free)(void *ctx, unsigned buffer);
};
