/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-inspect/findings.h"

#include <stdlib.h>

const char *finding_name(enum finding_kind kind)
{
	static const char *const names[FINDING_KINDS] = {
		"root",	  "epoch", "extent", "directory", "entry",  "bucket", "link",
		"orphan", "slot",  "state",  "block",	  "record", "twice",
	};

	return kind < FINDING_KINDS ? names[kind] : "?";
}

void findings_add(struct findings *l, const struct finding *f)
{
	if (l->count == l->room && l->room < FINDINGS_MAX) {
		size_t room = l->room ? 2 * l->room : 64;
		struct finding *grown = realloc(l->list, room * sizeof(*grown));

		if (grown) {
			l->list = grown;
			l->room = room;
		}
	}
	if (l->count == l->room) {
		l->more++;
		return;
	}
	l->list[l->count++] = *f;
}

const struct finding *findings_has(const struct findings *l, const struct finding *f)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct finding *g = &l->list[i];

		if (g->kind == f->kind && g->place == f->place && g->word == f->word)
			return g;
	}
	return NULL;
}

void findings_cut(struct findings *l, size_t count)
{
	if (count < l->count)
		l->count = count;
}

void findings_free(struct findings *l)
{
	free(l->list);
	*l = (struct findings){ 0 };
}
