/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* put, append, cas, del, incr, touch: commands that write records. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/parse.h"
#include "tools/kv-cli/buffer.h"
#include "tools/kv-cli/cli.h"
#include "tools/kv-cli/record_json.h"
#include "tools/kv-cli/text.h"
#include "tools/kv-cli/units.h"

/* All of stdin, up to the longest value and one byte more. */
static int read_stdin(struct buffer *b)
{
	for (;;) {
		int rc = buffer_reserve(b, 65536);
		ssize_t n;

		if (rc)
			return rc;
		n = read(STDIN_FILENO, b->data + b->len, b->cap - b->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		b->len += (size_t)n;
		if (b->len > GKV_VALUE_MAX)
			return -E2BIG;
	}
}

/*
 * A condition did not hold. @done: the word for what was not done, also the field in JSON.
 * @version: of the record that is there; 0: there is none.
 */
static int refused(const struct cli *cli, const char *key, size_t key_len, const char *done,
		   const struct gkv_write_options *options, uint64_t version)
{
	char shown[TEXT_KEY_MAX];
	json_t *object;
	bool found = version != 0;

	text_key(shown, key, key_len);
	if (cli->json) {
		object = found ? record_json_version(key, key_len, &found, version)
			       : record_json(key, key_len, false);
		if (object && json_object_set_new(object, done, json_false())) {
			json_decref(object);
			object = NULL;
		}
		return cli_print_json(object) ? CLI_FAILED : CLI_NO;
	}
	if (!found)
		return cli_error(CLI_NO, "%s %s: not %s: there is no such key", cli->command->name,
				 shown, done);
	if (options->condition == GKV_IF_ABSENT)
		return cli_error(CLI_NO, "%s %s: not %s: the key is there, in version %" PRIu64,
				 cli->command->name, shown, done, version);
	return cli_error(CLI_NO, "%s %s: not %s: version %" PRIu64 " is there, not %" PRIu64,
			 cli->command->name, shown, done, version, options->version);
}

/* "<done>, version N"; with @expires JSON says until when. @condition: of the options. */
static int written(const struct cli *cli, const char *key, size_t key_len, const char *done,
		   unsigned condition, bool expires, const struct gkv_meta *meta)
{
	char shown[TEXT_KEY_MAX];
	uint64_t now_ms = 0;
	json_t *object;

	if (!cli->json) {
		printf("%s, version %" PRIu64, done, meta->version);
		if (cli->command->run == cli_append)
			printf(", size %" PRIu32, meta->value_len);
		putchar('\n');
		return cli_flush(stdout, "stdout");
	}
	if (expires && meta->expiry_ms && gkv_clock(cli->handle, &now_ms))
		return cli_error(CLI_FAILED,
				 "%s %s: %s, version %" PRIu64 "; reading the server's clock: %s",
				 cli->command->name, text_key(shown, key, key_len), done,
				 meta->version, gkv_error(cli->handle));
	object = record_json_version(key, key_len, NULL, meta->version);
	if (object && ((condition && json_object_set_new(object, done, json_true())) ||
		       (cli->command->run == cli_append &&
			json_object_set_new(object, "size", json_integer(meta->value_len))) ||
		       (expires && record_json_expiry(object, meta->expiry_ms, now_ms)))) {
		json_decref(object);
		object = NULL;
	}
	return cli_print_json(object);
}

static int put_value(struct cli *cli, const char *key, size_t key_len, const void *value,
		     size_t value_len, const struct gkv_write_options *options)
{
	char shown[TEXT_KEY_MAX];
	const bool appends = cli->command->run == cli_append;
	const char *done = appends ? "appended" : "stored";
	struct gkv_meta meta;
	int rc;

	if (cli_connect(cli))
		return CLI_FAILED;
	rc = (appends ? gkv_append : gkv_put_with)(cli->handle, key, key_len, value, value_len,
						   options, &meta);
	if (options->condition && (rc == -ENOENT || rc == -EEXIST))
		return refused(cli, key, key_len, done, options, rc == -EEXIST ? meta.version : 0);
	if (rc == -EFBIG)
		return cli_error(CLI_FAILED,
				 "append %s: the value would be longer than 16 MiB (nothing was "
				 "changed)",
				 text_key(shown, key, key_len));
	if (rc)
		return cli_call_failed(cli, rc, cli->command->name, key, key_len);
	return written(cli, key, key_len, done, options->condition,
		       appends || options->flags || options->ttl_ms, &meta);
}

/* Store the operand at @index, or what stdin holds where it is "-". */
static int put_operand(struct cli *cli, int index, const struct gkv_write_options *options)
{
	const char *key = cli->operands[0], *value = cli->operands[index];
	struct buffer input = { 0 };
	char shown[TEXT_KEY_MAX];
	size_t key_len;
	int rc;

	if (cli_key(cli, key, &key_len))
		return CLI_USAGE;
	if (strcmp(value, "-") != 0 || cli->literal_from <= index)
		return put_value(cli, key, key_len, value, strlen(value), options);
	if (cli_stdin(cli, value, "give the value itself; a dash after --"))
		return CLI_USAGE;
	text_key(shown, key, key_len);
	rc = read_stdin(&input);
	if (rc == -E2BIG)
		rc = cli_error(CLI_FAILED, "%s %s: the value on stdin has more than %u bytes",
			       cli->command->name, shown, GKV_VALUE_MAX);
	else if (rc)
		rc = cli_error(CLI_FAILED, "%s %s: reading stdin: %s", cli->command->name, shown,
			       error_name(rc));
	else
		rc = put_value(cli, key, key_len, input.data, input.len, options);
	buffer_free(&input);
	return rc;
}

int cli_put(struct cli *cli)
{
	struct gkv_write_options options = {
		.ttl_ms = cli->ttl_ms,
		.flags = cli->given & CLI_KEEP_TTL ? GKV_KEEP_EXPIRY : 0,
	};

	if (cli->given & CLI_IF_ABSENT) {
		options.condition = GKV_IF_ABSENT;
	} else if (cli->given & CLI_IF_VERSION) {
		options.condition = GKV_IF_VERSION;
		options.version = cli->if_version;
	}
	return put_operand(cli, 1, &options);
}

int cli_append(struct cli *cli)
{
	return cli_put(cli); /* put_value() looks at the command */
}

int cli_cas(struct cli *cli)
{
	struct gkv_write_options options = { .condition = GKV_IF_VERSION };
	struct error err;

	if (parse_u64("cas: VERSION", cli->operands[1], 1, UINT64_MAX, &options.version, &err))
		return cli_error(CLI_USAGE, "%s", err.text);
	return put_operand(cli, 2, &options);
}

/* Another version than the one to be deleted was there: which is it? */
static int del_refused(struct cli *cli, const char *key, size_t key_len,
		       const struct gkv_write_options *options)
{
	struct gkv_meta meta;
	int rc = gkv_exists(cli->handle, key, key_len, &meta);

	if (rc && rc != -ENOENT)
		return cli_call_failed(cli, rc, "del: looking for the version of", key, key_len);
	return refused(cli, key, key_len, "deleted", options, rc ? 0 : meta.version);
}

int cli_del(struct cli *cli)
{
	const struct gkv_write_options options = { .condition = GKV_IF_VERSION,
						   .version = cli->if_version };
	const char *key = cli->operands[0];
	bool bound = cli->given & CLI_IF_VERSION;
	json_t *object;
	size_t key_len;
	int rc;

	if (cli_key(cli, key, &key_len))
		return CLI_USAGE;
	if (cli_connect(cli))
		return CLI_FAILED;
	rc = bound ? gkv_del_if(cli->handle, key, key_len, options.version)
		   : gkv_del(cli->handle, key, key_len);
	if (rc == -ENOENT)
		return bound ? refused(cli, key, key_len, "deleted", &options, 0)
			     : record_missing(cli, key, key_len);
	if (bound && rc == -EEXIST)
		return del_refused(cli, key, key_len, &options);
	if (rc)
		return cli_call_failed(cli, rc, "del", key, key_len);
	if (!cli->json) {
		puts("deleted");
		return cli_flush(stdout, "stdout");
	}
	object = record_json(key, key_len, true);
	if (object && bound && json_object_set_new(object, "deleted", json_true())) {
		json_decref(object);
		object = NULL;
	}
	return cli_print_json(object);
}

int cli_incr(struct cli *cli)
{
	const struct gkv_write_options options = { .ttl_ms = cli->ttl_ms };
	const char *key = cli->operands[0];
	char shown[TEXT_KEY_MAX];
	int64_t delta = 1, sum;
	struct error err;
	json_t *object;
	size_t key_len;
	int rc;

	if (cli_key(cli, key, &key_len))
		return CLI_USAGE;
	if (cli->operand_count > 1 && units_i64("incr: N", cli->operands[1], &delta, &err))
		return cli_error(CLI_USAGE, "%s", err.text);
	if (cli_connect(cli))
		return CLI_FAILED;
	rc = gkv_incr_with(cli->handle, key, key_len, delta, &options, &sum, NULL);
	if (rc == -EDOM || rc == -ERANGE)
		return cli_error(CLI_FAILED, "incr %s: %s", text_key(shown, key, key_len),
				 rc == -EDOM ? "the value is no decimal number of 64 bits (get "
					       "shows it)"
					     : "the sum would have more than 64 bits (nothing was "
					       "changed)");
	if (rc)
		return cli_call_failed(cli, rc, "incr", key, key_len);
	if (!cli->json) {
		printf("%" PRId64 "\n", sum);
		return cli_flush(stdout, "stdout");
	}
	object = json_object();
	if (object && (text_json_set(object, "key", key, key_len) ||
		       json_object_set_new(object, "sum", json_integer((json_int_t)sum)))) {
		json_decref(object);
		object = NULL;
	}
	return cli_print_json(object);
}

int cli_touch(struct cli *cli)
{
	const char *key = cli->operands[0];
	struct gkv_meta meta;
	struct error err;
	uint64_t ttl_ms;
	size_t key_len;
	int rc;

	if (cli_key(cli, key, &key_len))
		return CLI_USAGE;
	if (parse_duration("touch: S", cli->operands[1], "s", 0, GKV_TTL_MAX, &ttl_ms, &err))
		return cli_error(CLI_USAGE, "%s", err.text);
	if (cli_connect(cli))
		return CLI_FAILED;
	rc = gkv_touch(cli->handle, key, key_len, ttl_ms, &meta);
	if (rc == -ENOENT)
		return record_missing(cli, key, key_len);
	if (rc)
		return cli_call_failed(cli, rc, "touch", key, key_len);
	return written(cli, key, key_len, "touched", 0, true, &meta);
}
