/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Text that a peer sent, for logs, terminals and JSON. Any thread. */

/*
 * plain_text - every byte of @text, which ends with a zero, that is no printable ASCII becomes '?'.
 * So it cannot command a terminal, look like a line of its own, or be no UTF-8.
 */
static inline void plain_text(char *text)
{
	for (; *text; text++) {
		if (*text < ' ' || *text > '~')
			*text = '?';
	}
}
