/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * load and verify: the records of a file, one put each, one get each and a comparison, or both.
 * Memory is bounded by two records, the set that counts repeated keys, and what differs.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/kv-cli/cli.h"
#include "tools/kv-cli/key_set.h"
#include "tools/kv-cli/progress.h"
#include "tools/kv-cli/record_reader.h"
#include "tools/kv-cli/text.h"
#include "tools/kv-cli/units.h"
#include "tools/kv-cli/verify.h"

#define LOAD_REPORT_MAX 10u /* differing records that are named */
#define LOAD_EARLY_MS	1000u /* with so little time left a record may be gone before we know */

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
	progress_clear(&l->progress);
	return cli_error(CLI_FAILED, "%s: %s; %" PRIu64 " records were %s before it%s", l->what,
			 err->text, l->records, l->puts ? "loaded" : "compared",
			 rc == -EBADMSG ? " (--skip-bad goes on)" : "");
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
		} else {
			l->records++;
			l->bytes += record.key_len + record.value_len;
		}
		progress_show(&l->progress, reader.lines.consumed, l->records, l->bytes);
		if (cli_stopped()) {
			progress_clear(&l->progress);
			code = cli_error(CLI_FAILED,
					 "%s: stopped by a signal in line %" PRIu64 "; %" PRIu64
					 " records were done before",
					 l->what, record.line, l->records);
		}
	}
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
	struct gkv_write_options options = { .condition = GKV_ALWAYS };
	struct key_set *keys = arg;
	char shown[TEXT_KEY_MAX];
	struct gkv_meta meta;
	const char *why;
	int rc = load_left(l, record, 0, &options.ttl_ms);

	if (rc)
		return rc;
	rc = gkv_put_with(l->cli->handle, record->key, record->key_len, record->value,
			  record->value_len, &options, &meta);
	if (rc == 0) {
		l->repeated += key_set_add(keys, record->key, record->key_len);
		return 0;
	}
	progress_clear(&l->progress);
	why = gkv_error(l->cli->handle);
	return cli_error(CLI_FAILED,
			 "%s: line %" PRIu64 ": put %s: %s; %" PRIu64
			 " records were loaded before it",
			 l->what, record->line, text_key(shown, record->key, record->key_len),
			 why[0] ? why : gkv_strerror(rc), l->records);
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

static double load_reads_per_get(const struct load *l)
{
	return l->stats.gets ? (double)l->stats.reads / (double)l->stats.gets : 0;
}

static json_t *load_verify_json(const struct load *l)
{
	return json_pack("{s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:f, s:I, s:I, s:I}", "records",
			 (json_int_t)l->verified, "bytes", (json_int_t)l->verified_bytes,
			 "mismatches", (json_int_t)l->differing, "seconds", l->verify_seconds,
			 "gets_per_s", (double)l->verified / l->verify_seconds, "gets",
			 (json_int_t)l->stats.gets, "reads", (json_int_t)l->stats.reads,
			 "reads_per_get", load_reads_per_get(l), "rpc_fallbacks",
			 (json_int_t)l->stats.rpc_fallbacks, "skipped", (json_int_t)l->skipped,
			 "expired", (json_int_t)l->expired);
}

static int load_print_json(const struct load *l)
{
	if (!l->puts)
		return cli_print_json(load_verify_json(l));
	return cli_print_json(json_pack(
		"{s:I, s:I, s:f, s:f, s:I, s:b, s:I, s:I, s:o*}", "records", (json_int_t)l->loaded,
		"bytes", (json_int_t)l->loaded_bytes, "seconds", l->seconds, "records_per_s",
		(double)l->loaded / l->seconds, "repeated", (json_int_t)l->repeated,
		"repeated_is_exact", !l->repeated_more, "skipped", (json_int_t)l->skipped,
		"expired", (json_int_t)l->loaded_expired, "verify",
		l->gets ? load_verify_json(l) : NULL));
}

static int load_print(const struct load *l)
{
	char size[TEXT_SIZE_MAX];

	if (l->cli->json)
		return load_print_json(l);
	if (l->puts)
		printf("loaded %" PRIu64 " records, %s in %.1f s (%.0f/s)", l->loaded,
		       text_size(size, l->loaded_bytes), l->seconds,
		       (double)l->loaded / l->seconds);
	if (l->repeated)
		printf(", %s%" PRIu64 " repeat a key (the last one stays)",
		       l->repeated_more ? "at least " : "", l->repeated);
	if (l->puts && l->skipped)
		printf(", %" PRIu64 " bad ones skipped", l->skipped);
	if (l->loaded_expired)
		printf(", skipped %" PRIu64 " expired", l->loaded_expired);
	if (l->puts && l->gets)
		putchar('\n');
	if (l->gets)
		printf("verified %" PRIu64 " records, %s in %.1f s (%.0f/s, %.2f READs per GET), "
		       "%zu mismatches",
		       l->verified, text_size(size, l->verified_bytes), l->verify_seconds,
		       (double)l->verified / l->verify_seconds, load_reads_per_get(l),
		       l->differing);
	if (!l->puts && l->skipped)
		printf(", %" PRIu64 " bad ones skipped", l->skipped);
	if (l->gets && l->expired)
		printf(", %" PRIu64 " expired", l->expired);
	putchar('\n');
	return cli_flush(stdout, "stdout");
}

static int load_puts(struct load *l)
{
	struct key_set keys = { 0 };
	int code = load_pass(l, "loading", true, load_put, &keys);

	l->seconds = progress_seconds(&l->progress);
	l->repeated_more = keys.full;
	l->loaded = l->records;
	l->loaded_bytes = l->bytes;
	l->loaded_expired = l->expired;
	key_set_free(&keys);
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
