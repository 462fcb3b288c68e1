/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the servers of a group say, put together: those that were named, and those they name. */
#include <jansson.h>

#include "tools/kv-cluster/ask.h"

#define SERVERS_MAX 16u

struct overview {
	unsigned count;
	struct view view[SERVERS_MAX]; /* one for each server, however it was called */
	const struct view
		*newest; /* with the latest term, the primary's first; NULL: nobody knows */
	const struct view *primary; /* that answers clients, in that term; NULL: there is none */
};

/*
 * overview_take - ask @servers, "HOST:PORT,...", and who they name. Returns 0; -EINVAL with @err:
 * it is no such list, or too long.
 * overview_find - the server @node; NULL: it has not answered.
 * overview_role - in a word, of the member @m, or of the server that @v is; either may be NULL.
 */
int overview_take(struct overview *o, const char *servers, const char *group, uint64_t timeout_ms,
		  struct error *err);
const struct view *overview_find(const struct overview *o, const char *node);
const char *overview_role(const struct overview *o, const struct wire_group_member *m,
			  const struct view *v);

/* overview_print - for people. overview_json - for programs, into @doc; -ENOMEM. */
void overview_print(const struct overview *o);
int overview_json(const struct overview *o, json_t *doc);
