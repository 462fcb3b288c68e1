/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* load and verify under way, and what came of them. One thread. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/include/gracekv.h"
#include "tools/kv-cli/cli.h"
#include "tools/kv-cli/key_set.h"
#include "tools/kv-cli/progress.h"
#include "tools/kv-cli/put_batch.h"
#include "tools/kv-cli/record_reader.h"

struct load {
	struct cli *cli;
	const char *path; /* as given; "-" is stdin */
	char what[PATH_MAX + 16]; /* "load FILE", for messages */
	bool puts, gets; /* which passes are made */
	uint64_t rounds; /* passes that get */
	int fd;
	enum record_format format;
	uint64_t file_bytes; /* 0: not known */
	off_t start; /* of the records in a file that is read twice */
	struct progress progress;
	struct put_batch
		*batch; /* of the pass that puts: records that were read, and not put yet */
	struct key_set keys; /* that were put */
	int failed; /* the exit code of a put that failed, 0: none did */
	/* what the pass under way did */
	uint64_t records, bytes, skipped;
	uint64_t expired; /* records that were left out as their time had passed */
	/* results */
	uint64_t repeated;
	bool repeated_more; /* the set was full: there may be more */
	double seconds, verify_seconds;
	uint64_t loaded, loaded_bytes, loaded_expired, verified, verified_bytes;
	size_t differing;
	struct gkv_stats stats; /* of the pass that gets */
};

/* load_print - the results, as text or JSON. Returns 0 or CLI_FAILED. */
int load_print(const struct load *l);
