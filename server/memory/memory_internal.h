/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Private to server/memory: structures, and which lock protects what.
 *
 * Locks, in the order in which they are taken:
 *   extent_lock   adding and releasing extents: bytes_committed, kind_count, extent count, the
 *                 hooks' calls
 *   class[].lock  the cut slabs of one class: their bitmaps and counts
 *   pool_lock     free slabs and runs, segments, directories, the growth thread's orders, the
 *                 list of caches
 *
 * A slab's fields belong to pool_lock while it is free or part of a run, and to its class's lock
 * while it is cut. `use` and `class_no` change only while no block of the slab is out, so whoever
 * holds a block may read them without a lock.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "server/memory/memory.h"
#include "server/memory/size_class.h"

#define HUGEPAGE_BYTES	(2u << 20)
#define EXTENT_SLABS	(EXTENT_BYTES_MAX / SLAB_BYTES)
#define SLAB_WORDS	(SIZE_CLASS_BLOCKS_MAX / 64u)
#define MEMORY_MIN	(8u << 20)
#define INCARNATION_MAX UINT32_MAX
#define CACHE_LINE	64u

/* A worker cache holds, of each class, fewer than this many blocks and fewer than this many
 * bytes. */
#define CACHE_BLOCKS 64u
#define CACHE_BYTES  (64u << 10)

/* Partial slabs of a class are listed by how many of their blocks are free, in so many steps. */
#define CLASS_LEVELS 8u

/* Growth starts when fewer than 1/LOW_WATER_SHARE of the slabs are free, or LOW_WATER_MAX slabs. */
#define LOW_WATER_SHARE 8u
#define LOW_WATER_MAX	64u

/* The same for segments; and how much is added then, of what there is. */
#define SEGMENTS_LOW_SHARE 16u
#define SEGMENTS_LOW_MIN   16u
#define INDEX_GROWTH_SHARE 8u

/* DATA leaves so much of the store's size to INDEX, with what INDEX has. */
#define INDEX_RESERVE_SHARE 64u

/* With so many numbers of extents given out nothing is released any more: release.c, NUMBERS. */
#define RELEASE_EXTENTS (EXTENTS_MAX / 4u * 3u)

/* Room for the largest record, in whole hugepages. */
#define EXTENT_BYTES_RUN ((RECORD_BYTES_MAX + HUGEPAGE_BYTES - 1) / HUGEPAGE_BYTES * HUGEPAGE_BYTES)

#define SEGMENT_INCARNATION_MAX 0xffffffu
#define DIRECTORY_EXTENTS	64u
#define EXTENT_KINDS		4u

/* After a failed growth the system is not asked again for this long. */
#define GROWTH_RETRY_NS 1000000000ull

enum slab_use {
	SLAB_FREE,
	SLAB_CUT, /* into blocks of class_no */
	SLAB_RUN, /* first of a run of `blocks` slabs: one block */
	SLAB_REST, /* further slab of a run */
	SLAB_WAIT, /* empty, but hints may lead into it: recut.c */
	SLAB_DEAD, /* holds only addresses whose incarnations are used up */
};

struct slab {
	TAILQ_ENTRY(slab) link; /* in its class, while a block is free; or in memory.recut */
	TAILQ_ENTRY(slab) same; /* in memory.waiting, by format */
	uint64_t stamp; /* while it waits: the epoch in which it fell empty; 0: not known yet */
	uint64_t *free; /* a bit for each block, 1: free and in no cache */
	uint32_t incarnation; /* highest that any address in it has used */
	uint16_t extent;
	uint16_t number; /* in the extent */
	uint16_t blocks;
	uint16_t blocks_free;
	uint16_t blocks_dropped; /* exhausted */
	uint16_t word; /* no bit is set in free[] before this word */
	uint8_t use;
	uint8_t class_no;
	uint8_t level; /* of its class's lists, which it is in while a block is free */
	uint8_t format; /* while it waits, if it may be used so again: recut.c; or FORMAT_NONE */
};

TAILQ_HEAD(slab_list, slab);

/* What a slab was last: cut into a class's blocks, or the first of a run of so many slabs. */
#define RUN_SLABS_MAX ((RECORD_BYTES_MAX + SLAB_BYTES - 1) / SLAB_BYTES)
#define SLAB_FORMATS  (SIZE_CLASSES + RUN_SLABS_MAX)
#define FORMAT_NONE   UINT8_MAX

static inline unsigned format_of_run(unsigned slabs)
{
	return SIZE_CLASSES + slabs - 1;
}

struct extent {
	_Atomic uint64_t bytes; /* 0: not there; release publishes all other fields */
	uint8_t *base;
	struct slab *slab; /* of DATA extents */
	uint64_t *slab_bits; /* all their bitmaps */
	struct segment_head *head; /* of INDEX extents */
	struct memory_region region;
	uint64_t elsewhere; /* bytes: hooks */
	int fd;
	enum extent_kind kind;
	bool hugepages;
} __attribute__((aligned(CACHE_LINE)));

struct size_class {
	pthread_mutex_t lock;
	struct slab_list partial[CLASS_LEVELS]; /* [0]: the fullest */
	uint64_t slabs;
	uint64_t blocks; /* of all its slabs, without dropped ones */
	uint64_t blocks_free; /* set bits */
} __attribute__((aligned(CACHE_LINE)));

/* Free slabs of an extent. Under pool_lock. */
struct slab_set {
	uint64_t bits[EXTENT_SLABS / 64];
	unsigned slabs;
	unsigned slabs_free;
};

/* Segments that are given out or free, in all INDEX extents. Under pool_lock. */
struct segment_pool {
	uint32_t first; /* free one, by segment_name(); 0: none */
	uint64_t total; /* without exhausted ones */
	uint64_t free;
	uint64_t exhausted;
	uint64_t heads_bytes;
};

/* A directory that is given out, or waits for its grace period. */
struct directory_range {
	TAILQ_ENTRY(directory_range) link; /* by offset */
	uint64_t offset, bytes;
};

TAILQ_HEAD(directory_list, directory_range);

struct directory_extent {
	unsigned extent;
	uint64_t bytes;
	struct directory_list ranges;
};

/* Under pool_lock. */
struct directory_pool {
	unsigned extents;
	struct directory_extent extent[DIRECTORY_EXTENTS];
	uint64_t bytes_used;
};

struct growth {
	pthread_t thread;
	pthread_cond_t order; /* the thread waits for work */
	pthread_cond_t done; /* memory_growth_wait() waits for its end */
	uint64_t wanted[EXTENT_KINDS]; /* bytes at least; 0: nothing */
	uint64_t retry_at_ns[EXTENT_KINDS]; /* not before, after a failure */
	enum extent_kind busy; /* EXTENT_NONE: it sleeps */
	uint64_t ended; /* growths, either way */
	_Atomic bool stop; /* written under pool_lock */
	_Atomic bool filling; /* written under pool_lock: fill.c */
	bool ahead; /* under pool_lock: memory_growth_ahead() */
	bool started;
};

/* A committed memfd mapping. */
struct mapping {
	void *base;
	size_t bytes;
	int fd;
	bool hugepages;
};

/* Under extent_lock: fill.c. */
struct fill {
	uint64_t begun_ns, told_ns; /* 0: the log was told nothing yet */
	bool done; /* and it was told */
	bool running; /* thread, which has ahead */
	pthread_t thread;
	struct mapping ahead; /* bytes 0: none */
};

struct memory {
	struct extent extent[EXTENTS_MAX];
	struct memory_map map; /* written under extent_lock */
	struct size_class class[SIZE_CLASSES];

	pthread_mutex_t extent_lock;
	_Atomic unsigned extents; /* numbers given out; written under extent_lock */
	_Atomic uint64_t extents_released; /* written under extent_lock */
	unsigned kind_count[4];
	_Atomic uint64_t kind_bytes[4];
	_Atomic uint64_t bytes_committed; /* written under extent_lock */
	_Atomic uint64_t hugepage_bytes; /* written under extent_lock */
	_Atomic uint64_t elsewhere_bytes; /* the same */
	_Atomic uint64_t stuck_bytes; /* of bytes_committed; written under extent_lock */

	pthread_mutex_t pool_lock;
	struct slab_set *set; /* EXTENTS_MAX of them */
	unsigned sets; /* extents below this number may have free slabs */
	unsigned first; /* extents below this number have none */
	uint64_t slabs_total;
	uint64_t slabs_free;
	uint64_t slabs_dead;
	uint64_t slabs_waiting; /* in recut */
	struct slab_list recut; /* fell empty, oldest first */
	struct slab_list waiting[SLAB_FORMATS]; /* the same, but not yet to be used again */
	uint64_t run_slabs;
	uint64_t whole_bytes; /* of extents all of whose slabs are free */
	struct segment_pool segments;
	struct directory_pool directories;
	struct growth growth;
	struct fill fill;
	_Atomic uint64_t goal_bytes; /* to be taken at the start; written under extent_lock */
	LIST_HEAD(, memory_cache) caches;

	_Atomic uint64_t blocks_exhausted;

	struct memory_config config;
	struct extent_entry *table;
	struct memory_region table_region;
	int table_fd;
};

struct cache_class {
	_Atomic unsigned count; /* written by the owner, read by memory_stats_get() */
	struct memory_place place[CACHE_BLOCKS];
};

struct memory_cache {
	struct memory *memory;
	LIST_ENTRY(memory_cache) link;
	struct cache_class class[SIZE_CLASSES];
};

/*
 * mapping_create - 0 or -ENOMEM; all of it is committed: touching it cannot fail. -ECANCELED: @m is
 * stopping; NULL: nothing stops.
 */
int mapping_create(struct mapping *map, const char *name, size_t bytes, const struct memory *m,
		   struct error *err);
void mapping_destroy(struct mapping *map);

/* mapping_give_back - the same, and its pages go although peers may still have the file mapped. */
void mapping_give_back(struct mapping *map);

/*
 * populate - have pages given to all of a mapping, by up to @threads, the caller's included.
 * Returns 0; -ECANCELED: @m is stopping; or what the kernel says, -EINVAL where it is too old.
 */
int populate(void *base, size_t bytes, unsigned threads, const struct memory *m);

/* populate_threads - how many of them, on the cores that this process may use. */
unsigned populate_threads(void);

/* memory_stopping - nobody will use memory that is added now. Any thread. */
bool memory_stopping(const struct memory *m);

/* fill_left - what is still to be taken before anybody needs it. Any thread. */
uint64_t fill_left(const struct memory *m);

/* fill_tell - must hold extent_lock: an extent was added; the log is told, every two seconds. */
void fill_tell(struct memory *m);

/* fill_ahead - must hold extent_lock: an extent of @bytes is about to be registered. */
void fill_ahead(struct memory *m, enum extent_kind kind, uint64_t bytes);

/* fill_take - must hold extent_lock: a mapping that was made ahead. False: there is none. */
bool fill_take(struct memory *m, enum extent_kind kind, uint64_t least, struct mapping *out);

/* fill_end - the growth thread is gone: nothing is made ahead any more. */
void fill_end(struct memory *m);

/* extent_name - of the memfd. */
const char *extent_name(enum extent_kind kind);

/* extents_destroy - unregister and unmap every extent. */
void extents_destroy(struct memory *m);

/* heads_free - what is kept of the parts of an extent outside of registered memory. */
void heads_free(struct extent *x);

/* extent_room - bytes that may still be committed for @kind, in whole slabs. Any thread. */
uint64_t extent_room(const struct memory *m, enum extent_kind kind);

/* extents_releasable - must hold pool_lock: what of DATA could be given back. */
uint64_t extents_releasable(const struct memory *m);

/*
 * extents_make_room - must hold extent_lock: where the budget has less than @bytes left for @kind,
 * give it back DATA extents that hold nothing, until it has.
 * None where all of them would not make room for @least.
 */
void extents_make_room(struct memory *m, enum extent_kind kind, uint64_t least, uint64_t bytes);

/*
 * pool_remove - take the last DATA extent all of whose slabs are free out of the pool, for good.
 * False: there is none, or too many numbers are used up.
 */
bool pool_remove(struct memory *m, unsigned *extent);

/* pool_add - the slabs of a new DATA extent. */
void pool_add(struct memory *m, unsigned extent, unsigned slabs);

/*
 * pool_take - @count consecutive free slabs of one extent, for a record of its own (@run), or one
 * to be cut; orders growth when they get few. Returns 0, -EAGAIN: growth is under way; -ENOMEM.
 */
int pool_take(struct memory *m, unsigned count, bool run, struct slab **first);

/* pool_give - slabs that hold no block any more. One with exhausted addresses becomes dead. */
void pool_give(struct memory *m, struct slab *first, unsigned count);

/* pool_give_free - must hold pool_lock: the same, where no hint leads into them. */
void pool_give_free(struct memory *m, struct slab *first, unsigned count);

/* recut_hold - must hold pool_lock: slabs that fell empty wait. */
void recut_hold(struct memory *m, struct slab *first, unsigned count);

/*
 * recut_take - @count slabs in a row that wait, for what they were last: the one of @format that
 * fell empty last. They are the caller's. False: there is none.
 */
bool recut_take(struct memory *m, unsigned format, unsigned count, struct slab **first);

/* recut_init - none waits. */
void recut_init(struct memory *m);

/* slabs_few - must hold pool_lock: time to add some. */
bool slabs_few(const struct memory *m);

/* segments_add, directories_add - a new extent of that kind. */
void segments_add(struct memory *m, unsigned extent, unsigned segments);
void directories_add(struct memory *m, unsigned extent);
void directories_destroy(struct memory *m);

/* segments_used_bytes - of those that are given out. Takes pool_lock. */
uint64_t segments_used_bytes(struct memory *m);

/* segment_free, directory_free - memory_free() of such a place. */
void segment_free(struct memory *m, struct memory_place place);
void directory_free(struct memory *m, struct memory_place place);

int growth_start(struct memory *m, struct error *err);
void growth_stop(struct memory *m);

/* growth_consider - must hold pool_lock: order growth of DATA where free slabs are few. */
void growth_consider(struct memory *m);

/* growth_order - must hold pool_lock: order growth of @kind by @bytes, where it can come. */
void growth_order(struct memory *m, enum extent_kind kind, uint64_t bytes);

/* growth_claims - must hold pool_lock: an order waits for extents all of whose slabs are free. */
bool growth_claims(const struct memory *m);

/*
 * growth_request - must hold pool_lock: there is nothing left of @kind. -EAGAIN where growth by
 * @bytes may come, or -ENOMEM.
 */
int growth_request(struct memory *m, enum extent_kind kind, uint64_t bytes);

/* class_init - a class without slabs. Its lock is destroyed by whoever destroys the memory. */
void class_init(struct size_class *class);

/*
 * class_refill - take up to @want blocks of a class, cutting a slab where @cut is set.
 * Returns how many, at least 1; -EAGAIN or -ENOMEM.
 */
int class_refill(struct memory *m, unsigned class_no, bool cut, struct memory_place *place,
		 unsigned want);

/* class_free - one block of a cut slab. @used: its incarnation was given out. */
void class_free(struct memory *m, struct slab *slab, uint32_t offset, uint32_t incarnation);

/* run_alloc, run_free - a record of its own run of slabs. */
int run_alloc(struct memory *m, unsigned slabs, struct memory_place *place, struct block **block);
void run_free(struct memory *m, struct slab *slab, uint32_t incarnation);

static inline uint8_t *slab_base(const struct memory *m, const struct slab *slab)
{
	return m->extent[slab->extent].base + (size_t)slab->number * SLAB_BYTES;
}
