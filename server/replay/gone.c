/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/replay/gone.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

struct grave {
	uint64_t version;
	uint32_t key_len;
	const void *key; /* behind it, or of who looks for it */
	uint8_t bytes[];
};

static int compare(const void *a, const void *b)
{
	const struct grave *x = a, *y = b;

	if (x->key_len != y->key_len)
		return x->key_len < y->key_len ? -1 : 1;
	return memcmp(x->key, y->key, x->key_len);
}

static struct grave *find(const struct gone *g, const void *key, uint32_t key_len)
{
	const struct grave wanted = { .key = key, .key_len = key_len };
	struct grave *const *at = tfind(&wanted, &g->tree, compare);

	return at ? *at : NULL;
}

int gone_add(struct gone *g, const void *key, uint32_t key_len, uint64_t version)
{
	struct grave *v = find(g, key, key_len);

	if (v) {
		v->version = version > v->version ? version : v->version;
		return 0;
	}
	v = malloc(sizeof(*v) + key_len);
	if (!v)
		return -ENOMEM;
	v->version = version;
	v->key_len = key_len;
	v->key = v->bytes;
	memcpy(v->bytes, key, key_len);
	if (!tsearch(v, &g->tree, compare)) {
		free(v);
		return -ENOMEM;
	}
	return 0;
}

bool gone_since(const struct gone *g, const void *key, uint32_t key_len, uint64_t version)
{
	const struct grave *v = find(g, key, key_len);

	return v && v->version >= version;
}

void gone_free(struct gone *g)
{
	tdestroy(g->tree, free);
	g->tree = NULL;
}
