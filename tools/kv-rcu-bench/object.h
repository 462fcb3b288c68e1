/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What readers read, and how they find out that it was freed under them.
 *
 * An object's check words are its serial number, each mixed with another constant, so they agree
 * with each other in a live object. Before it is freed all of them are set to one and the same
 * value, which no serial number gives. A reader that holds an object for a while also sees that
 * its serial number is still the same: memory that was freed and taken again is another object.
 *
 * The check words lie after what malloc writes into free memory. Relaxed: a strategy that works
 * orders them, by the pointer and by its grace period; one that does not is what they are for.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <urcu/urcu-qsbr.h>
#include <urcu/wfcqueue.h>
#include <urcu/wfstack.h>

#define OBJECT_WORDS  6u
#define OBJECT_POISON 0xdeadbeefdeadbeefull

struct rcu_object {
	/* Owned by the thread that retired it, then by its strategy; readers do not look. */
	union {
		struct rcu_object *next;
		struct cds_wfs_node stacked;
		struct cds_wfcq_node queued;
		struct rcu_head head;
	};
	_Atomic uint64_t word[OBJECT_WORDS];
};

_Static_assert(sizeof(struct rcu_object) == 64, "as the smallest block of the store");

static inline uint64_t object_mask(unsigned word)
{
	return (word + 1) * 0x9e3779b97f4a7c15ull;
}

/* object_fill - @serial: one that no other object ever has. Before it is published. */
static inline void object_fill(struct rcu_object *o, uint64_t serial)
{
	for (unsigned i = 0; i < OBJECT_WORDS; i++)
		atomic_store_explicit(&o->word[i], serial ^ object_mask(i), memory_order_relaxed);
}

/* object_read - all of it. Returns whether it is alive and whole, with its serial number. */
static inline bool object_read(struct rcu_object *o, uint64_t *serial)
{
	uint64_t first = atomic_load_explicit(&o->word[0], memory_order_relaxed) ^ object_mask(0);
	uint64_t differ = 0;

	for (unsigned i = 1; i < OBJECT_WORDS; i++)
		differ |= first ^ object_mask(i) ^
			  atomic_load_explicit(&o->word[i], memory_order_relaxed);
	*serial = first;
	return differ == 0;
}

/* object_poison - a reader notices from now on. */
static inline void object_poison(struct rcu_object *o)
{
	for (unsigned i = 0; i < OBJECT_WORDS; i++)
		atomic_store_explicit(&o->word[i], OBJECT_POISON, memory_order_relaxed);
}

/* object_free - no reader has it any more; at least, that is what the strategy says. */
static inline void object_free(struct rcu_object *o)
{
	object_poison(o);
	free(o);
}
