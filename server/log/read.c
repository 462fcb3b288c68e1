/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The records of a log that was surveyed, segment by segment, each up to its successor's first. */
#include "server/log/read.h"

#include <errno.h>
#include <inttypes.h>

#include "common/base/mutant.h"
#include "server/log/walk.h"

struct reading {
	const struct log_reader *reader;
	const struct log_segment_info *segment;
	uint64_t from, to; /* positions, of records that are given out */
	uint64_t bound; /* position: what the segment has behind it does not count */
	struct error *err;
};

static int corrupt(const struct reading *r, const struct log_walk *w, const char *why)
{
	if (MUTANT(cut_corrupt_middle))
		return -ENODATA;
	return walk_corrupt(w->name, w->bad, w->position, why, r->err);
}

/* The records of the batch that @w has come to. */
static int read_records(const struct reading *r, struct log_walk *w)
{
	uint64_t stop = r->bound < r->to ? r->bound : r->to;
	const struct log_record *record;
	int rc;

	while (w->position < stop) {
		w->bad = w->at;
		rc = walk_record(w, &record);
		if (rc == -ENODATA)
			return 0;
		if (rc == -EINVAL)
			return corrupt(r, w, w->why);
		if (rc)
			return walk_failed(w, rc, r->err);
		if (w->position > r->bound) {
			w->position = record->position;
			return corrupt(r, w, "the next segment begins within a record");
		}
		if (record->position < r->from)
			continue;
		rc = r->reader->each(r->reader->ctx, record);
		if (rc)
			return rc;
	}
	return 0;
}

static int read_batch(const struct reading *r, struct log_walk *w)
{
	uint64_t offset = w->next;
	int rc = walk_batch(w);

	if (rc == -ENODATA && MUTANT(read_past_cut))
		return rc;
	if (rc == -ENODATA)
		return corrupt(r, w, "a batch of records is missing");
	if (rc == -EINVAL)
		return corrupt(r, w, w->why);
	if (rc)
		return walk_failed(w, rc, r->err);
	if (w->position + w->batch.bytes <= r->from) {
		walk_skip(w);
		return 0;
	}
	if (r->reader->batch) {
		rc = r->reader->batch(r->reader->ctx, r->segment, offset, &w->batch);
		if (rc)
			return rc;
	}
	return read_records(r, w);
}

static int read_segment(const struct reading *r, const struct log_io *io)
{
	struct log_walk w;
	int rc = walk_open(&w, io, r->segment->name);

	if (rc)
		walk_failed(&w, rc, r->err);
	else
		walk_start(&w, r->segment->identity, r->segment->first);
	while (!rc && w.position < r->bound && w.position < r->to)
		rc = read_batch(r, &w);
	walk_close(&w);
	if (rc == -ENODATA && (MUTANT(cut_corrupt_middle) || MUTANT(read_past_cut)))
		return 0;
	return rc;
}

int log_read(const struct log_survey *s, const struct log_io *io, uint64_t from, uint64_t to,
	     const struct log_reader *reader, struct error *err)
{
	struct reading r = { .reader = reader, .from = from, .to = to, .err = err };

	if (to > s->end)
		r.to = s->end;
	if (from < s->first)
		return error_set(err, -EUCLEAN,
				 "the log begins at position %" PRIu64 ", but %" PRIu64
				 " is needed: segments of log/ are missing. Restore them from a "
				 "copy; `kv-inspect log DIR` shows which there are",
				 s->first, from);
	for (unsigned i = 0; i < s->segments; i++) {
		const struct log_segment_info *next =
			i + 1 < s->segments ? &s->segment[i + 1] : NULL;
		int rc;

		r.segment = &s->segment[i];
		r.bound = next ? next->first : s->end;
		if (MUTANT(read_past_cut))
			r.bound = UINT64_MAX;
		if (r.bound <= from || r.segment->first >= r.to)
			continue;
		rc = read_segment(&r, io);
		if (rc)
			return rc;
	}
	return 0;
}
