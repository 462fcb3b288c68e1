/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What the parts of differ share: the model, the operations, and the handles that they go by. One
 * thread does all that counts, so the model is exact.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/include/gracekv.h"
#include "tests/stress/model.h"

#define DIFFER_VALUE_MAX 100000u
#define DIFFER_LINKS	 3u /* sessions */
#define DIFFER_ENDS	 3u /* handles of each */
#define DIFFER_TWINS	 32u /* keys, two and two with one fingerprint and one set of hints */
#define DIFFER_BATCH	 100u
#define DIFFER_PLACES	 8u /* of registered memory, of each session */
#define DIFFER_BEYOND	 16u /* bytes around a place, which nobody may write */
#define DIFFER_FILL	 0xa5
#define DIFFER_PAST	 8u /* values of a key that are remembered */
#define DIFFER_DEEDS	 (1u << 16) /* remembered, a power of two */

struct differ_options {
	uint64_t seed, keys, seconds, weak;
	const char *lie;
};

/* The bytes of a value. */
struct shape {
	uint64_t nonce; /* no two writes have the same */
	uint32_t key;
	uint32_t len;
	bool is_number;
	int64_t number; /* whose decimal text it is */
};

/* What a write that may have been applied, or not, leaves to the model: doubt.c. */
enum doubt { SURE, EITHER, LATER };

/* What the model knows of a key. Times are ms since 1970. */
struct record {
	bool there; /* it was written, and not seen to be gone */
	struct shape shape;
	uint64_t version; /* 0: not told yet, but greater than floor */
	uint64_t floor;
	uint64_t expiry_first, expiry_last; /* it expires between the two; 0: never */
	bool or_never; /* it may be that it never expires */
	struct shape old; /* in the life of the server before; len: UINT32_MAX: none */
	enum doubt doubt; /* it may also be as d->other says; LATER: may become that yet */
	bool flying; /* an operation on it is in flight: the only one on its key */
	uint64_t touched; /* grows with each write */
};

/* The newest values of a key, and those that are on their way: what a scan may find. */
struct past {
	unsigned n; /* all that there were */
	uint64_t deed[DIFFER_PAST];
	struct shape shape[DIFFER_PAST];
};

struct key {
	uint16_t len;
	uint8_t bytes[GKV_KEY_MAX];
};

struct flight;
struct walk;

/* In registered memory: of a get that is in flight, or at rest. */
struct place {
	uint8_t *at; /* with DIFFER_BEYOND bytes before and after it */
	size_t cap; /* the last one's */
	bool taken;
};

/* A handle. */
struct end {
	struct gkv *kv; /* NULL: closed */
	const void *view; /* what its last call was given to look at, or NULL */
	struct shape shape; /* of that */
	unsigned depth, flights;
	struct flight *flight; /* all in flight */
	struct walk *walk; /* a scan in chunks */
};

struct line {
	struct gkv_session *session; /* NULL: closed */
	struct end end[DIFFER_ENDS];
	struct gkv_memory *memory;
	uint8_t *area;
	struct place place[DIFFER_PLACES];
	uint64_t life; /* of the server, the last one that answered it */
};

enum kind { KIND_READ, KIND_PUT, KIND_DEL, KIND_INCR, KIND_TOUCH, KIND_APPEND, KIND_GETDEL };

struct op;

/* One operation on one key: what is asked, then what was answered. */
struct action {
	const struct op *op;
	struct end *end;
	uint32_t key;
	struct shape shape; /* of what is written */
	struct gkv_write_options options;
	int64_t delta; /* of an append: the digit */
	size_t cap;
	uint8_t *place; /* of a get, cap bytes */
	uint64_t floor; /* a version that was told before it began */

	uint64_t before_ms, after_ms; /* the call was made between them, in ms that have passed */
	uint64_t begun_ms; /* of a write: before it, in ms that have begun */
	uint64_t life; /* of the server, when it began */
	bool met; /* that server had answered its session before */
	int status;
	bool has_len, has_version, has_meta, has_bytes, has_sum;
	size_t len;
	uint64_t version; /* also where meta is there */
	struct gkv_meta meta;
	const uint8_t *bytes; /* of the value, the first cap ones */
	int64_t sum;
};

struct differ;

/*
 * An operation on one key has three steps: prepare() chooses, run() calls, and what has come is
 * judged by kind (judge()). The model changes with the last step alone, so that run() can be
 * replaced by gkv_submit() and gkv_poll(), with many actions in flight on different keys
 * (flight.c). Anything else has whole().
 */
struct op {
	const char *name;
	unsigned weight; /* how often, beside the others */
	enum kind kind;
	void (*prepare)(struct differ *d, struct action *a);
	void (*run)(struct differ *d, struct action *a);
	void (*whole)(struct differ *d, struct end *end);
	unsigned flies; /* GKV_OP_... of the same by gkv_submit(); 0: none */
};

struct done {
	uint64_t number, before_ms, after_ms, nonce, version, expiry_ms;
	const char *op;
	uint32_t key, len;
	int status;
	uint8_t link, end;
};

struct differ {
	struct differ_options o;
	uint64_t random;
	struct key *keys;
	struct record *record;
	struct record *other; /* of records in doubt */
	struct past *past;
	unsigned flying, dark; /* keys with an operation in flight; in doubt */
	uint64_t flights; /* that there were */
	uint64_t nonce; /* the last one taken */
	uint64_t life_nonce; /* the last one of the server's life before */
	uint64_t version; /* the greatest that the server told in this life */
	bool twins; /* the first keys were chosen for this life of the server */
	struct line link[DIFFER_LINKS];
	pid_t server;
	unsigned port;
	struct done deed[DIFFER_DEEDS];
	uint64_t deeds; /* operations until now */
	uint8_t *out, *want; /* DIFFER_VALUE_MAX bytes: to write, to compare */
	uint8_t *room; /* DIFFER_BATCH of them: to read into */
	/* what was met */
	uint64_t met[32], sessions, lives, reads, hint_hits, hint_stale;
	uint64_t expired, in_doubt, views, late_ms;
};

/* What each run must meet. */
enum met {
	MET_FOUND,
	MET_NONE,
	MET_CUT,
	MET_EXISTS,
	MET_EXPIRED,
	MET_NO_NUMBER,
	MET_RANGE,
	MET_LANDED, /* operations in flight that have completed */
	MET_CANCELLED,
	MET_DIRECT, /* gets into registered memory */
	MET_BROKEN, /* queue pairs with operations in flight */
	MET_LEFT, /* operations that were in flight when their handle was closed */
	MET_WALKED, /* scans in chunks that came to their end */
	MET_MEANWHILE, /* what they found was written meanwhile */
	METS_EVER, /* what follows only where there is more than one life of the server */
	MET_ORPHAN = METS_EVER, /* operations that were in flight when it was killed, */
	MET_UNKNOWN, /* whose outcome nobody knows */
	METS,
};

static inline uint64_t below(struct differ *d, uint64_t n)
{
	return (model_random(&d->random) >> 11) % n;
}

/* value.c */
void shape_fill(const struct differ *d, const struct shape *s, uint8_t *out);
bool shape_number(const struct differ *d, const struct shape *s, int64_t *out);
struct shape shape_of_number(struct differ *d, uint32_t key, int64_t number);
struct shape shape_choose(struct differ *d, uint32_t key);
/* shape_append - @number with a digit at its end. */
struct shape shape_append(struct differ *d, uint32_t key, int64_t number, int64_t digit);
/* key_choose - with nothing in flight; for a write, one that is not in doubt. */
uint32_t key_choose(struct differ *d, enum kind kind);
void keys_create(struct differ *d);
/* key_find - its number, or UINT32_MAX. */
uint32_t key_find(const struct differ *d, const void *key, size_t len);
/* keys_twin - choose the first ones by the hash that the server has now. */
void keys_twin(struct differ *d, uint64_t hash_seed);

void past_add(struct differ *d, uint32_t key, const struct shape *s);

/* judge.c */
enum presence { GONE, MAYBE, THERE };
enum presence presence(const struct record *r, uint64_t before_ms, uint64_t after_ms,
		       uint64_t late_ms);
/* begins - the call is about to be made, at @now_ns. */
void begins(struct differ *d, struct action *a, uint64_t now_ns);
void judge(struct differ *d, struct action *a);
/* judge_applied - the write has succeeded; @as_there: it met the record. */
void judge_applied(struct differ *d, struct action *a, bool as_there);
/* fits - whether the record could have given this answer. */
bool fits(struct differ *d, const struct action *a, const struct record *r);
/* expected - what the call returns where the record is there, or is not. */
int expected(const struct differ *d, const struct action *a, const struct record *r, bool there);
void judge_value(struct differ *d, const struct action *a, const struct shape *s,
		 const uint8_t *bytes, size_t len);
void judge_meta(struct differ *d, const struct action *a, struct record *r);
/* late_ms - how much longer a read may return what has expired. */
uint64_t late_ms(const struct differ *d);

/* doubt.c */
/* doubt_write - whether this write, which had nothing to meet but what the model knows, is or will
 * be applied is not known. */
void doubt_write(struct differ *d, const struct action *a);
/* doubt_either - the record may also be @other. */
void doubt_either(struct differ *d, uint32_t key, const struct record *other);
/* doubt_read - what a read says of it. Returns false where it fits both. */
bool doubt_read(struct differ *d, const struct action *a);
/* doubt_room - how many more keys may be in doubt. */
unsigned doubt_room(const struct differ *d);

/* flight.c: operations in flight */
struct flight {
	struct flight *next; /* of its handle */
	struct action a;
	uintptr_t number; /* its user: never the same again, as an address may be */
	uint8_t *memory; /* of its value; NULL: none, or @place */
	struct place *place;
	bool brief; /* its time may be over before it is done */
	bool cancelled; /* gkv_cancel() says so */
	unsigned killed; /* servers since it was submitted. What was there before the first: */
	struct record was;
};

void flight_submit(struct differ *d, struct end *end);
void flight_cancel(struct differ *d, struct end *end);
void flight_break(struct differ *d, struct end *end);
/* flights_orphan - the server was killed, and the model of its next life is made. */
void flights_orphan(struct differ *d);

void flight_free(struct differ *d, struct flight *f);

/* landing.c: their ends */
void flight_collect(struct differ *d, struct end *end);
/* flights_settle - what must be known before the handle may be closed is waited for. */
void flights_settle(struct differ *d, struct end *end);
/* flights_leave - the handle was closed. */
void flights_leave(struct differ *d, struct end *end);

/* places.c */
void places_open(struct differ *d, struct line *l);
void places_close(struct differ *d, struct line *l);
/* places_release - ahead of time: may be refused where a get into it is in flight. */
void places_release(struct differ *d, struct line *l);
/* place_take - NULL: all are taken. */
struct place *place_take(struct differ *d, struct line *l, size_t cap);
void place_leave(struct differ *d, struct place *p);

/* walk.c */
void walk_scan(struct differ *d, struct end *end);
void walk_step(struct differ *d, struct end *end);
/* walk_end - before or after the closing of its handle. */
void walk_end(struct end *end);

/* wrong.c */
void remember(struct differ *d, const struct action *a);
_Noreturn void wrong(const struct differ *d, uint32_t key, const char *kind, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* lie.c */
#define LIES                                                                                      \
	"none|foreign|stale|torn|miss|ghost|late|early|version|expiry|condition|sum|view|beyond|" \
	"old_life|twice|skipped|walk_twice|walk_skipped|walk_stale|again|lost|cancelled|doubled|" \
	"rest"
void lie(struct differ *d, struct action *a);
bool lies(const struct differ *d, const char *what);

/* ops.c, batch.c */
extern const struct op ops[];
void act(struct differ *d, const struct op *op, struct end *end);
void batch_mget(struct differ *d, struct end *end);
void batch_mput(struct differ *d, struct end *end);
void batch_mdel(struct differ *d, struct end *end);

/* links.c */
struct line *line_of(struct differ *d, const struct end *end);
struct end *end_choose(struct differ *d);
/* end_use - a call on the handle comes: what its last one gave to look at is looked at. */
void end_use(struct differ *d, struct end *end);
void line_churn(struct differ *d, struct end *end);
void line_tick(struct differ *d, struct end *end);
void links_close(struct differ *d);
void server_renew(struct differ *d);
/* server_twins - choose the twins, by a handle that is connected to the server of this life. */
void server_twins(struct differ *d, struct end *end);

/* stall.c */
int stall_start(void);
/* stall_ms - how long threads of this process did not get a core in the last seconds. */
uint64_t stall_ms(void);

/* options.c */
int differ_options_take(struct differ_options *o, int argc, char **argv, int *status);
