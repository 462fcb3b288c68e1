/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The disk's state, what operations do to it, and what a crash leaves. */
#include "tests/lib/sim_disk.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/sim_disk_state.h"

void *sim_alloc(void *old, size_t bytes)
{
	void *p = realloc(old, bytes ? bytes : 1);

	if (!p)
		abort();
	return p;
}

int sim_find(const struct sim_names *n, const char *name)
{
	for (unsigned i = 0; i < n->count; i++) {
		if (!strcmp(n->of[i].name, name))
			return (int)n->of[i].inode;
	}
	return -1;
}

bool sim_in_folder(const char *name, const char *folder)
{
	const char *slash = strrchr(name, '/');
	size_t len = slash ? (size_t)(slash - name) : 0;

	return strlen(folder) == len && !memcmp(name, folder, len);
}

static void names_clear(struct sim_names *n, const char *name)
{
	for (unsigned i = 0; i < n->count; i++) {
		if (!strcmp(n->of[i].name, name)) {
			n->of[i] = n->of[--n->count];
			return;
		}
	}
}

static void names_change(struct sim_names *n, const struct sim_change *c)
{
	if (*c->clear)
		names_clear(n, c->clear);
	if (!*c->set)
		return;
	names_clear(n, c->set);
	n->of = sim_alloc(n->of, (n->count + 1) * sizeof(*n->of));
	memcpy(n->of[n->count].name, c->set, SIM_NAME);
	n->of[n->count++].inode = c->inode;
}

/* Room for pages up to @bytes. */
static void inode_reach(struct sim_inode *f, uint64_t bytes)
{
	uint64_t pages = (bytes + SIM_PAGE - 1) / SIM_PAGE;

	if (pages <= f->pages)
		return;
	f->page = sim_alloc(f->page, pages * sizeof(*f->page));
	memset(f->page + f->pages, 0, (pages - f->pages) * sizeof(*f->page));
	f->pages = pages;
}

static struct sim_page *page_of(struct sim_inode *f, uint64_t offset)
{
	struct sim_page **p;

	inode_reach(f, offset + 1);
	p = &f->page[offset / SIM_PAGE];
	if (!*p) {
		*p = sim_alloc(NULL, sizeof(**p));
		memset(*p, 0, sizeof(**p));
	}
	return *p;
}

/* The sectors of a page that bytes from @from to @to lie in, as a mask. */
static uint8_t sectors_of(const struct sim_disk *d, uint64_t from, uint64_t to)
{
	unsigned first = (unsigned)(from % SIM_PAGE) / 512;
	unsigned last = (unsigned)((to - 1) % SIM_PAGE) / 512;

	if (d->sector == SIM_PAGE)
		return 0xff;
	return (uint8_t)((2u << last) - (1u << first));
}

static void do_write(struct sim_disk *d, struct sim_inode *f, const struct sim_op *op)
{
	const uint8_t *from = op->data;
	uint64_t at = op->offset, end = op->offset + op->len;

	while (at < end) {
		uint64_t stop = (at | (SIM_PAGE - 1)) + 1 < end ? (at | (SIM_PAGE - 1)) + 1 : end;
		struct sim_page *p = page_of(f, at);
		uint8_t mask = sectors_of(d, at, stop);

		memcpy(p->now + at % SIM_PAGE, from, stop - at);
		p->dirty |= mask;
		p->orphan &= (uint8_t)~mask;
		for (unsigned i = 0; i < 8; i++) {
			if (mask >> i & 1)
				p->stamp[i] = d->stamp;
		}
		from += stop - at;
		at = stop;
	}
	if (end > f->size) {
		f->size = end;
		f->size_stamp = d->stamp;
		f->size_orphan = false;
	}
}

static void do_sync(struct sim_inode *f, bool failed)
{
	for (uint64_t i = 0; i < f->pages; i++) {
		struct sim_page *p = f->page[i];

		if (!p || !p->dirty)
			continue;
		for (unsigned s = 0; s < 8 && !failed; s++) {
			if (p->dirty >> s & 1)
				memcpy(p->disk + 512 * s, p->now + 512 * s, 512);
		}
		if (failed)
			p->orphan |= p->dirty;
		p->dirty = 0;
	}
	if (failed)
		f->size_orphan = f->size != f->size_disk;
	else if (!f->size_orphan)
		f->size_disk = f->size;
}

static void do_sync_dir(struct sim_disk *d, const char *folder)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < d->changes; i++) {
		const struct sim_change *c = &d->change[i];

		if (sim_in_folder(*c->set ? c->set : c->clear, folder))
			names_change(&d->disk, c);
		else
			d->change[kept++] = *c;
	}
	d->changes = kept;
}

void sim_disk_settle_names(struct sim_disk *d)
{
	for (unsigned i = 0; i < d->changes; i++)
		names_change(&d->disk, &d->change[i]);
	d->changes = 0;
}

static void do_inode(struct sim_disk *d, bool folder)
{
	struct sim_inode *f = sim_alloc(NULL, sizeof(*f));

	*f = (struct sim_inode){ .folder = folder };
	d->inode = sim_alloc(d->inode, (d->inodes + 1) * sizeof(*d->inode));
	d->inode[d->inodes++] = f;
}

static void do_op(struct sim_disk *d, const struct sim_op *op)
{
	struct sim_inode *f = op->inode < d->inodes ? d->inode[op->inode] : NULL;

	d->stamp++;
	switch (op->kind) {
	case OP_SIZE:
		f->size = op->offset;
		f->size_stamp = d->stamp;
		f->size_orphan = false;
		break;
	case OP_WRITE:
		do_write(d, f, op);
		break;
	case OP_SYNC:
	case OP_SYNC_FAILED:
		do_sync(f, op->kind == OP_SYNC_FAILED);
		break;
	case OP_CHANGE:
		names_change(&d->now, &op->change);
		d->change = sim_alloc(d->change, (d->changes + 1) * sizeof(*d->change));
		d->change[d->changes] = op->change;
		d->change[d->changes++].stamp = d->stamp;
		break;
	case OP_INODE:
		do_inode(d, op->offset);
		break;
	case OP_SYNC_DIR:
		do_sync_dir(d, op->change.set);
		break;
	case OP_NOTE:
		d->noted = op->offset;
		break;
	}
}

void sim_do(struct sim_disk *d, const struct sim_op *op)
{
	struct sim_op *kept;

	do_op(d, op);
	d->op = sim_alloc(d->op, (d->ops + 1) * sizeof(*d->op));
	kept = &d->op[d->ops++];
	*kept = *op;
	if (op->data) {
		kept->data = sim_alloc(NULL, op->len);
		memcpy(kept->data, op->data, op->len);
	}
}

void sim_disk_apply(struct sim_disk *to, const struct sim_disk *from, unsigned op)
{
	assert(op < from->ops);
	do_op(to, &from->op[op]);
}

unsigned sim_disk_ops(const struct sim_disk *d)
{
	return d->ops;
}

uint64_t sim_disk_noted(const struct sim_disk *d)
{
	return d->noted;
}

size_t sim_read(const struct sim_inode *f, void *out, size_t len, uint64_t offset)
{
	uint8_t *to = out;
	uint64_t at = offset, end;

	if (offset >= f->size)
		return 0;
	end = len < f->size - offset ? offset + len : f->size;
	while (at < end) {
		uint64_t stop = (at | (SIM_PAGE - 1)) + 1 < end ? (at | (SIM_PAGE - 1)) + 1 : end;
		uint64_t page = at / SIM_PAGE;

		if (page < f->pages && f->page[page])
			memcpy(to, f->page[page]->now + at % SIM_PAGE, stop - at);
		else
			memset(to, 0, stop - at);
		to += stop - at;
		at = stop;
	}
	return end - offset;
}

struct sim_disk *sim_disk_create(unsigned sector)
{
	struct sim_disk *d = sim_alloc(NULL, sizeof(*d));

	assert(sector == 512 || sector == SIM_PAGE);
	*d = (struct sim_disk){ .sector = sector,
				.capacity = UINT64_MAX,
				.short_files = UINT64_MAX };
	pthread_mutex_init(&d->lock, NULL);
	sim_disk_io_init(d);
	return d;
}

void sim_disk_destroy(struct sim_disk *d)
{
	if (!d)
		return;
	for (unsigned i = 0; i < d->inodes; i++) {
		for (uint64_t p = 0; p < d->inode[i]->pages; p++)
			free(d->inode[i]->page[p]);
		free(d->inode[i]->page);
		free(d->inode[i]);
	}
	for (unsigned i = 0; i < d->ops; i++)
		free(d->op[i].data);
	free(d->inode);
	free(d->now.of);
	free(d->disk.of);
	free(d->change);
	free(d->op);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

static void names_copy(struct sim_names *to, const struct sim_names *from)
{
	to->count = from->count;
	to->of = sim_alloc(NULL, from->count * sizeof(*to->of));
	if (from->count)
		memcpy(to->of, from->of, from->count * sizeof(*to->of));
}

static struct sim_inode *inode_copy(const struct sim_inode *from)
{
	struct sim_inode *to = sim_alloc(NULL, sizeof(*to));

	*to = *from;
	to->page = sim_alloc(NULL, from->pages * sizeof(*to->page));
	for (uint64_t i = 0; i < from->pages; i++) {
		to->page[i] = NULL;
		if (!from->page[i])
			continue;
		to->page[i] = sim_alloc(NULL, sizeof(**to->page));
		*to->page[i] = *from->page[i];
	}
	return to;
}

struct sim_disk *sim_fork(const struct sim_disk *d)
{
	struct sim_disk *to = sim_disk_create(d->sector);

	to->inodes = d->inodes;
	to->inode = sim_alloc(NULL, d->inodes * sizeof(*to->inode));
	for (unsigned i = 0; i < d->inodes; i++)
		to->inode[i] = inode_copy(d->inode[i]);
	names_copy(&to->now, &d->now);
	names_copy(&to->disk, &d->disk);
	to->changes = d->changes;
	to->change = sim_alloc(NULL, d->changes * sizeof(*to->change));
	if (d->changes)
		memcpy(to->change, d->change, d->changes * sizeof(*to->change));
	to->stamp = d->stamp;
	to->noted = d->noted;
	to->short_files = d->short_files;
	return to;
}

struct sim_disk *sim_disk_fork(const struct sim_disk *d)
{
	struct sim_disk *to;

	sim_hold(d);
	to = sim_fork(d);
	sim_release(d);
	return to;
}
