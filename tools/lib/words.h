/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Values of options that are more than a word or a number. Any thread. */
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/*
 * words_next - the next item of @list, between commas, into @item; @list moves behind it, and is
 * NULL after the last one. @what: the option's name, for the sentence.
 * Returns 1; 0: there is none any more; or -EINVAL with @err: it is empty, or has no room in @cap.
 */
int words_next(const char *what, const char **list, char *item, size_t cap, struct error *err);

/* words_seconds - "0.5" in [min, max] seconds, as ns. Returns 0, or -EINVAL with @err. */
int words_seconds(const char *what, const char *text, double min, double max, uint64_t *ns,
		  struct error *err);
