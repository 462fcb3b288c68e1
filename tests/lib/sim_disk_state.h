/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What a disk of sim_disk.h is: of sim_disk.c (state, crashes) and sim_disk_io.c (the table). */
#include <pthread.h>
#include <stdint.h>

#include "tests/lib/sim_disk.h"

#define SIM_PAGE 4096u
#define SIM_NAME 64u

/* A page of a file that was written. Bit i of a mask: its sector of 512 bytes at i * 512. */
struct sim_page {
	uint8_t now[SIM_PAGE]; /* as a read has it */
	uint8_t disk[SIM_PAGE]; /* as it is sure to be after a crash */
	uint8_t dirty; /* a sync makes them durable */
	uint8_t orphan; /* of a sync that failed */
	uint32_t stamp[SIM_PAGE / 512]; /* when it was written */
};

struct sim_inode {
	bool folder;
	uint64_t size, size_disk;
	uint32_t size_stamp;
	bool size_orphan;
	struct sim_page **page; /* NULL: zeroes */
	uint64_t pages;
};

struct sim_name {
	char name[SIM_NAME];
	unsigned inode;
};

/* A change of names that no sync_dir() has made durable. */
struct sim_change {
	char set[SIM_NAME], clear[SIM_NAME]; /* "": none */
	unsigned inode; /* of @set */
	uint32_t stamp;
};

struct sim_names {
	struct sim_name *of;
	unsigned count;
};

enum sim_op_kind {
	OP_SIZE,
	OP_WRITE,
	OP_SYNC,
	OP_SYNC_FAILED,
	OP_CHANGE,
	OP_INODE,
	OP_SYNC_DIR,
	OP_NOTE,
};

struct sim_op {
	enum sim_op_kind kind;
	unsigned inode;
	uint64_t offset; /* or value, or length of the file; folder: of OP_INODE */
	size_t len;
	void *data; /* of OP_WRITE; owned by the record */
	struct sim_change change; /* set: OP_SYNC_DIR's folder */
};

struct sim_fault {
	unsigned calls, fail_at; /* fail_at: a number of a call, from 1; 0: none */
	int error;
	uint64_t delay_ns;
};

struct sim_disk {
	struct log_io io;
	pthread_mutex_t lock; /* of all below */
	unsigned sector;
	struct sim_inode **inode;
	unsigned inodes;
	struct sim_names now, disk;
	struct sim_change *change;
	unsigned changes;
	uint32_t stamp;
	struct sim_op *op;
	unsigned ops;
	uint64_t noted;
	struct sim_fault fault[SIM_CALLS];
	unsigned short_read_at;
	uint64_t capacity, short_files;
};

/* sim_find - the inode of that name, or -1. */
int sim_find(const struct sim_names *n, const char *name);

/* sim_do - do and record it; @data of it is copied. */
void sim_do(struct sim_disk *d, const struct sim_op *op);

/* sim_read - at most @len bytes of an inode, as they are now. */
size_t sim_read(const struct sim_inode *f, void *out, size_t len, uint64_t offset);

/* sim_in_folder - whether the file stands right in @folder. */
bool sim_in_folder(const char *name, const char *folder);

/* sim_disk_settle_names - all changes of names that are left become durable. */
void sim_disk_settle_names(struct sim_disk *d);

/* sim_fork - as sim_disk_fork(), between sim_hold() and sim_release(), which keep others out. */
struct sim_disk *sim_fork(const struct sim_disk *d);

static inline void sim_hold(const struct sim_disk *d)
{
	pthread_mutex_lock((pthread_mutex_t *)&d->lock);
}

static inline void sim_release(const struct sim_disk *d)
{
	pthread_mutex_unlock((pthread_mutex_t *)&d->lock);
}

void *sim_alloc(void *old, size_t bytes); /* realloc() or abort() */
void sim_disk_io_init(struct sim_disk *d);
