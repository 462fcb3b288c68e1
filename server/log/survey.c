/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Which segments there are, and where the log ends (read.h has the rule).
 *
 * Segments but the last: nothing of them is refused here. Whether a record that is needed is right,
 * log_read() finds, with its place; what lies below the snapshot that recovery begins with may be
 * wrong, or gone. Nor are they read here, as that would be all of the log: their batches' headers
 * are counted for people alone. Clocks do not go back, so the last batch of all has the latest.
 *
 * The last: every record is looked at, up to the first wrong place, which ends the log. Behind it,
 * each block of the file may be the header of a batch: the identity of the segment is in its
 * checksum, so it is one of this segment's if it is right, and what it names as durable was. If
 * that lies above the wrong place, the disk has lost what it had promised to keep.
 *
 * A last segment whose header is all zeroes was never begun: its name is on the disk and its first
 * sector is not, and nothing is acknowledged of a segment before both are. It is left out, unless
 * something was durable at its first position: of such a segment, too, all below the first position
 * was, and no older one says more.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mutant.h"
#include "server/log/read.h"
#include "server/log/walk.h"

#define POSITION_DIGITS 16u

struct survey {
	struct log_survey *out;
	const struct log_io *io;
	const uint64_t *store;
	bool all; /* batches of all segments are counted */
	struct error *err;
	uint64_t torn_at; /* first position of a last segment that was left out; UINT64_MAX: none */
};

/* The position that a file in log/ has as its name; false: it is none of ours. */
static bool parse_name(const char *file, uint64_t *first)
{
	*first = 0;
	for (unsigned i = 0; i < POSITION_DIGITS; i++) {
		const char *digits = "0123456789abcdef";
		const char *at = file[i] ? strchr(digits, file[i]) : NULL;

		if (!at)
			return false;
		*first = *first << 4 | (uint64_t)(at - digits);
	}
	return !strcmp(file + POSITION_DIGITS, ".log");
}

static int add_file(void *arg, const char *file)
{
	struct log_survey *s = arg;
	struct log_segment_info *more;
	uint64_t first;

	if (!parse_name(file, &first))
		return 0;
	more = realloc(s->segment, (s->segments + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	s->segment = more;
	more[s->segments] = (struct log_segment_info){ .first = first };
	snprintf(more[s->segments].name, sizeof(more->name), "log/%s", file);
	s->segments++;
	return 0;
}

static int by_position(const void *a, const void *b)
{
	const struct log_segment_info *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/* The header, which stands in @info then. 1: all zeroes. */
static int read_header(const struct survey *s, struct log_walk *w, struct log_segment_info *info)
{
	static const uint8_t zeroes[sizeof(struct log_segment_header)];
	const struct log_segment_header *h;
	const char *why = "the file has another name than its first position";
	const uint8_t *p;
	int64_t got = walk_bytes(w, 0, LOG_BLOCK, &p);

	if (got < 0)
		return walk_failed(w, (int)got, s->err);
	if (!memcmp(p, zeroes, got < (int64_t)sizeof(zeroes) ? (size_t)got : sizeof(zeroes)))
		return 1;
	if (log_segment_decode(p, (uint64_t)got, &h, &why) || h->first != info->first)
		return walk_corrupt(info->name, 0, info->first, why, s->err);
	if (s->store && memcmp(h->store, s->store, sizeof(h->store)) != 0)
		return error_set(
			s->err, -EXDEV,
			"%s belongs to another data directory: a file was copied into this "
			"one. Move it away",
			info->name);
	info->identity = h->identity;
	info->life = h->life;
	info->durable = h->durable;
	info->clock_ms = h->clock_ms;
	info->bytes = (uint64_t)w->io->size(w->file);
	return 0;
}

/* What the header of a batch, or of the segment, tells about the log. */
static void learn(struct log_survey *out, uint64_t clock_ms, uint64_t durable)
{
	if (clock_ms > out->clock_ms)
		out->clock_ms = clock_ms;
	if (durable > out->durable)
		out->durable = durable;
}

/* Batches up to @bound, by their headers. */
static int count_batches(const struct survey *s, struct log_walk *w, struct log_segment_info *info,
			 uint64_t bound)
{
	while (w->position < bound) {
		int rc = walk_batch(w);

		if (rc == -ENODATA || rc == -EINVAL)
			break;
		if (rc)
			return walk_failed(w, rc, s->err);
		learn(s->out, w->batch.clock_ms, 0);
		info->batches++;
		info->records += w->batch.records;
		walk_skip(w);
	}
	info->behind = w->position < bound ? w->position : bound;
	return 0;
}

/* Every batch and record of the last segment. Returns as walk_batch(), never 0. */
static int check_records(const struct survey *s, struct log_walk *w, struct log_segment_info *info)
{
	const struct log_record *record;
	int rc;

	while ((rc = walk_batch(w)) == 0) {
		learn(s->out, w->batch.clock_ms, w->batch.durable);
		info->batches++;
		while ((rc = walk_record(w, &record)) == 0)
			info->records++;
		if (rc != -ENODATA)
			break;
	}
	return rc;
}

/*
 * Headers of batches from @offset on, a multiple of LOG_BLOCK, to the end of the file. *found:
 * there was one.
 */
static int look_behind(const struct survey *s, struct log_walk *w, uint64_t offset, bool *found)
{
	const struct log_batch_header *h;
	const uint8_t *p;
	const char *why;
	int64_t got;

	for (;;) {
		got = walk_bytes(w, offset, sizeof(*h), &p);
		if (got < 0)
			return walk_failed(w, (int)got, s->err);
		if (got < (int64_t)sizeof(*h))
			return 0;
		if (((const struct log_batch_header *)(const void *)p)->magic == LOG_BATCH_MAGIC &&
		    !log_batch_decode(p, (uint64_t)got, w->identity, &h, &why)) {
			learn(s->out, h->clock_ms, h->durable);
			*found = true;
		}
		offset += LOG_BLOCK;
	}
}

/* The last segment, and with it where the log ends. */
static int find_end(const struct survey *s, struct log_walk *w, struct log_segment_info *info)
{
	struct log_survey *out = s->out;
	bool more = false;
	int rc = check_records(s, w, info);

	if (rc != -EINVAL && rc != -ENODATA)
		return walk_failed(w, rc, s->err);
	info->behind = out->end = w->position;
	out->end_offset = w->bad;
	if (rc == -EINVAL)
		out->end_why = w->why;
	rc = look_behind(s, w, (out->end_offset & ~(uint64_t)(LOG_BLOCK - 1)) + LOG_BLOCK, &more);
	if (rc)
		return rc;
	if (more && !out->end_why)
		out->end_why = "a batch of records is missing, and others follow";
	if (out->end < out->durable && !MUTANT(cut_corrupt_middle))
		return walk_corrupt(info->name, out->end_offset, out->end,
				    out->end_why ? out->end_why : "records are missing", s->err);
	if (out->durable > out->end)
		out->durable = out->end;
	if (out->end_why)
		snprintf(out->end_name, sizeof(out->end_name), "%s", info->name);
	else
		out->end_offset = 0;
	return 0;
}

/* The last segment's header is all zeroes. */
static int leave_out(struct survey *s)
{
	struct log_segment_info *info = &s->out->segment[--s->out->segments];

	s->torn_at = info->first;
	memcpy(s->out->torn, info->name, sizeof(s->out->torn));
	return 0;
}

/* Headers of all segments. */
static int read_headers(struct survey *s)
{
	struct log_survey *out = s->out;

	for (unsigned i = 0; i < out->segments; i++) {
		struct log_segment_info *info = &out->segment[i];
		struct log_walk w;
		int rc = walk_open(&w, s->io, info->name);

		rc = rc ? walk_failed(&w, rc, s->err) : read_header(s, &w, info);
		walk_close(&w);
		if (rc == 1 && i + 1 == out->segments)
			return leave_out(s);
		if (rc == 1)
			rc = walk_corrupt(info->name, 0, info->first,
					  "the header of the segment is missing", s->err);
		if (rc)
			return rc;
		learn(out, info->clock_ms, 0);
		if (info->life > out->life)
			out->life = info->life;
	}
	return 0;
}

/* Of the i-th segment. */
static int read_batches(const struct survey *s, unsigned i)
{
	struct log_survey *out = s->out;
	struct log_segment_info *info = &out->segment[i];
	struct log_walk w;
	int rc = walk_open(&w, s->io, info->name);

	if (rc)
		walk_failed(&w, rc, s->err);
	else
		walk_start(&w, info->identity, info->first);
	if (!rc && i + 1 < out->segments)
		rc = count_batches(s, &w, info, out->segment[i + 1].first);
	else if (!rc)
		rc = find_end(s, &w, info);
	walk_close(&w);
	return rc;
}

/* Of all segments; or from the last one back to one that has a batch. */
static int read_segments(const struct survey *s)
{
	const struct log_survey *out = s->out;
	int rc = 0;

	if (s->all) {
		for (unsigned i = 0; i < out->segments && !rc; i++)
			rc = read_batches(s, i);
		return rc;
	}
	for (unsigned i = out->segments; i-- > 0 && !rc;) {
		rc = read_batches(s, i);
		if (out->segment[i].batches)
			break;
	}
	return rc;
}

/* A segment that was left out must not have been needed. */
static int judge_torn(const struct survey *s)
{
	struct log_survey *out = s->out;

	if (s->torn_at == UINT64_MAX)
		return 0;
	if (out->durable > s->torn_at)
		return walk_corrupt(out->torn, 0, s->torn_at,
				    "the header of the segment is missing", s->err);
	if (!out->end_why) {
		memcpy(out->end_name, out->torn, sizeof(out->end_name));
		out->end_offset = 0;
		out->end_why = "the segment was named and never begun";
	}
	return 0;
}

static int look(struct log_survey *out, const struct log_io *io, const uint64_t store[2], bool all,
		struct error *err)
{
	struct survey s = {
		.out = out, .io = io, .store = store, .all = all, .err = err, .torn_at = UINT64_MAX
	};
	int rc;

	*out = (struct log_survey){ 0 };
	rc = io->list(io->ctx, "log", add_file, out);
	if (rc == -ENOENT)
		return 0;
	if (rc)
		return error_set(err, rc,
				 "the folder log/ of the data directory cannot be read: %s",
				 error_name(rc));
	if (out->segments)
		qsort(out->segment, out->segments, sizeof(*out->segment), by_position);
	rc = read_headers(&s);
	if (rc)
		return rc;
	if (out->segments) {
		out->first = out->segment[0].first;
		out->durable = out->segment[out->segments - 1].first;
	}
	rc = read_segments(&s);
	return rc ? rc : judge_torn(&s);
}

int log_survey_look(struct log_survey *out, const struct log_io *io, const uint64_t store[2],
		    struct error *err)
{
	return look(out, io, store, true, err);
}

int log_survey_make(struct log_survey *out, const struct log_io *io, const uint64_t store[2],
		    struct error *err)
{
	int rc = look(out, io, store, false, err);

	if (rc)
		log_survey_free(out);
	return rc;
}

void log_survey_free(struct log_survey *s)
{
	free(s->segment);
	*s = (struct log_survey){ 0 };
}
