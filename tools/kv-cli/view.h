/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The page of stats --watch: what stands where on it. One thread. */
#include "tools/kv-cli/frame.h"
#include "tools/kv-cli/stats_table.h"

/* What is shown besides the figures. */
struct view {
	const char *server; /* HOST:PORT */
	const char *device; /* the server's, as it is called there */
	bool software; /* that is no hardware: it is said with the figures */
	const char *status; /* a line of words, or "" */
};

/*
 * view_draw - all lines of the page that @f has room for, the most important ones first: on a
 * screen of 24 rows and 80 columns all of them but for sessions and sizes of blocks beyond the
 * first. Figures that the server does not tell are "-". Returns 0 or -ENOMEM.
 */
int view_draw(struct frame *f, const struct view *v, const struct stats_table *t);
