/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* --check-data: everything is read, nothing is changed. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/data/data_internal.h"

struct check {
	const char *path;
	struct log_io io;
	struct data_meta meta;
	struct log_survey survey;
	struct snapshot_info *snapshot;
	unsigned snapshots;
	uint64_t records;
};

static int count_record(void *ctx, const struct log_record *r)
{
	struct check *c = ctx;

	(void)r;
	c->records++;
	return 0;
}

static int check_snapshots(struct check *c, struct error *err)
{
	const struct snapshot_reader reader = { .ctx = c };

	for (unsigned i = 0; i < c->snapshots; i++) {
		const struct snapshot_info *s = &c->snapshot[i];
		int rc;

		if (s->why) {
			printf("%s: not complete: %s\n", s->name, s->why);
			continue;
		}
		rc = snapshot_read(&c->io, s, &reader, err);
		if (rc == 0)
			rc = data_outran(s, &c->survey, err);
		if (rc)
			return rc;
		printf("%s: whole, %" PRIu64 " records, %" PRIu64 " bytes, positions %" PRIu64
		       " to %" PRIu64 "\n",
		       s->name, s->foot.records, s->bytes, s->foot.start, s->foot.end);
	}
	return 0;
}

static int check_log(struct check *c, struct error *err)
{
	const struct log_survey *s = &c->survey;
	const struct log_reader reader = { .each = count_record, .ctx = c };

	for (unsigned i = 0; i < s->segments; i++) {
		const struct log_segment_info *g = &s->segment[i];
		/* up to the next one, or there is a gap */
		const uint64_t to = i + 1 < s->segments ? s->segment[i + 1].first : g->behind;
		int rc;

		c->records = 0;
		rc = log_read(s, &c->io, g->first, to, &reader, err);
		if (rc)
			return rc;
		printf("%s: whole, %" PRIu64 " records, positions %" PRIu64 " to %" PRIu64
		       ", life %" PRIu64 "\n",
		       g->name, c->records, g->first, to, g->life);
	}
	if (s->end_why)
		printf("the log ends at %s, offset %" PRIu64 ": %s\n", s->end_name, s->end_offset,
		       s->end_why);
	return 0;
}

static int check_all(struct check *c, struct error *err)
{
	int rc = meta_read(&c->io, &c->meta, err), count;

	if (rc == -ENOENT)
		return error_set(err, rc,
				 "there is no meta in it: it is no data directory (a server makes "
				 "one when it starts)");
	if (rc)
		return rc;
	printf("meta: whole, life %" PRIu64 ", format %u\n", c->meta.life, c->meta.format);
	rc = log_survey_make(&c->survey, &c->io, c->meta.store, err);
	if (rc)
		return rc;
	count = snapshot_list(&c->io, c->snapshot, SNAPSHOTS_MAX, err);
	if (count < 0)
		return count;
	c->snapshots = (unsigned)count;
	rc = check_snapshots(c, err);
	if (rc == 0 && data_choose(c->snapshot, c->snapshots, 0) == c->snapshots)
		rc = data_begins(&c->survey, err);
	return rc ? rc : check_log(c, err);
}

int data_check(const char *path, struct error *err)
{
	struct check c = { .path = path };
	int rc;

	c.snapshot = calloc(SNAPSHOTS_MAX, sizeof(*c.snapshot));
	if (!c.snapshot)
		return error_set(err, -ENOMEM, "out of memory for the list of snapshots");
	rc = log_io_kernel(&c.io, path, false, err);
	if (rc == 0) {
		rc = check_all(&c, err);
		if (rc)
			error_prefix(err, "--data-dir %s", path);
		log_survey_free(&c.survey);
		log_io_kernel_close(&c.io);
	}
	free(c.snapshot);
	return rc;
}
