/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * An actor: one thread of a client process, which makes operations and records them. All of it is
 * that thread's; what is shared is the board and the session.
 */
#include <gracekv.h>
#include <stdbool.h>

#include "tests/linearizability/client/board.h"
#include "tests/linearizability/client/recorder.h"
#include "tests/linearizability/client/value.h"
#include "tests/stress/model.h"

#define ACTOR_LANES   8u /* operations in flight */
#define ACTOR_BATCH   8u /* keys of an mget, mput or mdel */
#define ACTOR_KEY_MAX 40u

/* An operation that is going to be made, or is under way. */
struct attempt {
	struct history_record as; /* what is going to be recorded */
	struct history_record *record; /* NULL: not begun */
	uint64_t key_word; /* of the board */
	int64_t delta;
	size_t key_len, len; /* len: of the value that is written */
	char key[ACTOR_KEY_MAX];
	void *place; /* VALUE_BYTES_MAX bytes: what is written, or where it is read to */
};

/* What was last seen of a slot's key. */
struct memory_of {
	uint32_t generation;
	uint64_t version, older;
};

struct actor {
	struct board *board;
	uint32_t process, thread;
	uint64_t random;
	uint64_t sequence; /* values written so far */
	struct recorder recorder;
	struct memory_of seen[BOARD_SLOTS_MAX];

	/* Of the present session. */
	struct gkv *kv; /* with hints */
	struct gkv *plain; /* without */
	struct gkv_memory *memory; /* all that is at `places`; NULL: not registered */
	uint64_t done; /* operations, not told to the board yet */
	uint64_t old_key; /* word of the key that it replaced last, of slot old_slot; 0: none */
	uint32_t old_slot;

	void *places; /* for values, one after the other */
	struct attempt call; /* of the call under way */
	struct attempt batch[ACTOR_BATCH];
	struct attempt flight[ACTOR_LANES]; /* begun: in flight */
	unsigned flights;
};

/* Places at actor.places. */
#define ACTOR_PLACES (1 + ACTOR_BATCH + ACTOR_LANES)

/* actor_create - with its history in @folder. Returns 0 or a negative errno. */
int actor_create(struct actor *a, const char *folder, struct error *err);
void actor_destroy(struct actor *a);

/* actor_below - a random number below @n, which is not 0. */
static inline uint64_t actor_below(struct actor *a, uint64_t n)
{
	return model_random(&a->random) % n;
}

/*
 * actor_step - a few operations. The actor has its handles. actor_finish - before the handles are
 * closed: @drain: what is in flight is waited for. actor_abandon - after that: what was in flight
 * will not be told of any more.
 */
void actor_step(struct actor *a);
void actor_finish(struct actor *a, bool drain);
void actor_abandon(struct actor *a);

/* Parts of a step. */

/* attempt_choose - which operation on which key; @kinds: a mask of 1 << enum history_op. */
#define ATTEMPT_READS  (1u << HISTORY_GET | 1u << HISTORY_EXISTS)
#define ATTEMPT_PUTS   (1u << HISTORY_PUT | 1u << HISTORY_PUT_NEW | 1u << HISTORY_PUT_OLD)
#define ATTEMPT_CAS    (1u << HISTORY_CAS)
#define ATTEMPT_DELS   (1u << HISTORY_DEL | 1u << HISTORY_DEL_IF)
#define ATTEMPT_INCR   (1u << HISTORY_INCR)
#define ATTEMPT_APPEND (1u << HISTORY_APPEND)
#define ATTEMPT_GETDEL (1u << HISTORY_GETDEL)
/* What can be in flight; and all. */
#define ATTEMPT_FLIGHT \
	(ATTEMPT_READS | ATTEMPT_PUTS | ATTEMPT_CAS | ATTEMPT_DELS | ATTEMPT_INCR | ATTEMPT_APPEND)
#define ATTEMPT_ALL (ATTEMPT_FLIGHT | ATTEMPT_GETDEL)
void attempt_choose(struct actor *a, struct attempt *d, uint32_t kinds);

/*
 * attempt_old - a DEL of the key that this actor replaced, or what it leaves stays for ever. Others
 * may be at work with it still. Returns whether there is one.
 */
bool attempt_old(struct actor *a, struct attempt *d);

/* attempt_options - what a put or del of that kind is bound to. */
struct gkv_write_options attempt_options(const struct attempt *d);

/*
 * actor_begins - it is recorded. actor_ends - with what the library returned. @value: what was
 * read, NULL where nothing was. @sum: of an INCR. @why: the library's sentence.
 */
void actor_begins(struct actor *a, struct attempt *d, unsigned way);
void actor_ends(struct actor *a, struct attempt *d, int status, const void *value, size_t len,
		uint64_t version, int64_t sum, const char *why);

/* One call, one batch, operations in flight. */
void call_step(struct actor *a);
void batch_step(struct actor *a);
void flight_step(struct actor *a);
void flight_drain(struct actor *a);
