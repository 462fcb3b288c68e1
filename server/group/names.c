/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/group/names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int group_name_check(const char *what, const char *name, struct error *err)
{
	const size_t good = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					 "0123456789-_.");

	if (*name && !name[good] && good <= GROUP_NAME_CHARS)
		return 0;
	return error_set(err, -EINVAL,
			 "\"%.80s\" is no name for a %s (use letters, digits, '-', '_' and '.', %u "
			 "at most)",
			 name, what, GROUP_NAME_CHARS);
}

void group_key(const char *cluster, const char *what, char out[GROUP_KEY_BYTES])
{
	snprintf(out, GROUP_KEY_BYTES, "/gracekv/%s/%s", cluster, what);
}
