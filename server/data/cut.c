/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * --recover-until: what stands at a position and above is given up, on somebody's word.
 *
 * A segment bounds the one before it (read.h), so a log is cut by a segment without a record that
 * begins at the position. What is above goes to a folder cut-TIME/ of the directory, as far as it
 * consists of whole files; the rest of the file that the position lies in is out of reach behind
 * the new segment, and stays on the disk. All that is refused is refused before anything moves.
 *
 * A segment vouches that all below it is durable, so what stands in the file before it is written
 * once more and synced first: after a failed sync the kernel may have what the disk has not, and
 * another sync of that alone proves nothing. The bytes are the same, so a write that is torn harms
 * nothing.
 *
 * ONCE. A file cut-at-POSITION says in the end that it was done. With the option left in place the
 * next start would give up what was acknowledged since; it finds the file, and cuts nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "server/data/data_internal.h"

#define FILES_MAX   65536u
#define PIECE_BYTES (1u << 20)

struct cut {
	struct data *d;
	uint64_t position;
	uint64_t *first; /* of all segments; owned */
	unsigned segments;
	struct snapshot_info *snapshot; /* owned */
	unsigned snapshots;
	char folder[40];
	unsigned moved;
};

static int take_segment(void *arg, const char *file)
{
	struct cut *c = arg;
	uint64_t first;
	char end[8];

	if (strlen(file) != 20 || strspn(file, "0123456789abcdef") != 16 ||
	    sscanf(file, "%16" SCNx64 "%7s", &first, end) != 2 || strcmp(end, ".log") != 0)
		return 0;
	if (c->segments == FILES_MAX)
		return -E2BIG;
	c->first[c->segments++] = first;
	return 0;
}

static int list_files(struct cut *c, struct error *err)
{
	const struct log_io *io = c->d->io;
	int rc;

	c->first = calloc(FILES_MAX, sizeof(*c->first));
	c->snapshot = calloc(SNAPSHOTS_MAX, sizeof(*c->snapshot));
	if (!c->first || !c->snapshot)
		return error_set(err, -ENOMEM, "out of memory for the list of files");
	rc = io->list(io->ctx, "log", take_segment, c);
	if (rc)
		return error_set(err, rc, "listing %s/log failed: %s", c->d->path, error_name(rc));
	rc = snapshot_list(io, c->snapshot, SNAPSHOTS_MAX, err);
	if (rc < 0)
		return rc;
	c->snapshots = (unsigned)rc;
	return 0;
}

struct boundary {
	uint64_t behind; /* the last record before the position */
};

static int take_end(void *ctx, const struct log_record *r)
{
	((struct boundary *)ctx)->behind = r->position + r->length;
	return 0;
}

/* Where the log is whole: the position must be where a record begins, or the end. */
static int check_position(const struct cut *c, struct error *err)
{
	struct boundary b = { 0 };
	const struct log_reader reader = { .each = take_end, .ctx = &b };
	struct log_survey s;
	struct error ignored;
	uint64_t from = 0;
	int rc = 0;

	if (log_survey_make(&s, c->d->io, c->d->meta.store, &ignored))
		return 0; /* it is damaged: recovery will judge what is left */
	if (c->position > s.end)
		rc = error_set(err, -ERANGE,
			       "--recover-until %" PRIu64 ": the log ends at %" PRIu64 " (leave it "
			       "out, or give a position below that: kv-inspect log %s)",
			       c->position, s.end, c->d->path);
	for (unsigned i = 0; i < s.segments && s.segment[i].first <= c->position; i++)
		from = s.segment[i].first;
	b.behind = from;
	if (rc == 0 && c->position > from &&
	    log_read(&s, c->d->io, from, c->position, &reader, &ignored) == 0 &&
	    b.behind != c->position)
		rc = error_set(err, -EINVAL,
			       "--recover-until %" PRIu64 ": no record begins there; the one "
			       "before it ends at %" PRIu64 " (kv-inspect log %s --records shows "
			       "where)",
			       c->position, b.behind, c->d->path);
	log_survey_free(&s);
	return rc;
}

/* Something must be left that recovery can begin with. */
static int check_rest(const struct cut *c, struct error *err)
{
	uint64_t oldest = UINT64_MAX, least = UINT64_MAX;

	for (unsigned i = 0; i < c->segments; i++)
		oldest = c->first[i] < oldest ? c->first[i] : oldest;
	if (oldest == 0)
		return 0;
	for (unsigned i = 0; i < c->snapshots; i++) {
		const struct snapshot_info *s = &c->snapshot[i];

		if (!s->why && s->foot.start >= oldest && s->foot.end < least)
			least = s->foot.end;
	}
	if (least <= c->position && oldest <= c->position)
		return 0;
	if (least == UINT64_MAX)
		return error_set(err, -ERANGE,
				 "--recover-until %" PRIu64 ": there is no complete snapshot to "
				 "begin with (put the files of snapshot/ back)",
				 c->position);
	return error_set(err, -ERANGE,
			 "--recover-until %" PRIu64 ": the oldest snapshot has records up to "
			 "%" PRIu64 " (give that, or more)",
			 c->position, least);
}

static int move(struct cut *c, const char *folder, const char *name, struct error *err)
{
	const struct log_io *io = c->d->io;
	char to[96];
	int rc = 0;

	if (!c->moved)
		rc = io->make_dir(io->ctx, c->folder);
	if (rc == 0) {
		snprintf(to, sizeof(to), "%s/%s", c->folder, strchr(name, '/') + 1);
		rc = io->rename(io->ctx, name, to);
	}
	if (rc == 0)
		rc = io->sync_dir(io->ctx, c->folder);
	if (rc == 0)
		rc = io->sync_dir(io->ctx, folder);
	if (rc)
		return error_set(err, rc, "moving %s/%s into %s/ failed: %s", c->d->path, name,
				 c->folder, error_name(rc));
	c->moved++;
	return 0;
}

static int move_files(struct cut *c, struct error *err)
{
	char name[48];
	int rc = 0;

	snprintf(c->folder, sizeof(c->folder), "cut-%" PRIu64, time_wall_ms());
	for (unsigned i = 0; i < c->snapshots && rc == 0; i++) {
		if (c->snapshot[i].why || c->snapshot[i].foot.end > c->position)
			rc = move(c, "snapshot", c->snapshot[i].name, err);
	}
	for (unsigned i = 0; i < c->segments && rc == 0; i++) {
		if (c->first[i] < c->position)
			continue;
		snprintf(name, sizeof(name), "log/%016" PRIx64 ".log", c->first[i]);
		rc = move(c, "log", name, err);
	}
	if (rc == 0 && c->moved)
		rc = c->d->io->sync_dir(c->d->io->ctx, "");
	return rc;
}

/* What the file has, written once more where it stands, and synced. */
static int write_again(const struct log_io *io, struct log_file *f)
{
	const int64_t size = io->size(f);
	uint8_t *piece = aligned_alloc(LOG_BLOCK, PIECE_BYTES);
	int64_t n = size < 0 ? size : 0;
	int rc = piece ? 0 : -ENOMEM;

	for (int64_t at = 0; rc == 0 && n >= 0 && at < size; at += n) {
		n = io->read(f, piece, PIECE_BYTES, (uint64_t)at);
		if (n <= 0)
			break;
		rc = io->write(f, piece, (size_t)n, (uint64_t)at);
	}
	free(piece);
	if (rc == 0)
		rc = n < 0 ? (int)n : io->sync(f);
	return rc;
}

/* The file that the position lies in: what is below it is durable after this. */
static int sync_last(const struct cut *c, struct error *err)
{
	const struct log_io *io = c->d->io;
	bool any = false;
	uint64_t last = 0;
	struct log_file *f;
	char name[48];
	int rc;

	for (unsigned i = 0; i < c->segments; i++) {
		if (c->first[i] < c->position && c->first[i] >= last) {
			last = c->first[i];
			any = true;
		}
	}
	if (!any)
		return 0;
	snprintf(name, sizeof(name), "log/%016" PRIx64 ".log", last);
	rc = io->open(io->ctx, name, LOG_OPEN_WRITE, &f);
	if (rc == 0) {
		rc = write_again(io, f);
		io->close(f);
	}
	return rc ? error_set(err, rc, "syncing %s/%s failed: %s", c->d->path, name, error_name(rc))
		  : 0;
}

static int fill_segment(const struct cut *c, struct log_segment_header *h, struct error *err)
{
	const struct data_meta *m = &c->d->meta;
	int rc;

	*h = (struct log_segment_header){
		.magic = LOG_SEGMENT_MAGIC,
		.first = c->position,
		.durable = c->position,
		.life = m->life,
		.store = { m->store[0], m->store[1] },
		.bytes = LOG_BLOCK,
		.clock_ms = m->clock_ms,
	};
	rc = random_fill(&h->identity, sizeof(h->identity), err);
	h->identity |= 1;
	h->checksum = log_segment_checksum(h);
	return rc;
}

/* The segment without a record that ends the log. */
static int write_bound(const struct cut *c, struct error *err)
{
	const struct log_io *io = c->d->io;
	struct log_segment_header *h = aligned_alloc(LOG_BLOCK, LOG_BLOCK);
	struct log_file *f;
	char name[48];
	int rc;

	if (!h)
		return error_set(err, -ENOMEM, "out of memory for a block of the log");
	memset(h, 0, LOG_BLOCK);
	rc = fill_segment(c, h, err);
	if (rc)
		goto out;
	snprintf(name, sizeof(name), "log/%016" PRIx64 ".log", c->position);
	rc = io->open(io->ctx, "log/cut.tmp", LOG_OPEN_NEW, &f);
	if (rc == 0) {
		rc = io->write(f, h, LOG_BLOCK, 0);
		if (rc == 0)
			rc = io->sync(f);
		io->close(f);
	}
	if (rc == 0)
		rc = io->rename(io->ctx, "log/cut.tmp", name);
	if (rc == 0)
		rc = io->sync_dir(io->ctx, "log");
	if (rc)
		error_set(err, rc, "writing %s/%s failed: %s", c->d->path, name, error_name(rc));
out:
	free(h);
	return rc;
}

static void name_mark(const struct cut *c, char name[48])
{
	snprintf(name, 48, "cut-at-%" PRIu64, c->position);
}

/* Whether the log was cut there by an earlier start. */
static bool was_cut(const struct cut *c)
{
	const struct log_io *io = c->d->io;
	struct log_file *f;
	char name[48];

	name_mark(c, name);
	if (io->open(io->ctx, name, LOG_OPEN_READ, &f))
		return false;
	io->close(f);
	log_warn(
		"data",
		"%s: the log was cut at position %" PRIu64
		" by an earlier start, and is not cut again (leave --recover-until out; delete %s/%s "
		"if you mean it)",
		c->d->path, c->position, c->d->path, name);
	return true;
}

static int mark(const struct cut *c, struct error *err)
{
	const struct log_io *io = c->d->io;
	struct log_file *f;
	char name[48];
	int rc;

	name_mark(c, name);
	rc = io->open(io->ctx, name, LOG_OPEN_NEW, &f);
	if (rc == 0) {
		rc = io->sync(f);
		io->close(f);
	}
	if (rc == 0)
		rc = io->sync_dir(io->ctx, "");
	return rc ? error_set(err, rc, "making %s/%s failed: %s (make room there)", c->d->path,
			      name, error_name(rc))
		  : 0;
}

int data_cut(struct data *d, uint64_t position, struct error *err)
{
	struct cut c = { .d = d, .position = position };
	int rc;

	if (was_cut(&c))
		return 0;
	rc = list_files(&c, err);
	if (rc == 0)
		rc = check_position(&c, err);
	if (rc == 0)
		rc = check_rest(&c, err);
	if (rc == 0)
		rc = sync_last(&c, err);
	if (rc == 0)
		rc = move_files(&c, err);
	if (rc == 0)
		rc = write_bound(&c, err);
	if (rc == 0)
		rc = mark(&c, err);
	if (rc == 0)
		log_warn("data",
			 "%s: the log is cut at position %" PRIu64
			 ", as --recover-until says: what "
			 "came after it is given up%s%s",
			 d->path, position, c.moved ? ", and kept in " : "",
			 c.moved ? c.folder : "");
	free(c.snapshot);
	free(c.first);
	return rc;
}
