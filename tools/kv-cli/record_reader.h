/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Records out of a file of one of three formats, in bounded memory (a record or two). One thread
 * at a time.
 *
 * deb822  stanzas between blank lines, as in Debian's Packages files: the key is the value of the
 *	   field Package, the value is the stanza's text as it stands, without the blank line.
 *	   Lines that start with a space or tab continue a field, lines that start with # are
 *	   comments: those before a stanza are dropped, those inside it belong to its text.
 * tsv	   a record a line: key TAB value, with the escapes of text.h.
 * jsonl   an object a line: key or key_b64, value or value_b64, and expiry_ms where the record
 *	   expires.
 */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "tools/kv-cli/buffer.h"
#include "tools/kv-cli/line_reader.h"

#define RECORD_EXPIRY_MAX 253402300799999u /* ms since 1970: 9999-12-31T23:59:59.999Z */

enum record_format { RECORD_DEB822, RECORD_TSV, RECORD_JSONL };

struct record {
	const void *key; /* 1 to GKV_KEY_MAX bytes */
	size_t key_len;
	const void *value; /* 0 to GKV_VALUE_MAX bytes */
	size_t value_len;
	uint64_t expiry_ms; /* ms since 1970, up to RECORD_EXPIRY_MAX; 0: never, or not known */
	uint64_t line; /* where it begins, from 1 */
};

struct record_reader {
	enum record_format format;
	struct line_reader lines;
	struct buffer key, value;
	json_t *json; /* owns the strings of the last record, or NULL */
};

/* record_format_parse - "deb822", "tsv" or "jsonl". Returns 0 or -EINVAL. */
int record_format_parse(const char *text, enum record_format *out);

/*
 * record_format_guess - from the end of a file's name: .deb822, .tsv, .jsonl or .ndjson, and
 * Packages as apt names its lists. Returns 0 or -EINVAL.
 */
int record_format_guess(const char *path, enum record_format *out);

/* record_reader_init - @fd stays the caller's. Returns 0 or -ENOMEM. */
int record_reader_init(struct record_reader *r, int fd, enum record_format format);

/*
 * record_reader_next - @out points into the reader and is valid until the next call.
 * Returns 1, 0 at the end, -EBADMSG for a bad record (@err: "line N: why"; the next call goes on
 * after it), -ENOMEM, or what read(2) failed with (@err says so).
 */
int record_reader_next(struct record_reader *r, struct record *out, struct error *err);

void record_reader_free(struct record_reader *r);
