/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Writes the history of one thread (history.h). */
#include "common/base/error.h"
#include "tests/linearizability/client/history.h"

#define RECORDER_PARTS 4096u /* of 16,384 records */

struct recorder {
	int fd;
	unsigned parts;
	uint32_t used; /* records of the last part */
	struct history_record *part[RECORDER_PARTS];
};

/* recorder_open - makes FOLDER/history.PROCESS.THREAD, which is not there. */
int recorder_open(struct recorder *r, const char *folder, uint32_t process, uint32_t thread,
		  struct error *err);
void recorder_close(struct recorder *r);

/*
 * recorder_begin - an operation begins: a record with what @as says up to `expected`, and the time.
 * It stays where it is; of one thread. Ends the program where the file cannot grow.
 * recorder_end - it has ended: @as has outcome, status, seen and version.
 */
struct history_record *recorder_begin(struct recorder *r, const struct history_record *as,
				      uint64_t call_ns);
void recorder_end(struct history_record *record, const struct history_record *as,
		  uint64_t return_ns);
