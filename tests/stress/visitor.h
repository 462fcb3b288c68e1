/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A remote reader: a process with a seat and, for a while, a session and a handle. */
#include <gracekv.h>

#include "tests/stress/shared.h"

struct hold;

struct visitor {
	struct shared *s;
	struct seat *seat;
	uint64_t random;
	struct gkv_session *session;
	struct gkv *kv;
	struct hold *hold; /* of torture: what its READs go through; NULL: they do not */
	/* Around each look-up; NULL: nothing is to be done. */
	void (*before)(struct visitor *r), (*after)(struct visitor *r);
};

/* visitor_enter - take seat @number in this process. @life: of the seat, from 0. */
void visitor_enter(struct visitor *r, struct shared *s, unsigned number, unsigned life);

/* visitor_session - one session with a handle, in which work(r) is done. */
void visitor_session(struct visitor *r, void (*work)(struct visitor *r));

void visitor_failed(struct visitor *r, const char *what, int rc, const char *why);

/* visitor_judge - what a look-up gave: rc 0 a value, -ENOENT none. */
void visitor_judge(struct visitor *r, uint32_t k, uint32_t floor, int rc, const void *value,
		   size_t len);

/* visitor_get - look one key up, judged. visitor_get_many - keys of the program's choice. */
void visitor_get(struct visitor *r, uint32_t k);
void visitor_get_many(struct visitor *r);

/* visitor_stats - what its handle has counted, into the seat. */
void visitor_stats(struct visitor *r);
