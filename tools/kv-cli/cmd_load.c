/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * load and verify: the records of a file, one put each, one get each and a comparison, or both.
 * Memory is bounded by two records, a batch of those to be put, the set that counts repeated keys,
 * and what differs.
 *
 * Puts wait in a batch (put_batch.h), which is sent when it is full or has the next record's key;
 * and before anything is said of what was loaded, and before a wait for input: what somebody writes
 * into a pipe, line by line, is stored line by line.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/kv-cli/load.h"
#include "tools/kv-cli/text.h"
#include "tools/kv-cli/units.h"
#include "tools/kv-cli/verify.h"

#define LOAD_REPORT_MAX 10u /* differing records that are named */
#define LOAD_EARLY_MS	1000u /* with so little time left a record may be gone before we know */

/* What a pass may say of a record: it is left out, its time has passed. No exit code. */
#define LOAD_EXPIRED (-1)

/* What a pass does with a record. Returns 0, LOAD_EXPIRED, or an exit code after it printed why. */
typedef int (*load_each)(struct load *l, const struct record *record, void *arg);

static int load_open(struct load *l)
{
	struct cli *cli = l->cli;
	struct stat st;

	if (cli->format && record_format_parse(cli->format, &l->format))
		return cli_error(CLI_USAGE,
				 "--format: '%s' is not known (give deb822, tsv or jsonl)",
				 cli->format);
	if (!cli->format && record_format_guess(l->path, &l->format))
		return cli_error(CLI_USAGE,
				 "%s: the name does not tell the format (give --format "
				 "deb822, tsv or jsonl)",
				 l->what);
	l->fd = strcmp(l->path, "-") == 0 ? dup(STDIN_FILENO) : open(l->path, O_RDONLY | O_CLOEXEC);
	if (l->fd < 0)
		return cli_error(CLI_FAILED, "%s: cannot open: %s", l->what, error_name(-errno));
	if (fstat(l->fd, &st))
		return cli_error(CLI_FAILED, "%s: fstat: %s", l->what, error_name(-errno));
	if (S_ISDIR(st.st_mode))
		return cli_error(CLI_FAILED, "%s: is a directory (give a file)", l->what);
	l->start = lseek(l->fd, 0, SEEK_CUR);
	if (l->gets && (l->puts || l->rounds > 1) && (l->start < 0 || !S_ISREG(st.st_mode)))
		return cli_error(CLI_USAGE,
				 "%s: the input is to be read more than once, and is no "
				 "regular file (write it to one first)",
				 l->what);
	if (S_ISREG(st.st_mode) && l->start >= 0 && st.st_size > l->start)
		l->file_bytes = (uint64_t)(st.st_size - l->start);
	return 0;
}

static void load_count(struct load *l, size_t key_len, size_t value_len)
{
	l->records++;
	l->bytes += key_len + value_len;
}

/* A record of the batch was not put, those before it were. Returns CLI_FAILED. */
static int load_put_failed(struct load *l, size_t at)
{
	const struct put_batch *b = l->batch;
	const struct gkv_item *item = &b->item[at];
	char shown[TEXT_KEY_MAX];

	progress_clear(&l->progress);
	return cli_error(CLI_FAILED,
			 "%s: line %" PRIu64 ": put %s: %s; %" PRIu64
			 " records were loaded before it",
			 l->what, b->line[at], text_key(shown, item->key, item->key_len),
			 b->why[0] ? b->why : gkv_strerror(item->status), l->records);
}

/* Put what waits in the batch. Returns 0, or CLI_FAILED after it printed why, once. */
static int load_send(struct load *l)
{
	struct put_batch *b = l->batch;
	size_t good;

	if (!b || l->failed)
		return l->failed;
	good = put_batch_send(b);
	for (size_t i = 0; i < good; i++) {
		load_count(l, b->item[i].key_len, b->item[i].len);
		l->repeated += key_set_add(&l->keys, b->item[i].key, b->item[i].key_len);
	}
	if (good < b->count)
		l->failed = load_put_failed(l, good);
	put_batch_clear(b);
	return l->failed;
}

/* Of the line reader, before it waits for input. */
static int load_idle(void *arg)
{
	return load_send(arg) ? -ECANCELED : 0;
}

/* Report a bad record or a failed read. Returns 0 to go on, or CLI_FAILED. */
static int load_bad(struct load *l, int rc, const struct error *err, bool report)
{
	if (rc == -EBADMSG && (l->cli->given & CLI_SKIP_BAD)) {
		l->skipped++;
		if (report) {
			progress_clear(&l->progress);
			cli_error(0, "%s: %s; skipped", l->what, err->text);
		}
		return 0;
	}
	if (load_send(l))
		return l->failed;
	progress_clear(&l->progress);
	return cli_error(CLI_FAILED, "%s: %s; %" PRIu64 " records were %s before it%s", l->what,
			 err->text, l->records, l->puts ? "loaded" : "compared",
			 rc == -EBADMSG ? " (--skip-bad goes on)" : "");
}

/* A signal came. Returns CLI_FAILED. */
static int load_stopped(struct load *l, uint64_t line)
{
	if (load_send(l))
		return l->failed;
	progress_clear(&l->progress);
	return cli_error(CLI_FAILED,
			 "%s: stopped by a signal in line %" PRIu64 "; %" PRIu64
			 " records were done before",
			 l->what, line, l->records);
}

/* Read the file from its start to its end. */
static int load_pass(struct load *l, const char *verb, bool report, load_each each, void *arg)
{
	struct record_reader reader;
	struct record record;
	struct error err;
	int rc, code = 0;

	l->records = l->bytes = l->skipped = l->expired = 0;
	progress_start(&l->progress, verb, l->file_bytes);
	if (record_reader_init(&reader, l->fd, l->format))
		return cli_error(CLI_FAILED, "%s: no memory", l->what);
	line_reader_idle(&reader.lines, load_idle, l);
	while (code == 0 && (rc = record_reader_next(&reader, &record, &err)) != 0) {
		if (rc < 0) {
			code = load_bad(l, rc, &err, report);
			continue;
		}
		code = each(l, &record, arg);
		if (code == LOAD_EXPIRED) {
			l->expired++;
			code = 0;
		} else if (code) {
			break;
		}
		progress_show(&l->progress, reader.lines.consumed, l->records, l->bytes);
		if (cli_stopped())
			code = load_stopped(l, record.line);
	}
	if (code == 0)
		code = load_send(l);
	progress_clear(&l->progress);
	record_reader_free(&reader);
	return code;
}

/*
 * The time that a record has left; 0: it never expires. Returns 0; LOAD_EXPIRED: none, or no more
 * than @early_ms; CLI_FAILED after it printed why.
 */
static int load_left(struct load *l, const struct record *record, uint64_t early_ms,
		     uint64_t *ttl_ms)
{
	uint64_t now_ms;

	*ttl_ms = 0;
	if (!record->expiry_ms)
		return 0;
	if (cli_clock(l->cli, &now_ms))
		return CLI_FAILED;
	*ttl_ms = units_left_ms(record->expiry_ms, now_ms);
	if (*ttl_ms > GKV_TTL_MAX)
		*ttl_ms = GKV_TTL_MAX; /* of a server whose clock was ahead */
	return *ttl_ms > early_ms ? 0 : LOAD_EXPIRED;
}

static int load_put(struct load *l, const struct record *record, void *arg)
{
	uint64_t ttl_ms;
	int rc = load_left(l, record, 0, &ttl_ms);

	(void)arg;
	if (rc)
		return rc;
	if (!put_batch_takes(l->batch, record->key, record->key_len, record->value_len) &&
	    load_send(l))
		return l->failed;
	if (put_batch_add(l->batch, record->key, record->key_len, record->value, record->value_len,
			  ttl_ms, record->line))
		return load_send(l);
	return 0;
}

static int load_compare(struct load *l, const struct record *record, void *arg)
{
	struct verify *v = arg;
	const void *value = NULL;
	struct gkv_meta meta;
	uint64_t left_ms;
	int rc, code = load_left(l, record, 0, &left_ms); /* first: a view is gone after it */

	if (code)
		return code;
	rc = gkv_get_view(l->cli->handle, record->key, record->key_len, &value, &meta);

	if (rc && rc != -ENOENT) {
		progress_clear(&l->progress);
		return cli_call_failed(l->cli, rc, "verify: get", record->key, record->key_len);
	}
	if (rc)
		code = load_left(l, record, LOAD_EARLY_MS, &left_ms);
	if (code)
		return code;
	if (rc == 0 && !value)
		value = ""; /* an empty value that was found */
	rc = verify_record(v, record, rc ? NULL : value, rc ? 0 : meta.value_len);
	if (rc) {
		progress_clear(&l->progress);
		return cli_error(CLI_FAILED, "verify: %s; gave up in line %" PRIu64,
				 rc == -E2BIG ? "too many records differ" : "no memory",
				 record->line);
	}
	load_count(l, record->key_len, record->value_len);
	return 0;
}

static void load_print_differing(const char *sentence)
{
	cli_error(0, "verify: %s", sentence);
}

/* One pass of comparing. Returns 0 or CLI_FAILED after it printed why. */
static int load_verify_round(struct load *l, uint64_t round, struct verify *v)
{
	int code;

	if ((l->puts || round) && lseek(l->fd, l->start, SEEK_SET) < 0)
		return cli_error(CLI_FAILED, "%s: going back to its start: %s", l->what,
				 error_name(-errno));
	code = load_pass(l, "verifying", !l->puts && !round, load_compare, v);
	l->verify_seconds += progress_seconds(&l->progress);
	l->verified += l->records;
	l->verified_bytes += l->bytes;
	if (code == 0 && l->puts && l->records + l->expired != l->loaded + l->loaded_expired)
		code = cli_error(CLI_FAILED,
				 "%s: changed meanwhile: %" PRIu64
				 " records at first, then %" PRIu64,
				 l->what, l->loaded + l->loaded_expired, l->records + l->expired);
	return code;
}

static int load_verify(struct load *l)
{
	struct gkv_stats before, *after = &l->stats;
	struct verify v = { 0 };
	int code = 0;

	gkv_stats_get(l->cli->handle, &before);
	for (uint64_t round = 0; code == 0 && round < l->rounds; round++)
		code = load_verify_round(l, round, &v);
	gkv_stats_get(l->cli->handle, after);
	after->gets -= before.gets;
	after->reads -= before.reads;
	after->rpc_fallbacks -= before.rpc_fallbacks;
	if (code == 0) {
		l->differing = verify_report(&v, LOAD_REPORT_MAX, load_print_differing);
		if (l->differing > LOAD_REPORT_MAX)
			cli_error(0, "verify: and %zu more", l->differing - LOAD_REPORT_MAX);
	}
	verify_free(&v);
	return code;
}

static int load_puts(struct load *l)
{
	int code;

	l->batch = put_batch_new(l->cli->session, l->cli->handle);
	if (!l->batch)
		return cli_error(CLI_FAILED, "%s: no memory", l->what);
	code = load_pass(l, "loading", true, load_put, NULL);
	l->seconds = progress_seconds(&l->progress);
	l->repeated_more = l->keys.full;
	l->loaded = l->records;
	l->loaded_bytes = l->bytes;
	l->loaded_expired = l->expired;
	key_set_free(&l->keys);
	put_batch_free(l->batch);
	l->batch = NULL;
	return code;
}

static int load_run(struct load *l)
{
	int code = cli_connect(l->cli);

	cli_watch_signals();
	if (code == 0 && l->puts)
		code = load_puts(l);
	if (code == 0 && l->gets)
		code = load_verify(l);
	if (code == 0 && l->records + l->skipped + l->expired == 0)
		code = cli_error(CLI_FAILED, "%s: there are no records in it", l->what);
	if (code || load_print(l))
		return CLI_FAILED;
	return l->skipped || l->differing ? CLI_NO : CLI_OK;
}

static int load_file(struct cli *cli, bool puts, bool gets)
{
	struct load l = { .cli = cli,
			  .path = cli->operands[0],
			  .fd = -1,
			  .puts = puts,
			  .gets = gets,
			  .rounds = 1 };
	int code;

	if (cli_stdin(cli, l.path, "give a file"))
		return CLI_USAGE;
	snprintf(l.what, sizeof(l.what), "%s %s", cli->command->name, l.path);
	if (cli->given & CLI_COUNT)
		l.rounds = cli->count;
	code = load_open(&l);
	if (code == 0)
		code = load_run(&l);
	if (l.fd >= 0)
		close(l.fd);
	return code;
}

int cli_load(struct cli *cli)
{
	return load_file(cli, true, cli->given & CLI_VERIFY);
}

int cli_verify(struct cli *cli)
{
	return load_file(cli, false, true);
}
