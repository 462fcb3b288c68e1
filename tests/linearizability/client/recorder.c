/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Records stand in a shared mapping of the file, so what was stored is in the file when the process
 * is killed in the next instruction. Fields first, then call_ns: a record that has one has all that
 * it was begun with; the results first, then return_ns. Both with release, so that the compiler
 * keeps that order; the file is read when the process is gone.
 */
#include "tests/linearizability/client/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PART_RECORDS 16384u
#define PART_BYTES   (PART_RECORDS * sizeof(struct history_record))

static int add_part(struct recorder *r)
{
	off_t at = (off_t)(r->parts * PART_BYTES);
	struct history_record *part;
	int rc;

	if (r->parts == RECORDER_PARTS)
		return -EFBIG;
	do {
		rc = posix_fallocate(r->fd, at, PART_BYTES); /* or a full disk is a SIGBUS later */
	} while (rc == EINTR); /* tmpfs gives up where the process is stopped meanwhile */
	if (rc)
		return -rc;
	part = mmap(NULL, PART_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, at);
	if (part == MAP_FAILED)
		return -errno;
	r->part[r->parts++] = part;
	r->used = 0;
	return 0;
}

int recorder_open(struct recorder *r, const char *folder, uint32_t process, uint32_t thread,
		  struct error *err)
{
	struct history_head *head;
	char path[4096];
	int rc;

	snprintf(path, sizeof(path), "%s/history.%u.%u", folder, process, thread);
	r->parts = 0;
	r->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	rc = r->fd < 0 ? -errno : add_part(r);
	if (rc == -EEXIST)
		return error_set(err, rc,
				 "%s is there already: give another --process, or --folder", path);
	if (rc)
		return error_set(
			err, rc,
			"%s cannot be made: %s (it wants a folder that is there, and 1 MiB)", path,
			error_name(rc));
	head = (struct history_head *)r->part[0];
	head->process = process;
	head->thread = thread;
	head->magic = HISTORY_MAGIC;
	r->used = 1;
	return 0;
}

void recorder_close(struct recorder *r)
{
	for (unsigned i = 0; i < r->parts; i++)
		munmap(r->part[i], PART_BYTES);
	close(r->fd);
}

struct history_record *recorder_begin(struct recorder *r, const struct history_record *as,
				      uint64_t call_ns)
{
	struct history_record *record;

	if (r->used == PART_RECORDS) {
		int rc = add_part(r);

		if (rc) {
			fprintf(stderr,
				"lin-client: the history cannot grow: %s (a folder with more room, "
				"TMPDIR of run.py, or a shorter --round of it)\n",
				error_name(rc));
			exit(3);
		}
	}
	record = &r->part[r->parts - 1][r->used++];
	record->slot = as->slot;
	record->generation = as->generation;
	record->op = as->op;
	record->way = as->way;
	record->outcome = HISTORY_OPEN;
	record->value = as->value;
	record->expected = as->expected;
	atomic_store_explicit(&record->call_ns, call_ns, memory_order_release);
	return record;
}

void recorder_end(struct history_record *record, const struct history_record *as,
		  uint64_t return_ns)
{
	record->outcome = as->outcome;
	record->status = as->status;
	record->seen = as->seen;
	record->version = as->version;
	atomic_store_explicit(&record->return_ns, return_ns, memory_order_release);
}
