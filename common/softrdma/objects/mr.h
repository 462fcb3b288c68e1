/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Protection domains and memory regions. */
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/softrdma/process/file.h"
#include "common/softrdma/process/process.h"

struct soft_pd {
	struct ibv_pd base;
	uint32_t epoch;
	uint32_t id;
	_Atomic uint32_t users; /* MRs, SRQs and QPs */
};

struct soft_mr {
	struct ibv_mr base;
	uint32_t epoch, index;
	uint64_t iova; /* the address of base.addr in work requests */
	unsigned access;
	int dereg_failed; /* SOFTRDMA_FAULT: with that; only dereg_mr */
	struct soft_file_ref file;
};

static inline struct soft_pd *soft_pd(struct ibv_pd *base)
{
	return (struct soft_pd *)base;
}

/* mr_written - does @access let anything be written to a region? */
static inline bool mr_written(unsigned access)
{
	return access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

/*
 * soft_mr_check - can memory at @addr be a region so, with addresses from @iova on? Does not look
 * at the memory. Returns 0, EINVAL, or EOPNOTSUPP for access that some hardware can give.
 */
int soft_mr_check(uint64_t addr, uint64_t iova, uint64_t length, unsigned access);

/* soft_mr_publish - fill in the entry of @mr in the arena, from @mr, with a new key. */
void soft_mr_publish(struct soft_mr *mr);

/* soft_mr_withdraw - take the key back, and wait until no peer uses it any more. */
void soft_mr_withdraw(struct soft_mr *mr);

/*
 * mr_covers - may @length bytes at @addr be used under @key, for @access, within @pd? Returns the
 * word of the entry, which is that of no registration before or after; or 0.
 */
static inline uint64_t mr_covers(const struct shared_mr *mr, uint32_t key, uint64_t addr,
				 uint64_t length, uint32_t access, uint32_t pd)
{
	uint64_t start, size, word;

	/* acquire: pairs with the release of the word in soft_mr_publish(): the other fields */
	word = atomic_load_explicit(&mr->word, memory_order_acquire);
	if ((uint32_t)word != key || !key)
		return 0;
	start = atomic_load_explicit(&mr->addr, memory_order_relaxed);
	size = atomic_load_explicit(&mr->length, memory_order_relaxed);
	return addr >= start && length <= size && addr - start <= size - length &&
			       (atomic_load_explicit(&mr->access, memory_order_relaxed) & access) ==
				       access &&
			       atomic_load_explicit(&mr->pd, memory_order_relaxed) == pd
		       ? word
		       : 0;
}
