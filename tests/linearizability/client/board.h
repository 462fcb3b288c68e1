/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What all processes of a run share: a file that the supervisor makes, zeroed but for its first
 * words, and everyone maps. It says which keys there are at the moment, and what the supervisor
 * wants of the clients. board.py has the same offsets; both change together, with BOARD_MAGIC.
 */
#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define BOARD_MAGIC	0x3130445241424b47ull /* "GKBARD01" */
#define BOARD_SLOTS_MAX 256u

/* A slot has one key at a time, and another one when that has seen enough operations. */
struct board_slot {
	alignas(64) _Atomic uint64_t key; /* generation << 32 | salt */
	_Atomic uint32_t operations; /* of this key */
	_Atomic uint32_t open; /* writes of it whose outcome nobody knows */
};

struct board {
	uint64_t magic;
	uint32_t slots; /* 1 to BOARD_SLOTS_MAX */
	uint32_t operations_max; /* of a key */
	uint32_t open_max; /* of a key */
	uint32_t reserved;

	/* What the supervisor asks for: 0, or 1. */
	_Atomic uint32_t stop; /* all come to their end */
	_Atomic uint32_t brief; /* sessions last 10 to 100 ms */
	_Atomic uint32_t mute; /* clients that tick by themselves do not */
	_Atomic uint32_t grow; /* the one that grows and shrinks the index is at work */
	_Atomic uint32_t press; /* the one that fills the memory is */

	/* What clients have done; for progress, and to see that a run met what it is for. */
	_Atomic uint64_t operations;
	_Atomic uint64_t sessions;
	_Atomic uint64_t reads;
	_Atomic uint64_t hint_hits;
	_Atomic uint64_t hint_stale;
	_Atomic uint64_t retries; /* looks that had to be repeated */
	_Atomic uint64_t asked; /* gets that the server answered */
	_Atomic uint64_t reconnects;
	_Atomic uint64_t grown; /* times that the index was filled and emptied */
	_Atomic uint64_t pressed; /* writes that the memory had no room for */
	_Atomic uint64_t refused; /* writes of clients, likewise */

	struct board_slot slot[BOARD_SLOTS_MAX];
};

static_assert(offsetof(struct board, slots) == 8, "slots");
static_assert(offsetof(struct board, stop) == 24, "stop");
static_assert(offsetof(struct board, operations) == 48, "operations");
static_assert(offsetof(struct board, refused) == 128, "refused");
static_assert(offsetof(struct board, slot) == 192, "slot");
static_assert(sizeof(struct board_slot) == 64, "board_slot");

/* board_map - the one at @path. Returns 0, or a negative errno. */
int board_map(const char *path, struct board **out, struct error *err);

/*
 * board_key - which key slot @slot has now: its generation and salt. board_key_worn - one operation
 * more has been made with it, @open: of unknown outcome: whether it should be replaced.
 * board_key_replace - by the one with @salt, unless somebody has done so. Any process.
 */
uint64_t board_key(const struct board *b, uint32_t slot);
bool board_key_worn(struct board *b, uint32_t slot, uint64_t key, bool open);
void board_key_replace(struct board *b, uint32_t slot, uint64_t key, uint32_t salt);

/* board_asks - whether the supervisor wants it. relaxed: nothing else follows from it */
static inline bool board_asks(const _Atomic uint32_t *what)
{
	return atomic_load_explicit(what, memory_order_relaxed) != 0;
}

/* board_count - relaxed: a figure. Any process. */
static inline void board_count(_Atomic uint64_t *figure, uint64_t n)
{
	atomic_fetch_add_explicit(figure, n, memory_order_relaxed);
}
