/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Questions to members of a group (wire_group.h). Each opens a connection of its own, and waits for
 * the answer until its time is over. Any thread. */
#include "common/base/error.h"
#include "common/layout/wire_tcp.h"

#define ADDRESS_MAX 280u

/* What one server says of itself and of its group. */
struct view {
	char server[ADDRESS_MAX]; /* as it was asked: "HOST:PORT" */
	struct error err; /* code 0: it has answered, with what follows */
	struct wire_group_status status;
	struct wire_group_member member[WIRE_GROUP_MEMBERS_MAX];
};

/*
 * ask_status - what @out->server says; out->err if nothing. @group: "": whichever it is of.
 * ask_change - @what of group @group, and of @node; waits until it is done. Returns 0 and what
 * stands now, or a negative errno with @err.
 */
void ask_status(struct view *out, const char *group, uint64_t timeout_ms);
int ask_change(const char *server, enum wire_group_what what, const char *group, const char *node,
	       uint64_t timeout_ms, struct wire_group_done *out, struct error *err);
