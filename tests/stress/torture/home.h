/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The process that holds the server: its writers and its local readers. */
#include "tests/stress/member.h"
#include "tests/stress/state.h"
#include "tests/stress/torture/torture.h"
#include "tools/lib/server_thread.h"

struct home;

struct writer {
	struct home *home;
	struct member member;
	uint32_t frontier; /* how many of its keys are in use */
	bool shrinks; /* on its way to few keys, or to many */
	unsigned forges; /* large values put and deleted */
	/* Counts: relaxed. */
	_Atomic uint64_t puts, dels, turns; /* of growing into shrinking, or back */
	_Atomic uint64_t full, busy; /* waits for memory to be given back, -ENOMEM and -EBUSY */
	_Atomic uint64_t forged; /* blocks inside of values */
};

struct local {
	struct home *home;
	struct member member;
	_Atomic uint64_t gets;
	_Atomic uint64_t held[2]; /* blocks looked at before the quiescent state: by stage */
};

struct home {
	struct shared *s;
	struct model *m;
	struct server_thread server;
	struct used_up used_up;
	_Atomic bool end;
	struct writer writer[MODEL_WRITERS];
	struct local local[LOCALS_MAX];
	unsigned writers, locals; /* that were started */
};

/* Start threads; 0 or a negative errno. They end with home.end, and are joined by *_stop(). */
int writers_start(struct home *h);
void writers_stop(struct home *h);
int locals_start(struct home *h);
void locals_stop(struct home *h);
