/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/lib/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/lib/unit.h"

char folder[] = "/tmp/gracekv-unit-XXXXXX";

int folder_make(void **state)
{
	return mkdtemp(folder) ? 0 : -1;
}

int folder_remove(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

int folder_empty(void **state)
{
	return folder_remove(state) || mkdir(folder, 0700);
}

void folder_put(const char *path, const char *text)
{
	char whole[512];
	FILE *f;

	snprintf(whole, sizeof(whole), "%s%s", folder, path);
	for (char *p = whole + strlen(folder) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(whole, 0755);
		*p = '/';
	}
	f = fopen(whole, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}
