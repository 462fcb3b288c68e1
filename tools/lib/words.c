/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/words.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"

int words_next(const char *what, const char **list, char *item, size_t cap, struct error *err)
{
	size_t len = *list ? strcspn(*list, ",") : 0;

	if (!*list)
		return 0;
	if (len == 0 || len >= cap)
		return error_set(err, -EINVAL, "%s: an item is empty or too long near '%.40s'",
				 what, *list);
	memcpy(item, *list, len);
	item[len] = 0;
	*list = (*list)[len] ? *list + len + 1 : NULL;
	return 1;
}

int words_seconds(const char *what, const char *text, double min, double max, uint64_t *ns,
		  struct error *err)
{
	char *end = NULL;
	bool decimal = isdigit((unsigned char)text[0]) && !strpbrk(text, "xX");
	double seconds = decimal ? strtod(text, &end) : -1;

	if (!end || *end || !(seconds >= min && seconds <= max))
		return error_set(err, -EINVAL, "%s: '%.40s' is no number of seconds from %g to %g",
				 what, text, min, max);
	*ns = (uint64_t)(seconds * (double)NS_PER_S);
	return 0;
}
