/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-inspect/record.h"

#include <stdio.h>
#include <string.h>

#include "tools/kv-inspect/show.h"

void record_value(const json_t *block)
{
	const char *hex = json_string_value(json_object_get(block, "value_hex"));
	json_int_t bytes = json_integer_value(json_object_get(block, "value_bytes"));
	json_int_t shown = hex ? (json_int_t)(strlen(hex) / 2) : 0;

	if (!shown)
		return;
	printf("\nvalue\n");
	show_dump(hex, "  ");
	if (shown < bytes)
		printf("  ... and %" JSON_INTEGER_FORMAT " bytes more (--bytes)\n", bytes - shown);
}
