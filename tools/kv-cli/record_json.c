/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/record_json.h"

#include <errno.h>

#include "tools/kv-cli/text.h"
#include "tools/kv-cli/units.h"

json_t *record_json(const char *key, size_t key_len, bool found)
{
	json_t *object = json_object();

	if (object && (text_json_set(object, "key", key, key_len) ||
		       json_object_set_new(object, "found", json_boolean(found)))) {
		json_decref(object);
		return NULL;
	}
	return object;
}

json_t *record_json_version(const char *key, size_t key_len, const bool *found, uint64_t version)
{
	json_t *object = found ? record_json(key, key_len, *found) : json_object();

	if (object && ((!found && text_json_set(object, "key", key, key_len)) ||
		       json_object_set_new(object, "version", json_integer((json_int_t)version)))) {
		json_decref(object);
		return NULL;
	}
	return object;
}

int record_json_expiry(json_t *object, uint64_t expiry_ms, uint64_t now_ms)
{
	uint64_t left_ms = units_left_ms(expiry_ms, now_ms);
	json_t *left = expiry_ms ? json_integer((json_int_t)left_ms) : json_null();

	if (json_object_set_new(object, "expiry_ms", json_integer((json_int_t)expiry_ms)) ||
	    json_object_set_new(object, "ttl_ms", left))
		return -ENOMEM;
	return 0;
}

int record_missing(const struct cli *cli, const char *key, size_t key_len)
{
	char shown[TEXT_KEY_MAX];

	if (cli->json)
		return cli_print_json(record_json(key, key_len, false)) ? CLI_FAILED : CLI_NO;
	return cli_error(CLI_NO, "%s %s: not found", cli->command->name,
			 text_key(shown, key, key_len));
}
