/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int buffer_reserve(struct buffer *b, size_t more)
{
	size_t need = b->len + more, cap = b->cap ? b->cap : 4096;
	char *grown;

	if (need < more || (b->max && need > b->max))
		return -E2BIG;
	if (b->data && need <= b->cap)
		return 0;
	while (cap < need)
		cap += cap / 2;
	grown = realloc(b->data, cap);
	if (!grown)
		return -ENOMEM;
	b->data = grown;
	b->cap = cap;
	return 0;
}

int buffer_append(struct buffer *b, const void *data, size_t len)
{
	int rc = buffer_reserve(b, len);

	if (rc)
		return rc;
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	return 0;
}

void buffer_free(struct buffer *b)
{
	free(b->data);
	b->data = NULL;
	b->len = b->cap = 0;
}
