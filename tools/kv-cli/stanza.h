/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Stanzas of deb822 files (deb822(5)). One thread at a time. */
#include <stdint.h>

#include "common/base/error.h"
#include "tools/kv-cli/buffer.h"
#include "tools/kv-cli/line_reader.h"

/*
 * stanza_next - read up to the end of the next stanza.
 * @key, @value: empty buffers; receive the value of the field Package and the stanza's text.
 * @line: receives the line that the stanza, or what is wrong with it, stands on.
 * Returns 1, 0 at the end of the file, -EBADMSG (@err says why; the rest of the stanza was
 * skipped), -ENOMEM, or what read(2) failed with.
 */
int stanza_next(struct line_reader *lines, struct buffer *key, struct buffer *value, uint64_t *line,
		struct error *err);
