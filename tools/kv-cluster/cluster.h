/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The commands of kv-cluster, and what they share. One thread. */
#include <stdbool.h>

#include "tools/kv-cluster/overview.h"
#include "tools/lib/program.h"

enum cluster_exit {
	CLUSTER_GOOD = 0,
	CLUSTER_NO = 1, /* no primary answers clients; or the change was refused */
	CLUSTER_USAGE = 2,
	CLUSTER_FAILED = 3,
};

struct cluster {
	const struct program *program;
	const char *servers, *group; /* group "": whichever the servers are of */
	uint64_t timeout_ms, interval_ms; /* timeout_ms 0: not given */
	const char *node; /* operand; "": none was given */
	const char *confirm; /* --confirm, or NULL */
	bool yes, stopped, json;
};

/* Each returns enum cluster_exit, and has printed what there is to say. */
int cmd_status(const struct cluster *c);
int cmd_watch(const struct cluster *c);
int cmd_switch(const struct cluster *c);
int cmd_remove(const struct cluster *c);
int cmd_force(const struct cluster *c);

/*
 * Both return 0, or the exit status, and what is wrong was said.
 * cluster_take - what @servers say now, if any of them says anything.
 * cluster_look - what the servers that were given say now; nobody says anything: CLUSTER_FAILED.
 */
int cluster_take(const struct cluster *c, const char *servers, struct overview *out);
int cluster_look(const struct cluster *c, struct overview *out);
