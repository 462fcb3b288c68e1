/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Values of options that are more than a word or a number. Any thread. */
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/*
 * words_next - the next item of @list, between commas, into @item; @list moves after it, and is
 * NULL after the last one. @what: the option's name, for the sentence.
 * Returns 1; 0: there is none any more; or -EINVAL with @err: it is empty, or has no room in @cap.
 */
int words_next(const char *what, const char **list, char *item, size_t cap, struct error *err);

/* words_number - "0.5" or ".5" in [min, max]: decimal. Returns 0, or -EINVAL with @err set and
 * @out as it was. */
int words_number(const char *what, const char *text, double min, double max, double *out,
		 struct error *err);

/* words_seconds - a number of seconds, likewise, as ns. */
int words_seconds(const char *what, const char *text, double min, double max, uint64_t *ns,
		  struct error *err);
