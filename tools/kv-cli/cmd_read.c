/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* get, getdel, exists, mget, ttl: commands that read records. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "tools/kv-cli/cli.h"
#include "tools/kv-cli/record_json.h"
#include "tools/kv-cli/text.h"
#include "tools/kv-cli/units.h"

#define MGET_BATCH     64u
#define MGET_VALUE_CAP 4096u /* longer values are fetched one by one */

static int get_print_json(const struct cli *cli, const char *key, size_t key_len, const void *value,
			  const struct gkv_meta *meta, uint64_t now_ms)
{
	json_t *object = record_json(key, key_len, true);
	int rc = object ? text_json_set(object, "value", value, meta->value_len) : -ENOMEM;

	if (rc == 0 && (cli->given & CLI_META)) {
		if (json_object_set_new(object, "version",
					json_integer((json_int_t)meta->version)) ||
		    json_object_set_new(object, "size", json_integer(meta->value_len)))
			rc = -ENOMEM;
		else
			rc = record_json_expiry(object, meta->expiry_ms, now_ms);
	}
	if (rc) {
		json_decref(object);
		return cli_error(CLI_FAILED, "printing JSON: no memory");
	}
	return cli_print_json(object);
}

int cli_get(struct cli *cli)
{
	const bool deletes = cli->command->run == cli_getdel;
	autofree void *room = deletes ? malloc(GKV_VALUE_MAX) : NULL;
	const char *key = cli->operands[0];
	const void *value = room;
	struct gkv_meta meta;
	uint64_t now_ms = 0;
	size_t key_len;
	int rc;

	if (cli_key(cli, key, &key_len))
		return CLI_USAGE;
	if (cli_connect(cli))
		return CLI_FAILED;
	if ((cli->given & CLI_META) && cli_clock(cli, &now_ms))
		return CLI_FAILED;
	if (deletes && !room)
		return cli_error(CLI_FAILED, "getdel: no memory");
	rc = deletes ? gkv_getdel(cli->handle, key, key_len, room, GKV_VALUE_MAX, &meta)
		     : gkv_get_view(cli->handle, key, key_len, &value, &meta);
	if (rc == -ENOENT)
		return record_missing(cli, key, key_len);
	if (rc)
		return cli_call_failed(cli, rc, cli->command->name, key, key_len);
	if (cli->json)
		return get_print_json(cli, key, key_len, value, &meta, now_ms);
	if (meta.value_len)
		cli_write(stdout, value, meta.value_len);
	if (cli->shell || isatty(STDOUT_FILENO))
		fputc('\n', stdout);
	if (cli_flush(stdout, "stdout"))
		return CLI_FAILED;
	if (cli->given & CLI_META) {
		char expiry[UNITS_TIME_MAX], left[UNITS_LEFT_MAX];

		fprintf(stderr, "version=%" PRIu64 " size=%" PRIu32 " expiry=%s", meta.version,
			meta.value_len, units_time(expiry, meta.expiry_ms));
		if (meta.expiry_ms)
			fprintf(stderr, " ttl=%s", units_left(left, meta.expiry_ms, now_ms));
		fputc('\n', stderr);
	}
	return CLI_OK;
}

int cli_getdel(struct cli *cli)
{
	return cli_get(cli);
}

int cli_exists(struct cli *cli)
{
	const char *key = cli->operands[0];
	size_t key_len;
	int rc;

	if (cli_key(cli, key, &key_len))
		return CLI_USAGE;
	if (cli_connect(cli))
		return CLI_FAILED;
	rc = gkv_exists(cli->handle, key, key_len, NULL);
	if (rc && rc != -ENOENT)
		return cli_call_failed(cli, rc, "exists", key, key_len);
	if (cli->json)
		return cli_print_json(record_json(key, key_len, rc == 0)) ? CLI_FAILED
		       : rc						  ? CLI_NO
									  : CLI_OK;
	puts(rc ? "no" : "yes");
	if (cli_flush(stdout, "stdout"))
		return CLI_FAILED;
	return rc ? CLI_NO : CLI_OK;
}

/* One answered item, as a line or into @array. Returns 0, -ENOMEM. */
static int mget_print(const struct gkv_item *item, const void *value, json_t *array)
{
	struct buffer line = { 0 };
	bool found = item->status == 0;
	int rc;

	if (array) {
		json_t *object = record_json(item->key, item->key_len, found);

		rc = object && found ? text_json_set(object, "value", value, item->len) : 0;
		if (rc == 0) /* which takes the object, whether it goes well or not */
			return json_array_append_new(array, object) ? -ENOMEM : 0;
		json_decref(object);
		return rc;
	}
	rc = text_escape(&line, item->key, item->key_len);
	if (rc == 0)
		rc = buffer_append(&line, "\t", 1);
	if (rc == 0)
		rc = found ? text_escape(&line, value, item->len) : buffer_append(&line, "\\N", 2);
	if (rc == 0)
		rc = buffer_append(&line, "\n", 1);
	if (rc == 0)
		cli_write(stdout, line.data, line.len);
	buffer_free(&line);
	return rc;
}

/* A batch of keys; adds to @missing. Returns enum cli_exit. */
static int mget_batch(struct cli *cli, struct gkv_item *items, size_t count, json_t *array,
		      int *missing)
{
	int rc = gkv_mget(cli->handle, items, count);

	if (rc)
		return cli_call_failed(cli, rc, "mget", NULL, 0);
	for (size_t i = 0; i < count; i++) {
		struct gkv_item *item = &items[i];
		const void *value = item->value;

		if (item->status == -EMSGSIZE) {
			struct gkv_meta meta;

			item->status =
				gkv_get_view(cli->handle, item->key, item->key_len, &value, &meta);
			item->len = meta.value_len;
		}
		if (item->status && item->status != -ENOENT)
			return cli_call_failed(cli, item->status, "mget", item->key, item->key_len);
		if (item->status)
			(*missing)++;
		if (mget_print(item, value, array))
			return cli_error(CLI_FAILED, "mget: no memory");
	}
	return CLI_OK;
}

int cli_mget(struct cli *cli)
{
	autofree struct gkv_item *items = calloc(MGET_BATCH, sizeof(*items));
	autofree char *values = malloc((size_t)MGET_BATCH * MGET_VALUE_CAP);
	json_t *array = NULL;
	int code = CLI_OK, done = 0, missing = 0;

	for (int i = 0; i < cli->operand_count; i++) {
		size_t len;

		if (cli_key(cli, cli->operands[i], &len))
			return CLI_USAGE;
	}
	if (cli_connect(cli))
		return CLI_FAILED;
	if (cli->json)
		array = json_array();
	if (!items || !values || (cli->json && !array)) {
		json_decref(array);
		return cli_error(CLI_FAILED, "mget: no memory");
	}
	while (done < cli->operand_count && code != CLI_FAILED) {
		size_t n = 0;

		for (; n < MGET_BATCH && done < cli->operand_count; n++, done++) {
			items[n] = (struct gkv_item){ .key = cli->operands[done],
						      .key_len = strlen(cli->operands[done]),
						      .value = values + n * MGET_VALUE_CAP,
						      .cap = MGET_VALUE_CAP };
		}
		code = mget_batch(cli, items, n, array, &missing);
	}
	if (code == CLI_OK && missing)
		code = CLI_NO;
	if (array && code != CLI_FAILED)
		return cli_print_json(array) ? CLI_FAILED : code;
	json_decref(array);
	if (cli_flush(stdout, "stdout"))
		return CLI_FAILED;
	if (code == CLI_NO)
		cli_error(CLI_NO,
			  "mget: %d of %d keys were not found (\\N stands for their values)",
			  missing, cli->operand_count);
	return code;
}

int cli_ttl(struct cli *cli)
{
	const char *key = cli->operands[0];
	char left[UNITS_LEFT_MAX];
	struct gkv_meta meta;
	uint64_t now_ms = 0;
	json_t *object;
	size_t key_len;
	int rc;

	if (cli_key(cli, key, &key_len))
		return CLI_USAGE;
	if (cli_connect(cli))
		return CLI_FAILED;
	rc = gkv_exists(cli->handle, key, key_len, &meta);
	if (rc == -ENOENT)
		return record_missing(cli, key, key_len);
	if (rc)
		return cli_call_failed(cli, rc, "ttl", key, key_len);
	if (meta.expiry_ms && cli_clock(cli, &now_ms))
		return CLI_FAILED;
	if (!cli->json) {
		printf("%s\n", units_left(left, meta.expiry_ms, now_ms));
		return cli_flush(stdout, "stdout");
	}
	object = record_json(key, key_len, true);
	if (object && record_json_expiry(object, meta.expiry_ms, now_ms)) {
		json_decref(object);
		object = NULL;
	}
	return cli_print_json(object);
}
