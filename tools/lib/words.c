/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/words.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
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

static bool number_in(const char *text, double min, double max, double *out)
{
	bool decimal = isdigit((unsigned char)text[text[0] == '.']) && !strpbrk(text, "xX");
	char *end = NULL;

	*out = decimal ? strtod(text, &end) : NAN;
	return end && !*end && *out >= min && *out <= max;
}

int words_number(const char *what, const char *text, double min, double max, double *out,
		 struct error *err)
{
	double number;

	if (!number_in(text, min, max, &number))
		return error_set(err, -EINVAL, "%s: '%.40s' is not a number from %.10g to %.10g",
				 what, text, min, max);
	*out = number;
	return 0;
}

int words_seconds(const char *what, const char *text, double min, double max, uint64_t *ns,
		  struct error *err)
{
	double seconds;

	if (!number_in(text, min, max, &seconds))
		return error_set(err, -EINVAL,
				 "%s: '%.40s' is not a number of seconds from %g to %g", what, text,
				 min, max);
	*ns = (uint64_t)(seconds * (double)NS_PER_S);
	return 0;
}
