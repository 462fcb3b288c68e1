/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What the processes on soft0 see of each other: one arena a process, a sparse memfd.
 *
 * The owner of an arena runs its control path; the initiators of its peers read and write in it.
 * Each field names its writer. Fields are atomics, mostly relaxed ones, because a reader may look
 * at an entry while it is being taken over by another object; `word` of a QP or MR tells whether
 * what was read counts. Nothing here is ever locked: a process that stops or dies holds up no
 * other.
 *
 * Values found in a peer's arena are bounded before use: a broken peer must not break us.
 * Both sides run the same build on one machine; SHARED_VERSION and the size are compared at
 * connect.
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/softrdma/shared/life.h"

#define SHARED_MAGIC   0x3044524654464f53ull
#define SHARED_VERSION 6
#define SHARED_NONE    UINT32_MAX
#define SHARED_LINE    64

/*
 * QP number: its 24 bits are divided among the processes, and those of a process among generations
 * of its indices. Three generations are few, but an index is used again only after all others, and
 * what must not be mistaken is told apart by its life. Four would leave 1024 processes.
 */
enum {
	QPN_BITS = 24,
	QPN_INDEX_BITS = 12,
	QPN_GENERATIONS = 3,
	QPN_OF_SLOT = QPN_GENERATIONS << QPN_INDEX_BITS,
};

enum {
	SHARED_SLOTS = (1 << QPN_BITS) / QPN_OF_SLOT, /* processes on one machine */
	SHARED_QPS = 1 << QPN_INDEX_BITS,
	SHARED_MRS = 65536,
	SHARED_CQS = 4096,
	SHARED_SRQS = 1024,
	SHARED_MAPS = 4096,
	SHARED_SGES = 16,
};

/* Of an arena. Address space, not memory: pages cost something only once they are touched. */
#define SHARED_BYTES (1ull << 30)

static inline uint32_t qpn_make(uint32_t slot, uint32_t generation, uint32_t index)
{
	return slot * QPN_OF_SLOT + (generation % QPN_GENERATIONS << QPN_INDEX_BITS) + index;
}

static inline uint32_t qpn_slot(uint32_t qpn)
{
	return qpn / QPN_OF_SLOT; /* SHARED_SLOTS where it is nobody's */
}

static inline uint32_t qpn_index(uint32_t qpn)
{
	return qpn & (SHARED_QPS - 1);
}

/* shared_qp.word: life 32 bits, QP number 24, state 8. 0: no QP. */
static inline uint64_t qp_word(uint32_t life, uint32_t qpn, uint32_t state)
{
	return (uint64_t)life << 32 | (uint64_t)qpn << 8 | state;
}

static inline uint32_t qp_word_state(uint64_t word)
{
	return word & 0xff;
}

static inline uint32_t qp_word_qpn(uint64_t word)
{
	return word >> 8 & 0xffffff;
}

static inline uint32_t qp_word_life(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/*
 * A life ends with destroy_qp and with RESET. The QP number takes its generation from the life that
 * it was created in, and a RESET leaves the next one to the next QP of the index.
 */
static inline uint32_t qp_life_after_reset(uint32_t life)
{
	return life + QPN_GENERATIONS;
}

struct shared_sge {
	_Atomic uint64_t addr;
	_Atomic uint32_t length, lkey;
};

/* A posted receive. Written by the owner, read by initiators. */
struct shared_recv {
	_Atomic uint64_t wr_id;
	_Atomic uint32_t sges, pad;
	struct shared_sge sge[];
};

/* A queue of posted receives, of one QP or an SRQ. Counters grow for ever. */
struct shared_rq {
	/* owner, constant while the queue lives */
	_Atomic uint64_t ring; /* offset of the first slot in the arena */
	_Atomic uint32_t slots; /* a power of two */
	_Atomic uint32_t sges_max; /* of a slot: gives its size */
	_Atomic uint32_t pd;
	/* owner sets, an initiator that falls below it takes it (to 0) and sets limit_hit */
	_Atomic uint32_t limit, limit_hit;
	/* initiators, by compare-and-swap */
	_Alignas(SHARED_LINE) _Atomic uint64_t head;
	_Atomic uint32_t waited; /* initiators set it when they found the queue empty */
	/* owner */
	_Alignas(SHARED_LINE) _Atomic uint64_t tail;
};

/* A completion of a receive, in the ring of one QP: its peer produces, the owner consumes. */
struct shared_cqe {
	_Atomic uint64_t wr_id;
	_Atomic uint32_t byte_len, imm;
	_Atomic uint32_t status; /* enum ibv_wc_status */
	_Atomic uint32_t opcode; /* enum ibv_wc_opcode */
	_Atomic uint32_t flags; /* enum ibv_wc_flags */
	_Atomic uint32_t pad;
};

/* A request that the peer's process executes itself: see atomic.c. */
struct shared_ask {
	_Atomic uint64_t number; /* written last: odd while it stands; only grows */
	_Atomic uint64_t word; /* of the peer's QP */
	_Atomic uint64_t addr, compare_add, swap;
	_Atomic uint32_t rkey;
	_Atomic uint32_t opcode; /* enum ibv_wr_opcode */
};

/* shared_qp.busy: what is above the two bits counts operations. */
enum {
	BUSY_RUNS = 1, /* one may be changing memory of the peer */
	BUSY_GIVEN_UP = 2, /* and the peer does not wait for its end any more */
	BUSY_STEP = 4,
};

struct shared_qp {
	/* owner; an initiator may change the state from RTR or RTS to ERR */
	_Atomic uint64_t word;
	/* owner, before the word says RTR */
	_Atomic uint64_t dest_incarnation;
	_Atomic uint32_t dest_qpn;
	_Atomic uint32_t access; /* enum ibv_access_flags of the QP */
	_Atomic uint32_t pd;
	_Atomic uint32_t type; /* enum ibv_qp_type */
	_Atomic uint32_t rd_atomic; /* as responder */
	_Atomic uint32_t min_rnr_timer;
	_Atomic uint32_t recv_cq, srq; /* indices; srq may be SHARED_NONE */
	_Atomic uint32_t in_slots; /* a power of two */
	_Atomic uint64_t in_ring; /* offset of the completion ring */
	/* owner, as initiator: BUSY_*; the peer may add BUSY_GIVEN_UP */
	_Alignas(SHARED_LINE) _Atomic uint64_t busy;
	/* owner, as initiator: an atomic that the peer shall execute */
	struct shared_ask ask;
	/* owner, as responder: the answer to its peer's ask of that number */
	_Alignas(SHARED_LINE) _Atomic uint64_t answered;
	_Atomic uint64_t answer; /* the value before */
	_Atomic uint32_t answer_status; /* enum ibv_wc_status */
	/* the connected peer */
	_Alignas(SHARED_LINE) _Atomic uint64_t in_tail;
	_Atomic uint32_t async_event; /* enum ibv_event_type + 1 to raise, or 0 */
	_Atomic uint32_t waiter; /* the peer waits for a receive; taken by the owner */
	/* owner */
	_Alignas(SHARED_LINE) _Atomic uint64_t in_head;
	struct shared_rq rq;
};

struct shared_mr {
	_Alignas(SHARED_LINE) _Atomic uint64_t word; /* generation 32 bits, key 32; 0: no region */
	_Atomic uint64_t addr, length;
	_Atomic uint32_t access, pd;
	/* the file that the region lies in: id 0 if in none */
	_Atomic uint64_t map_id, map_offset;
	_Atomic uint32_t map_index;
	uint32_t generation; /* owner only */
	_Atomic uint64_t shift; /* address in the owner's process less address in the region */
};

static inline uint32_t mr_key(uint32_t index, uint32_t generation)
{
	return index << 16 | (generation & 0xffff);
}

static inline uint32_t mr_key_index(uint32_t key)
{
	return key >> 16;
}

/* shared_cq.notify: low bits armed for what, the rest counts events not yet taken. */
enum { NOTIFY_ANY = 1, NOTIFY_SOLICITED = 2, NOTIFY_ARMED = 3, NOTIFY_EVENT = 4 };

struct shared_cq {
	_Atomic uint64_t notify; /* all */
	_Atomic uint32_t inbound; /* completions in the rings of its QPs; all */
	_Atomic uint32_t overrun; /* an initiator lost a completion */
	_Atomic uint32_t cqe;
	_Atomic uint64_t channel_id; /* 0: no channel */
	_Atomic uint32_t own; /* completions in the ring of the CQ itself; owner */
	/* QPs with completions in their rings: initiators set, the owner clears */
	_Alignas(SHARED_LINE) _Atomic uint64_t summary; /* bit i: pending[i] has a bit */
	_Alignas(SHARED_LINE) _Atomic uint64_t pending[SHARED_QPS / 64];
};

struct shared_arena {
	uint64_t magic;
	uint32_t version, slot;
	uint64_t size;
	uint64_t incarnation; /* random */
	uint64_t address; /* of the arena in the owner's process */
	struct shared_life life;
	/* initiators: objects that the owner's service thread shall look at */
	_Alignas(SHARED_LINE) _Atomic uint32_t attention; /* a CQ or SRQ */
	_Atomic uint32_t qp_attention; /* a QP: bits below */
	_Alignas(SHARED_LINE) _Atomic uint64_t qp_bits[SHARED_QPS / 64];
	_Atomic uint32_t port; /* PORT_*; owner */
	/* owner: how many files were given up so far */
	_Alignas(SHARED_LINE) _Atomic uint64_t files_gone;
	_Alignas(4096) struct shared_qp qp[SHARED_QPS];
	_Alignas(4096) struct shared_mr mr[SHARED_MRS];
	_Alignas(4096) struct shared_cq cq[SHARED_CQS];
	_Alignas(4096) struct shared_rq srq[SHARED_SRQS];
	/* files that can be asked for: their ids, 0 for none; owner */
	_Alignas(4096) _Atomic uint64_t map_id[SHARED_MAPS];
	_Alignas(4096) unsigned char heap[];
};

static_assert(sizeof(struct shared_mr) == SHARED_LINE, "one line a region");
static_assert(sizeof(struct shared_cqe) == 32, "two completions a line");
static_assert(sizeof(struct shared_recv) == 16 && sizeof(struct shared_sge) == 16, "slot size");

/* The smallest power of two that is not below @n, for rings. */
static inline uint32_t round_up_pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

static inline uint64_t recv_slot_size(uint32_t sges_max)
{
	return sizeof(struct shared_recv) + (uint64_t)sges_max * sizeof(struct shared_sge);
}

/* pending_set - mark a QP in @cq. After the completion was published in its ring. */
static inline void pending_set(struct shared_cq *cq, uint32_t qp_index)
{
	/*
	 * release: pairs with the acquire of the exchange in the owner's drain, so that whoever
	 * sees the bit sees the ring's tail. The bit is set before its summary; the owner clears
	 * the summary before it looks at the bits.
	 */
	atomic_fetch_or_explicit(&cq->pending[qp_index / 64], 1ull << qp_index % 64,
				 memory_order_release);
	atomic_fetch_or_explicit(&cq->summary, 1ull << qp_index / 64, memory_order_seq_cst);
}
