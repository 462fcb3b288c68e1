/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A session's epochs: the newest one that it knows of, the pins of its handles' sections, and what
 * it has announced. The essay is in epochs.c.
 *
 * Pinning is wait-free: no lock, no system call, no message. epochs->lock is innermost, and short.
 */
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/src/know/hints.h"
#include "common/base/mutant.h"
#include "common/layout/limits.h"

/* ThreadSanitizer does not know fences, and compilers say so. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EPOCHS_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define EPOCHS_TSAN 1
#endif

#define EPOCHS_LINE 64 /* bytes: what one thread writes shares no cache line with another's */

/* One handle's; its thread writes, the housekeeper reads. */
struct epoch_pin {
	alignas(EPOCHS_LINE) _Atomic uint64_t epoch; /* 0: no section is open */
	_Atomic uint64_t calls; /* grows with each section and request: is anybody at work? */
};

struct epochs {
	/* The newest epoch of which a READ has completed, or that came with the WELCOME. */
	alignas(EPOCHS_LINE) _Atomic uint64_t newest; /* written under lock */

	alignas(EPOCHS_LINE) pthread_mutex_t lock;
	uint64_t number; /* of the connection that all this belongs to; under lock */
	_Atomic uint64_t announced; /* the last one; written under lock */
	struct hints *hints; /* the session's; NULL: there are none */
	uint64_t floor; /* hints from before it were dropped; under lock */
	uint64_t since; /* the newest epoch when they were; under lock */
	uint64_t oldest; /* h, as it was announced last; under lock */

	struct epoch_pin pin[SESSION_HANDLES_MAX];
};

/* epochs_init - @hints: what the session remembers; NULL: nothing. */
void epochs_init(struct epochs *ep, struct hints *hints);
void epochs_destroy(struct epochs *ep);

/*
 * epochs_reset - the session has connection @number, whose WELCOME carried @epoch, at least 1. To
 * be called before any queue pair of it is opened. Any thread.
 * @same_life: of the server, as the last connection's; otherwise hints mean nothing any more.
 */
void epochs_reset(struct epochs *ep, uint64_t number, uint64_t epoch, bool same_life);

/* epochs_calls - of all handles; a sum that changes while anybody is at work. */
uint64_t epochs_calls(const struct epochs *ep);

/* epochs_lowest - the lowest pin; UINT64_MAX: no section is open. */
uint64_t epochs_lowest(const struct epochs *ep);

/*
 * epochs_announce - a READ of the server's epoch and hint_floor over a queue pair of connection
 * @number has completed and was polled, and brought @v and @floor. One thread at a time.
 * @lowest: 0; else the pins were scanned before (a broken rule, for tests).
 * @out: what is to be announced now: e never less than before, never more than @v or a pin seen; h
 * never less than before, and at most @v.
 * Returns 0, or -ESTALE: that connection is not the session's any more; nothing was changed.
 */
struct announcement {
	uint64_t e;
	uint64_t h;
};

int epochs_announce(struct epochs *ep, uint64_t number, uint64_t v, uint64_t floor, uint64_t lowest,
		    struct announcement *out);

/* epochs_note - the handle is at work. Its own thread. */
static inline void epochs_note(struct epochs *ep, unsigned handle)
{
	_Atomic uint64_t *calls = &ep->pin[handle].calls;

	/* relaxed: one writer, and it is a hint */
	atomic_store_explicit(calls, atomic_load_explicit(calls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/*
 * epochs_pin - begin a section of a handle that has none. Its own thread. After it returns READs
 * may be posted. Returns the section's pin, at least 1.
 * Ordering: full fence between the pin and whatever follows; pairs with epochs_announce().
 */
static inline uint64_t epochs_pin(struct epochs *ep, unsigned handle)
{
	/* acquire pairs with epochs_announce() and epochs_reset(): that READ before ours */
	uint64_t newest = atomic_load_explicit(&ep->newest, memory_order_acquire);

	epochs_note(ep, handle);
#ifdef EPOCHS_TSAN
	/* seq_cst instead of the fence; enough on x86-64, where ThreadSanitizer is used */
	atomic_exchange_explicit(&ep->pin[handle].epoch, newest, memory_order_seq_cst);
#else
	/* relaxed: the fence orders it; it must be seq_cst, as only that keeps loads after it */
	atomic_store_explicit(&ep->pin[handle].epoch, newest, memory_order_relaxed);
	if (!MUTANT(no_pin_fence))
		atomic_thread_fence(memory_order_seq_cst);
#endif
	return newest;
}

/*
 * epochs_pin_beside - begin one while others of the handle are open, whose pin, which is no later,
 * stands for it as well. Returns the section's own, for epochs_unpin().
 */
static inline uint64_t epochs_pin_beside(struct epochs *ep, unsigned handle)
{
	epochs_note(ep, handle);
	/* acquire as epochs_pin(); no fence: the word that is looked at stands there already */
	return atomic_load_explicit(&ep->newest, memory_order_acquire);
}

/*
 * epochs_unpin - a section's READs are polled, or their queue pair is of no use any more. One that
 * was given up may still execute: nobody looks at what it brings, and its memory is not used again
 * before the queue pair is destroyed.
 * @oldest: pin of the oldest section that is open still; 0: none is.
 */
static inline void epochs_unpin(struct epochs *ep, unsigned handle, uint64_t oldest)
{
	/* release pairs with epochs_lowest(): the section's last look at a completion before it */
	atomic_store_explicit(&ep->pin[handle].epoch, oldest, memory_order_release);
}
