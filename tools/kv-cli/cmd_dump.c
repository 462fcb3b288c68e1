/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* dump, keys and count: the records of the store, or those of a prefix, by one-sided reads. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/time.h"
#include "tools/kv-cli/cli.h"
#include "tools/kv-cli/out_file.h"
#include "tools/kv-cli/progress.h"
#include "tools/kv-cli/record_reader.h"
#include "tools/kv-cli/stats_table.h"
#include "tools/kv-cli/text.h"

struct dump {
	FILE *out; /* NULL: records are counted only */
	struct gkv_scan_options scan;
	enum record_format format;
	struct buffer line;
	struct progress progress;
	uint64_t records, bytes;
	uint64_t expiring; /* records that have a time to live */
	int write_code; /* negative errno of a write that failed */
	bool no_memory;
};

/* What dump_visit() ends a scan with; no negative errno, so that it is told from the library's. */
#define DUMP_ENDED 1

/* @value: NULL: a key, and how long its value is. */
static int dump_json(struct buffer *line, const void *key, size_t key_len, const void *value,
		     const struct gkv_meta *meta)
{
	json_t *object = json_object();
	char *text = NULL;
	int rc = object ? 0 : -ENOMEM;

	if (rc == 0)
		rc = text_json_set(object, "key", key, key_len);
	if (rc == 0)
		rc = value ? text_json_set(object, "value", value, meta->value_len)
			   : json_object_set_new(object, "size", json_integer(meta->value_len));
	if (rc == 0 && meta->expiry_ms &&
	    json_object_set_new(object, "expiry_ms", json_integer((json_int_t)meta->expiry_ms)))
		rc = -ENOMEM;
	if (rc == 0)
		text = json_dumps(object, JSON_COMPACT);
	if (rc == 0)
		rc = text ? buffer_append(line, text, strlen(text)) : -ENOMEM;
	free(text);
	json_decref(object);
	return rc;
}

/* Returns 0 or DUMP_ENDED. */
static int dump_line(struct dump *d, const void *key, size_t key_len, const void *value,
		     const struct gkv_meta *meta)
{
	int rc;

	d->line.len = 0;
	if (d->format == RECORD_JSONL) {
		rc = dump_json(&d->line, key, key_len, value, meta);
	} else {
		rc = text_escape(&d->line, key, key_len);
		if (rc == 0 && value)
			rc = buffer_append(&d->line, "\t", 1);
		if (rc == 0 && value)
			rc = text_escape(&d->line, value, meta->value_len);
	}
	if (rc == 0)
		rc = buffer_append(&d->line, "\n", 1);
	d->no_memory = rc != 0;
	if (rc)
		return DUMP_ENDED;
	if (fwrite(d->line.data, 1, d->line.len, d->out) != d->line.len) {
		d->write_code = -errno;
		return DUMP_ENDED;
	}
	return 0;
}

static int dump_visit(void *arg, const void *key, size_t key_len, const void *value,
		      const struct gkv_meta *meta)
{
	struct dump *d = arg;

	if (d->out && dump_line(d, key, key_len, value, meta))
		return DUMP_ENDED;
	d->records++;
	d->expiring += meta->expiry_ms != 0;
	d->bytes += key_len + (value ? meta->value_len : 0);
	progress_show(&d->progress, 0, d->records, d->bytes);
	return cli_stopped() ? DUMP_ENDED : 0;
}

static int dump_format(const struct cli *cli, enum record_format *format)
{
	*format = RECORD_TSV;
	if (!cli->format) {
		const char *slash = cli->output ? strrchr(cli->output, '/') : NULL;
		const char *base = slash ? slash + 1 : cli->output;

		if (!base || !strchr(base, '.'))
			return 0; /* a name that says nothing: the default */
		if (record_format_guess(base, format) || *format == RECORD_DEB822)
			return cli_error(CLI_USAGE,
					 "dump: the name %s does not tell the format (end it with "
					 ".tsv or .jsonl, or give --format)",
					 cli->output);
		return 0;
	}
	if (record_format_parse(cli->format, format) || *format == RECORD_DEB822)
		return cli_error(CLI_USAGE, "--format: '%s' cannot be dumped (give tsv or jsonl)",
				 cli->format);
	return 0;
}

/* The scan, and one sentence if it did not come to its end. */
static int dump_scan(struct cli *cli, struct dump *d, const char *name)
{
	const char *command = cli->command->name;
	int rc;

	progress_start(&d->progress, command, 0);
	if (d->out && isatty(fileno(d->out))) /* lines go there already */
		d->progress.on = false;
	rc = gkv_scan(cli->handle, &d->scan, dump_visit, d);
	progress_clear(&d->progress);
	buffer_free(&d->line);
	if (rc == 0)
		return 0;
	if (rc != DUMP_ENDED)
		return cli_call_failed(cli, rc, command, NULL, 0);
	if (d->no_memory)
		return cli_error(CLI_FAILED, "%s: no memory for a record", command);
	if (d->write_code && d->out == stdout && cli_pipe_closed())
		return CLI_FAILED;
	if (d->write_code)
		return cli_error(CLI_FAILED, "%s: writing to %s: %s (the output is not complete)",
				 command, name, error_name(d->write_code));
	return cli_error(CLI_FAILED, "%s: stopped by a signal after %" PRIu64 " records", command,
			 d->records);
}

/* What the format could not keep, once. */
static void dump_lost(const struct dump *d)
{
	if (d->format == RECORD_TSV && d->expiring)
		cli_error(0,
			  "dump: %" PRIu64 " records had a time to live, which tsv does not keep: "
			  "loaded again they never expire (use --format jsonl)",
			  d->expiring);
}

static int dump_summary(const struct cli *cli, const struct dump *d)
{
	double seconds = progress_seconds(&d->progress);
	char size[TEXT_SIZE_MAX];

	if (cli->json)
		return cli_print_json(json_pack("{s:I, s:I, s:I, s:f}", "records",
						(json_int_t)d->records, "bytes",
						(json_int_t)d->bytes, "expiring",
						(json_int_t)d->expiring, "seconds", seconds));
	printf("dumped %" PRIu64 " records, %s in %.1f s (%.0f/s) to %s\n", d->records,
	       text_size(size, d->bytes), seconds, (double)d->records / seconds, cli->output);
	return cli_flush(stdout, "stdout");
}

static int dump_to_file(struct cli *cli, struct dump *d)
{
	struct out_file file;
	struct error err;
	int code;

	if (out_file_open(&file, cli->output, &err))
		return cli_error(CLI_FAILED, "dump -o %s: %s", cli->output, err.text);
	d->out = file.stream;
	code = dump_scan(cli, d, cli->output);
	if (code == 0 && out_file_commit(&file, &err))
		code = cli_error(CLI_FAILED, "dump -o %s: %s (no dump was left there)", cli->output,
				 err.text);
	out_file_abandon(&file);
	if (code)
		return code;
	dump_lost(d);
	return dump_summary(cli, d);
}

/* Returns 0, or the exit code after it printed why. @prefix: may be NULL. */
static int dump_begin(struct cli *cli, struct dump *d, const char *prefix, unsigned flags)
{
	d->scan = (struct gkv_scan_options){ .prefix = prefix,
					     .prefix_len = prefix ? strlen(prefix) : 0,
					     .flags = flags };
	if (d->scan.prefix_len > GKV_KEY_MAX)
		return cli_error(CLI_USAGE, "%s: the prefix has %zu bytes (keys have 1 to %u)",
				 cli->command->name, d->scan.prefix_len, GKV_KEY_MAX);
	if (cli_connect(cli))
		return CLI_FAILED;
	cli_watch_signals();
	return 0;
}

/* Other stores take patterns. */
static void no_pattern(const struct cli *cli, const struct dump *d)
{
	const char *prefix = cli->operands[0];

	if (d->scan.prefix_len && !d->records && prefix[d->scan.prefix_len - 1] == '*')
		cli_error(0,
			  "%s: no key begins with %.80s (a prefix is no pattern: leave out the *)",
			  cli->command->name, prefix);
}

int cli_keys(struct cli *cli)
{
	struct dump d = { .out = stdout, .format = cli->json ? RECORD_JSONL : RECORD_TSV };
	int code = dump_begin(cli, &d, cli->operands[0], GKV_SCAN_KEYS);

	if (code == 0)
		code = dump_scan(cli, &d, "stdout");
	if (code == 0)
		no_pattern(cli, &d);
	return code ? code : cli_flush(stdout, "stdout");
}

/* All records: the server knows. Returns 0, or CLI_FAILED after it printed why. */
static int count_all(struct cli *cli, uint64_t *count)
{
	autofree char *text = NULL;
	struct stats_table t = { 0 };
	const struct stats_value *records;
	int rc = gkv_server_stats(cli->handle, &text);

	if (rc)
		return cli_call_failed(cli, rc, "count", NULL, 0);
	if (stats_table_read(&t, text, time_now_ns()))
		return cli_error(CLI_FAILED, "count: no memory");
	records = stats_find(&t, "records");
	*count = records ? records->value : 0;
	stats_table_free(&t);
	return 0;
}

int cli_count(struct cli *cli)
{
	struct dump d = { .out = NULL };
	int code = dump_begin(cli, &d, cli->operands[0], GKV_SCAN_KEYS);

	if (code == 0)
		code = d.scan.prefix_len ? dump_scan(cli, &d, "") : count_all(cli, &d.records);
	if (code)
		return code;
	no_pattern(cli, &d);
	if (cli->json)
		return cli_print_json(json_pack("{s:I}", "count", (json_int_t)d.records));
	printf("%" PRIu64 "\n", d.records);
	return cli_flush(stdout, "stdout");
}

int cli_dump(struct cli *cli)
{
	struct dump d = { .out = stdout };
	int code = dump_format(cli, &d.format);

	if (code == 0)
		code = dump_begin(cli, &d, cli->prefix, 0);
	if (code)
		return code;
	if (cli->output && strcmp(cli->output, "-") != 0)
		return dump_to_file(cli, &d);
	code = dump_scan(cli, &d, "stdout");
	if (code == 0)
		dump_lost(&d);
	return code ? code : cli_flush(stdout, "stdout");
}
