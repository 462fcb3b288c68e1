/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Private to torture, whose processes are
 *
 *	torture		a whole server, writers, local readers
 *	  nursery	forks readers, stops them, kills them, forks others
 *	    reader ...	one process each, by its seat
 */
#include "tests/stress/home.h"
#include "tests/stress/torture/pipe.h"
#include "tests/stress/visitor.h"

#define CLIENT_KEYS	 16u /* of each writer by RPC, after the others */
#define KEYS_PREFIX_BITS 5u /* that their hashes have in common */
#define MET_S		 120u /* a run may last that much longer than --seconds */

/* torture_options - see struct face, as of the next four. */
int torture_options(struct options *o, int argc, char **argv, int *status);
int torture_run(struct home *h);
uint32_t torture_pick(const struct shared *s, uint64_t *random);
void torture_write(struct writer *w);
void torture_published(struct writer *w, uint32_t k, const struct store_result *result);

/* keys_choose - those keys whose hashes have the same first bits, so that few segments hold all. */
int keys_choose(struct shared *s, uint64_t hash_seed);

/* nursery_main - never returns; its exit status says nothing, the model does. */
_Noreturn void nursery_main(struct shared *s);

/* reader_main - a process with a seat. @life: of the seat, from 0. Never returns. */
_Noreturn void reader_main(struct shared *s, unsigned seat, unsigned life);

/* reader_rest - where it is time for it: no section is open, and the world goes on. */
void reader_rest(struct visitor *r);

/* reader_hold - from now on READs of its handle are held up. */
void reader_hold(struct visitor *r);

/* Roles, for one session. */
void hint_visit(struct visitor *r, uint64_t end_ns); /* remembers where blocks are */
void count_visit(struct visitor *r); /* counts whole blocks; until the program ends */
void write_visit(struct visitor *r); /* a writer by RPC; until the program ends */
