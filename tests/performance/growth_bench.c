/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * growth-bench: what growth of the table costs one-sided readers.
 *
 * Two busy threads: a reader, in a process of its own, that GETs existing keys one after the other,
 * and a writer, in the process of the server, straight into its store. Slices of growing, of a
 * still table and of overwriting without growth alternate until the table has --keys. The floor
 * is the still table of the same rounds; overwriting at the same rate tells what is growth and what
 * is a second busy thread on the machine.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "tools/lib/option_rows.h"
#include "server/reclaim/qsbr.h"
#include "tests/performance/growth_bench.h"

static struct growth_bench bench = { .o = { .keys = 10000000,
					    .start = 100000,
					    .value_len = 64,
					    .slice_ms = 100,
					    .memory_bytes = 4ull << 30 },
				     .seed = 1 };

#define OPTION_BASE bench.o

static const struct program_option options[] = {
	NUMBER("keys", 'k', "N", keys, 2, 1000000000, "that the table grows to [10000000]"),
	NUMBER("start", 'b', "N", start, 1, 1000000000, "that it has at first [100000]"),
	NUMBER("value", 'v', "BYTES", value_len, GROWTH_VALUE_MIN, 65536,
	       "of each record, from 8 [64]"),
	NUMBER("rate", 'R', "N", rate, 100, 100000000, "inserts a second [as many as it can]"),
	NUMBER("slice", 'T', "MS", slice_ms, 10, 10000, "length of a slice, 10 to 10000 [100]"),
	SIZE("memory", 'M', memory_bytes, 8 << 20, 1ull << 40, "of the server [4G]"),
	OPTION_JSON(json),
	OPTION_CHECK(check),
	{ NULL },
};

const struct program growth_program = {
	.name = "growth-bench",
	.usage = "Usage: growth-bench [OPTIONS]\n\n"
		 "One-sided GETs while the table grows, against the same on a still table and on "
		 "one that\n"
		 "is overwritten, in alternating slices of one run; and how long inserts take. "
		 "Holds a\n"
		 "server in its own process, on soft0; wants two idle cores.\n\n",
	.notes = "\n"
		 "Example:\n  growth-bench --keys 10000000 --check\n",
	.options = options,
};

static int die(const char *what, const char *why)
{
	return program_failed(&growth_program, what, why);
}

static int fork_reader(struct growth_bench *b, pid_t *reader)
{
	pid_t parent = getpid();

	b->shared = mmap(NULL, sizeof(*b->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b->shared == MAP_FAILED)
		return die("memory", error_name(errno));
	b->shared->value_len = b->o.value_len;
	*reader = fork();
	if (*reader < 0)
		return die("fork", error_name(errno));
	if (*reader == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(3);
		growth_reader(b->shared);
	}
	return 0;
}

static int measure(struct growth_bench *b)
{
	int rc = store_worker_create(&b->store, &b->server.server.store, 0);

	if (rc)
		return die("the writer", error_name(rc));
	qsbr_register();
	rc = growth_fill(b);
	if (rc == 0)
		rc = growth_rounds(b);
	qsbr_unregister();
	store_worker_destroy(&b->store);
	return rc ? rc : growth_report(b);
}

/* The reader first, while there is a server to take leave of. Calls of its library end in time. */
static int end_reader(struct growth_bench *b, pid_t reader)
{
	int status;

	atomic_store(&b->shared->order, UINT32_MAX << 3 | GROWTH_END);
	return waitpid(reader, &status, 0) == reader && status == 0 ? 0 : 3;
}

static int run(struct growth_bench *b, pid_t reader)
{
	struct error err;
	int rc, ended;

	if (server_thread_start(&b->server, b->o.memory_bytes, 0, &err)) {
		end_reader(b, reader);
		return die("starting the server", err.text);
	}
	snprintf(b->shared->server, sizeof(b->shared->server), "%s", b->server.server.bound);
	rc = measure(b);
	ended = end_reader(b, reader); /* not 0: it has said why */
	if (rc == 0)
		rc = ended;
	if (server_thread_stop(&b->server) && rc == 0)
		rc = die("stopping the server", b->server.err.text);
	return rc;
}

int main(int argc, char **argv)
{
	pid_t reader = 0;
	int status;

	if (program_options(&growth_program, argc, argv, &status))
		return status;
	if (bench.o.start >= bench.o.keys)
		return program_usage(&growth_program, "--start must be below --keys");
	log_setup("growth-bench", LOG_WARN, LOG_TEXT);
	status = fork_reader(&bench, &reader);
	return program_end(&growth_program, status ? status : run(&bench, reader));
}
