/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/group/json_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEX_CHARS 16u

json_t *json_hex(uint64_t n)
{
	char text[HEX_CHARS + 1];

	snprintf(text, sizeof(text), "%016" PRIx64, n);
	return json_string(text);
}

bool json_take_hex(const json_t *object, const char *name, uint64_t *out)
{
	const char *text = json_string_value(json_object_get(object, name));

	if (!text || strlen(text) != HEX_CHARS || strspn(text, "0123456789abcdef") != HEX_CHARS)
		return false;
	return sscanf(text, "%" SCNx64, out) == 1;
}

bool json_take_number(const json_t *object, const char *name, uint64_t max, uint64_t *out)
{
	const json_t *n = json_object_get(object, name);

	if (!json_is_integer(n) || json_integer_value(n) < 0 ||
	    (uint64_t)json_integer_value(n) > max)
		return false;
	*out = (uint64_t)json_integer_value(n);
	return true;
}

bool json_take_text(const json_t *object, const char *name, char *out, size_t cap)
{
	const json_t *text = json_object_get(object, name);

	if (!json_is_string(text) || json_string_length(text) >= cap ||
	    strlen(json_string_value(text)) != json_string_length(text))
		return false;
	strcpy(out, json_string_value(text));
	return true;
}
