/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A disk in memory, as a struct log_io, that can crash: what was not synced is kept or lost, each
 * sector and each name for itself.
 *
 * What is LOOSE, that is, may or may not survive a crash: a sector that was written, the length of
 * a file that grew, a name that was made, renamed or unlinked; until a sync of the file, or of the
 * folder for names, succeeds. A sync that FAILS leaves its sectors loose for ever: the kernel calls
 * them clean then, and a second sync, which succeeds, says nothing about them.
 *
 * Everything is RECORDED: a test runs something on a disk once, and takes a fork that it made
 * before through the record, an operation at a time; at each of them it can let the fork crash.
 *
 * The table's functions may be called by any thread, and a disk may be forked and crash meanwhile;
 * the rest is called by one, while no other uses the disk.
 */
#include "server/log/io.h"

struct sim_disk;

enum sim_call {
	SIM_OPEN,
	SIM_PREALLOCATE,
	SIM_WRITE,
	SIM_SYNC,
	SIM_READ,
	SIM_RENAME,
	SIM_UNLINK,
	SIM_SYNC_DIR,
	SIM_CALLS,
};

/* @sector: 512 or 4096: what a disk writes as a whole. */
struct sim_disk *sim_disk_create(unsigned sector);
void sim_disk_destroy(struct sim_disk *d);

/* sim_disk_io - its table; valid as long as the disk. */
const struct log_io *sim_disk_io(struct sim_disk *d);

/*
 * sim_disk_fork - a copy, what is loose included: what a killed process leaves behind. It has no
 * record yet, no faults and no open files.
 */
struct sim_disk *sim_disk_fork(const struct sim_disk *d);

/*
 * sim_disk_loose - how many things are loose.
 * sim_disk_crash - a new disk, as it is after a power cut now: of what is loose it has that for
 * which keep(ctx, i) is true, i from 0 in order of time. Nothing on it is loose.
 */
unsigned sim_disk_loose(const struct sim_disk *d);
struct sim_disk *sim_disk_crash(const struct sim_disk *d, bool (*keep)(void *ctx, unsigned i),
				void *ctx);

/*
 * sim_disk_ops - how many operations that change something are recorded.
 * sim_disk_apply - does operation @op of @from's record on @to, a fork of @from as it was in the
 * beginning on which those before have been done.
 * sim_disk_note - records @value, which is known from now on. Any thread.
 * sim_disk_noted - the value of the last note that was made or applied; at first 0.
 */
unsigned sim_disk_ops(const struct sim_disk *d);
void sim_disk_apply(struct sim_disk *to, const struct sim_disk *from, unsigned op);
void sim_disk_note(struct sim_disk *d, uint64_t value);
uint64_t sim_disk_noted(const struct sim_disk *d);

/*
 * Faults. Any thread.
 * sim_disk_fail - the call of that kind after @after others returns @error, once. A write does half
 * of its work before it; a sync as above. SIM_WRITE and SIM_SYNC count write_durable() too.
 * sim_disk_short_read - the read after @after others brings half of what it was asked for.
 * sim_disk_capacity - of all files together; preallocate() returns -ENOSPC above it.
 * sim_disk_delay - each call of that kind takes that time.
 * sim_disk_calls - how many there were.
 */
void sim_disk_fail(struct sim_disk *d, enum sim_call call, unsigned after, int error);
void sim_disk_short_read(struct sim_disk *d, unsigned after);
void sim_disk_capacity(struct sim_disk *d, uint64_t bytes);
void sim_disk_delay(struct sim_disk *d, enum sim_call call, uint64_t ns);
unsigned sim_disk_calls(struct sim_disk *d, enum sim_call call);

/* sim_disk_short_files - preallocate() makes files of @bytes at most, which grow where they are
 * written: a test that reads thousands of disks need not read their zeroes. */
void sim_disk_short_files(struct sim_disk *d, uint64_t bytes);

/*
 * Behind the back of whoever uses the disk, and durable at once.
 * sim_disk_size - of the file; -ENOENT.
 * sim_disk_get, sim_disk_set - @len bytes of it at @offset; the file is there, and a set makes it
 * longer where needed.
 * sim_disk_make - an empty one.
 */
int64_t sim_disk_size(const struct sim_disk *d, const char *name);
void sim_disk_get(const struct sim_disk *d, const char *name, void *out, size_t len,
		  uint64_t offset);
void sim_disk_set(struct sim_disk *d, const char *name, const void *bytes, size_t len,
		  uint64_t offset);
void sim_disk_make(struct sim_disk *d, const char *name);
