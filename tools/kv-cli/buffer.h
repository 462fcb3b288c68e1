/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A growing run of bytes with a limit. One thread at a time; freed by buffer_free(). */
#include <stddef.h>

struct buffer {
	char *data; /* NULL before the first byte */
	size_t len, cap;
	size_t max; /* 0: no limit */
};

/* buffer_reserve - room for @more bytes after len. Returns 0, -E2BIG (beyond max) or -ENOMEM. */
int buffer_reserve(struct buffer *b, size_t more);

/* buffer_append - returns 0, -E2BIG or -ENOMEM, then nothing was added. */
int buffer_append(struct buffer *b, const void *data, size_t len);

/* buffer_free - the memory goes, the limit stays. */
void buffer_free(struct buffer *b);
