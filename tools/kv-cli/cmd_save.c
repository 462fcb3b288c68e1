/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* save: a snapshot on the server's disk, now. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/time.h"
#include "tools/kv-cli/cli.h"
#include "tools/kv-cli/stats_table.h"
#include "tools/kv-cli/text.h"

#define LOOK_MS	  50u /* between the first two looks; each pause is longer than the one before */
#define LOOK_MAX  500u
#define BAR_WIDTH 24u

struct save {
	struct cli *cli;
	uint64_t number; /* of the snapshot */
	uint64_t failed; /* snapshots_failed before it */
	struct stats_table stats; /* the last look */
	bool shown; /* a line of progress stands on stderr */
};

static uint64_t figure(const struct save *s, const char *name)
{
	const struct stats_value *v = stats_find(&s->stats, name);

	return v ? v->value : 0;
}

static void clear(struct save *s)
{
	if (s->shown)
		fputs("\r\033[K", stderr);
	s->shown = false;
}

static void show(struct save *s)
{
	uint64_t done = figure(s, "snapshot_progress"), all = figure(s, "snapshot_total");
	double part = all ? (double)done / (double)all : 0;
	char bar[BAR_WIDTH + 1];

	if (isatty(STDERR_FILENO) != 1)
		return;
	part = part < 1 ? part : 1; /* records may be added while it is written */
	memset(bar, '.', BAR_WIDTH);
	memset(bar, '#', (size_t)(part * BAR_WIDTH));
	bar[BAR_WIDTH] = '\0';
	s->shown = true;
	fprintf(stderr, "\r\033[Ksaving [%s] %3.0f%%  %" PRIu64 " records", bar, 100 * part, done);
	fflush(stderr);
}

/* Returns 0, or CLI_FAILED after it printed why. */
static int look(struct save *s)
{
	autofree char *text = NULL;
	int rc = gkv_server_stats(s->cli->handle, &text);

	if (rc) {
		clear(s);
		return cli_call_failed(s->cli, rc, "save", NULL, 0);
	}
	if (stats_table_read(&s->stats, text, time_now_ns()))
		return cli_error(CLI_FAILED, "save: no memory");
	return 0;
}

static int failed(struct save *s)
{
	clear(s);
	return cli_error(CLI_FAILED,
			 "save: the server could not write snapshot %" PRIu64
			 " (its log says why; the log of writes is not harmed, and it tries again)",
			 s->number);
}

/* Until it is there. Returns enum cli_exit. */
static int await(struct save *s)
{
	unsigned pause_ms = LOOK_MS;
	int code;

	for (;;) {
		code = look(s);
		if (code || figure(s, "snapshots") >= s->number)
			break;
		if (figure(s, "snapshots_failed") > s->failed)
			return failed(s);
		show(s);
		if (cli_stopped()) {
			clear(s);
			return cli_error(CLI_FAILED,
					 "save: interrupted; the server goes on with snapshot "
					 "%" PRIu64 " (stats says when snapshots has reached it)",
					 s->number);
		}
		nanosleep(&(struct timespec){ .tv_nsec = (long)(pause_ms * NS_PER_MS) }, NULL);
		pause_ms = 2 * pause_ms < LOOK_MAX ? 2 * pause_ms : LOOK_MAX;
	}
	clear(s);
	return code;
}

static int say(struct save *s, bool done)
{
	double seconds = (double)figure(s, "snapshot_took_ms") / 1000;
	uint64_t bytes = figure(s, "snapshot_bytes");
	json_int_t number = (json_int_t)s->number;
	char size[TEXT_SIZE_MAX];

	if (s->cli->json && !done)
		return cli_print_json(json_pack("{s:I, s:b}", "snapshot", number, "complete", 0));
	if (s->cli->json)
		return cli_print_json(json_pack(
			"{s:I, s:b, s:I, s:I, s:I}", "snapshot", number, "complete", 1, "bytes",
			(json_int_t)bytes, "took_ms", (json_int_t)figure(s, "snapshot_took_ms"),
			"start", (json_int_t)figure(s, "snapshot_start")));
	if (!done)
		printf("snapshot %" PRIu64 " is asked for\n", s->number);
	else
		printf("snapshot %" PRIu64 ": %s in %.1f s\n", s->number, text_size(size, bytes),
		       seconds);
	return cli_flush(stdout, "stdout");
}

int cli_save(struct cli *cli)
{
	bool waits = !(cli->given & CLI_NO_WAIT);
	struct save s = { .cli = cli };
	int code, rc;

	if (cli_connect(cli))
		return CLI_FAILED;
	code = waits ? look(&s) : 0; /* what failed earlier is not this one's */
	if (code == 0) {
		s.failed = figure(&s, "snapshots_failed");
		rc = gkv_save(cli->handle, &s.number);
		if (rc)
			code = cli_call_failed(cli, rc, "save", NULL, 0);
	}
	if (code == 0 && waits) {
		cli_watch_signals();
		code = await(&s);
		cli_unwatch_signals();
	}
	if (code == 0)
		code = say(&s, waits);
	stats_table_free(&s.stats);
	return code;
}
