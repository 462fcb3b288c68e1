/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The process that holds the server: its writers and local readers, and what they watch.
 */
#include "tests/stress/member.h"
#include "tests/stress/state.h"
#include "tests/stress/stress.h"
#include "tests/stress/watch.h"
#include "tools/lib/server_thread.h"

struct home;

/* Where the writers are to bring their keys. */
struct goal {
	_Atomic uint32_t number; /* grows; 0: none yet */
	_Atomic uint32_t target; /* keys below it live, those from it on do not */
	_Atomic bool pause; /* stand still once a loop is over */
	_Atomic bool end;
};

struct writer {
	struct home *home;
	struct member member;
	uint32_t frontier; /* how many of its keys are in use */
	struct memory_place published; /* the last one */
	uint32_t incarnation;
	_Atomic uint32_t reached; /* goal that it has come to, and goes on changing keys at */
	_Atomic bool paused;
	/* Counts: its own to write, relaxed. */
	_Atomic uint64_t puts, dels, reused; /* into blocks that had been used before */
	_Atomic uint64_t grown; /* waits for memory to grow */
	_Atomic uint64_t full; /* waits for memory to be given back */
};

struct local {
	struct home *home;
	struct member member;
	_Atomic uint64_t gets, found;
};

struct home {
	struct shared *s;
	struct model *m;
	struct server_thread server;
	struct watch *watch;
	struct goal goal;
	struct used_up used_up;
	struct writer writer[MODEL_WRITERS];
	struct local local[LOCALS_MAX];
	unsigned writers, locals; /* that were started */
};

/* Start threads; 0 or a negative errno. They end with goal.end, and are joined by *_stop(). */
int writers_start(struct home *h);
void writers_stop(struct home *h);
int locals_start(struct home *h);
void locals_stop(struct home *h);

/* verify_local - read every key once, with nobody writing. The caller is no QSBR reader. */
void verify_local(struct home *h);

/* run_all - the phases, from an empty table to its end. Returns 0 or a negative errno. */
int run_all(struct home *h);
