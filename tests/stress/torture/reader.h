/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Private to the readers' processes: one of them, and its roles. */
#include <gracekv.h>

#include "tests/stress/torture/hold.h"
#include "tests/stress/torture/torture.h"

struct visitor {
	struct shared *s;
	struct seat *seat;
	uint64_t random;
	struct gkv_session *session;
	struct gkv *kv;
	struct hold hold;
	uint64_t rest_at_ns;
};

void reader_failed(struct visitor *r, const char *what, int rc, const char *why);

/* reader_judge - what a look-up gave: rc 0 a value, -ENOENT none. */
void reader_judge(struct visitor *r, uint32_t k, uint32_t floor, int rc, const void *value,
		  size_t len);

/* reader_get - look one key up by the index, judged; r->hold has its block afterwards. */
void reader_get(struct visitor *r, uint32_t k);

/* reader_stats - what its handle has counted, into the seat. */
void reader_stats(struct visitor *r);

/* reader_rest - where it is time for it: no section is open, and the world goes on. */
void reader_rest(struct visitor *r);

/* Roles, for one session. */
void hint_visit(struct visitor *r, uint64_t end_ns); /* remembers where blocks are */
void count_visit(struct visitor *r); /* counts whole blocks; until the program ends */
void write_visit(struct visitor *r); /* a writer by RPC; until the program ends */
