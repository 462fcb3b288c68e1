/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The process that holds the server, with its writers and local readers; and the two faces of it,
 * the programs stress and torture.
 */
#include "common/base/log.h"
#include "tests/stress/member.h"
#include "tests/stress/shared.h"
#include "tests/stress/state.h"
#include "tools/lib/server_thread.h"

struct home;
struct watch;

/* Where stress's writers are to bring their keys. */
struct goal {
	_Atomic uint32_t number; /* grows; 0: none yet */
	_Atomic uint32_t target; /* keys below it live, those from it on do not */
	_Atomic bool pause; /* stand still once a loop is over */
};

struct writer {
	struct home *home;
	struct member member;
	uint32_t frontier; /* how many of its keys are in use */
	/* Counts: its own to write, relaxed. */
	_Atomic uint64_t puts, dels, reused; /* into blocks that had been used before */
	_Atomic uint64_t grown; /* waits for memory to grow */
	_Atomic uint64_t full, busy; /* for memory to be given back: -ENOMEM and -EBUSY */
	/* Of stress: */
	struct memory_place published; /* the last one */
	uint32_t incarnation;
	_Atomic uint32_t reached; /* goal that it has come to, and goes on changing keys at */
	_Atomic bool paused;
	/* Of torture: */
	bool shrinks; /* on its way to few keys, or to many */
	unsigned forges; /* large values put and deleted */
	_Atomic uint64_t turns; /* of growing into shrinking, or back */
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
	struct watch *watch; /* of stress */
	struct goal goal;
	struct used_up used_up;
	_Atomic bool end; /* of the threads */
	struct writer writer[MODEL_WRITERS];
	struct local local[LOCALS_MAX];
	unsigned writers, locals; /* that were started */
};

struct face {
	const char *name;
	enum log_level level;
	unsigned grace_s; /* for all that comes after --seconds */
	unsigned long_one_in; /* holds of local readers last 20 ms */
	/* options - the command line. Returns 0, or -1: exit with *status. */
	int (*options)(struct options *o, int argc, char **argv, int *status);
	/* share - model and seats, with options known. Returns 0 or a negative errno. */
	int (*share)(struct shared *s);
	/* fork - the other processes, while there is one thread and no device. As share(). */
	int (*fork)(struct shared *s);
	/* run - with a server: from an empty table to its end. As share(). */
	int (*run)(struct home *h);
	/* pick - a key to read. */
	uint32_t (*pick)(const struct shared *s, uint64_t *random);
	/* write - all that a writer does, between member_begin() and member_end(). */
	void (*write)(struct writer *w);
	/* published - a put of key @k has just succeeded, in this writer's thread. */
	void (*published)(struct writer *w, uint32_t k, const struct store_result *result);
};

/* home_main - what main() returns. */
int home_main(const struct face *face, int argc, char **argv);

/* home_tick - let @ms pass; true: something is wrong, give up waiting. */
bool home_tick(struct home *h, unsigned ms);

/* Start threads; 0 or a negative errno. They end with home.end, and are joined by *_stop(). */
int writers_start(struct home *h);
void writers_stop(struct home *h);
int locals_start(struct home *h);
void locals_stop(struct home *h);

/* verify_local - read every key once, with nobody writing. The caller is no QSBR reader. */
void verify_local(struct home *h);

/* writer_ended - the run is over, or a wrong answer has ended it. */
bool writer_ended(const struct writer *w);

/* writer_key - the number of the @own-th of its keys. */
uint32_t writer_key(const struct writer *w, uint32_t own);

/* writer_owned - how many of the keys below @limit are its own. */
uint32_t writer_owned(const struct writer *w, uint64_t limit);

/* writer_put, writer_del - key @k, which must live to be deleted. They wait for memory. */
void writer_put(struct writer *w, uint32_t k);
void writer_del(struct writer *w, uint32_t k);

/* writer_change - overwrite, delete (@del) or insert again one of the first @range of its keys. */
void writer_change(struct writer *w, uint32_t range, bool del);

/* writer_approach - one key nearer to @target. Returns false where it is there. */
bool writer_approach(struct writer *w, uint64_t target);
