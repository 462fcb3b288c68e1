/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A client process: sessions, one after the other, each with all its actors. */
#include "tests/linearizability/client/actor.h"

#define MEMBER_THREADS_MAX 16u

struct member_options {
	const char *server, *device, *folder, *board, *role;
	uint64_t seed, process, threads, pace_us;
};

/* member_run - until the board says stop. Returns the exit status. */
int member_run(const struct member_options *o, struct board *board);

/* member_session - with the server, tried until it is there; NULL: the board says stop. */
struct gkv_session *member_session(const struct member_options *o, struct board *board,
				   struct gkv_options *session);

/* ballast_grow, ballast_press - the same for those who fill index or memory when they are asked. */
int ballast_grow(const struct member_options *o, struct board *board);
int ballast_press(const struct member_options *o, struct board *board);
