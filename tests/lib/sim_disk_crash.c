/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What is loose on a disk, in order of time, and the disk after a crash. */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/sim_disk_state.h"

/* One loose thing: a sector, the length of a file, or a change of names. */
struct loose {
	uint32_t stamp;
	enum { SECTOR, LENGTH, CHANGE } what;
	unsigned inode; /* or number of the change */
	uint64_t page;
	uint8_t mask;
};

struct loose_list {
	struct loose *of;
	unsigned count;
};

static void add(struct loose_list *l, struct loose what)
{
	l->of = sim_alloc(l->of, (l->count + 1) * sizeof(*l->of));
	l->of[l->count++] = what;
}

static void add_page(struct loose_list *l, const struct sim_disk *d, unsigned inode, uint64_t page)
{
	const struct sim_page *p = d->inode[inode]->page[page];
	uint8_t mask = p ? p->dirty | p->orphan : 0;

	for (unsigned i = 0; i < 8 && mask; i += d->sector / 512) {
		uint8_t one = d->sector == 512 ? (uint8_t)(1u << i) : 0xff;

		if (mask & one)
			add(l, (struct loose){ p->stamp[i], SECTOR, inode, page, one });
	}
}

static int by_time(const void *a, const void *b)
{
	const struct loose *x = a, *y = b;

	if (x->stamp != y->stamp)
		return x->stamp < y->stamp ? -1 : 1;
	if (x->page != y->page)
		return x->page < y->page ? -1 : 1;
	return (int)x->mask - (int)y->mask;
}

static struct loose_list collect(const struct sim_disk *d)
{
	struct loose_list l = { 0 };

	for (unsigned i = 0; i < d->inodes; i++) {
		const struct sim_inode *f = d->inode[i];

		for (uint64_t p = 0; p < f->pages; p++)
			add_page(&l, d, i, p);
		if (f->size != f->size_disk)
			add(&l, (struct loose){ f->size_stamp, LENGTH, i, 0, 0 });
	}
	for (unsigned i = 0; i < d->changes; i++)
		add(&l, (struct loose){ d->change[i].stamp, CHANGE, i, 0, 0 });
	if (l.count)
		qsort(l.of, l.count, sizeof(*l.of), by_time);
	return l;
}

unsigned sim_disk_loose(const struct sim_disk *d)
{
	struct loose_list l = collect(d);

	free(l.of);
	return l.count;
}

/* It survives: on @to, a fork, it becomes as sure as if it had been synced. */
static void survive(struct sim_disk *to, const struct loose *what)
{
	struct sim_page *p;

	switch (what->what) {
	case SECTOR:
		p = to->inode[what->inode]->page[what->page];
		for (unsigned i = 0; i < 8; i++) {
			if (what->mask >> i & 1)
				memcpy(p->disk + 512 * i, p->now + 512 * i, 512);
		}
		break;
	case LENGTH:
		to->inode[what->inode]->size_disk = to->inode[what->inode]->size;
		break;
	case CHANGE:
		to->change[what->inode].stamp = 0;
		break;
	}
}

/* Nothing is read behind the end of a file, whatever is written there later. */
static void cut_pages(struct sim_inode *f)
{
	for (uint64_t i = 0; i < f->pages; i++) {
		struct sim_page *p = f->page[i];
		uint64_t start = i * SIM_PAGE;
		uint64_t keep;

		if (!p)
			continue;
		keep = f->size_disk <= start		 ? 0
		       : f->size_disk - start > SIM_PAGE ? SIM_PAGE
							 : f->size_disk - start;
		memset(p->disk + keep, 0, SIM_PAGE - keep);
		memcpy(p->now, p->disk, SIM_PAGE);
		p->dirty = 0;
		p->orphan = 0;
	}
	f->size = f->size_disk;
	f->size_orphan = false;
}

/* A folder that is gone takes what was in it with it. */
static void drop_lost_folders(struct sim_names *n)
{
	for (unsigned i = 0; i < n->count;) {
		char folder[SIM_NAME];
		char *slash;

		memcpy(folder, n->of[i].name, SIM_NAME);
		slash = strrchr(folder, '/');
		if (slash)
			*slash = 0;
		if (!slash || sim_find(n, folder) >= 0)
			i++;
		else
			n->of[i] = n->of[--n->count];
	}
}

struct sim_disk *sim_disk_crash(const struct sim_disk *d, bool (*keep)(void *ctx, unsigned i),
				void *ctx)
{
	struct loose_list l;
	struct sim_disk *to;
	unsigned kept = 0;

	sim_hold(d);
	l = collect(d);
	to = sim_fork(d);
	sim_release(d);

	for (unsigned i = 0; i < l.count; i++) {
		if (keep(ctx, i))
			survive(to, &l.of[i]);
	}
	for (unsigned i = 0; i < to->changes; i++) {
		if (to->change[i].stamp == 0)
			to->change[kept++] = to->change[i];
	}
	to->changes = kept;
	sim_disk_settle_names(to);
	drop_lost_folders(&to->disk);
	free(to->now.of);
	to->now.count = to->disk.count;
	to->now.of = sim_alloc(NULL, to->disk.count * sizeof(*to->now.of));
	if (to->disk.count)
		memcpy(to->now.of, to->disk.of, to->disk.count * sizeof(*to->now.of));
	for (unsigned i = 0; i < to->inodes; i++)
		cut_pages(to->inode[i]);
	free(l.of);
	return to;
}
