/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Which snapshot counts, and whether snapshot and log belong together: of recovery and checks. */
#include <errno.h>
#include <inttypes.h>

#include "server/data/data_internal.h"

unsigned data_choose(const struct snapshot_info *s, unsigned count, unsigned from)
{
	while (from < count && s[from].why)
		from++;
	return from < count ? from : count;
}

int data_outran(const struct snapshot_info *s, const struct log_survey *survey, struct error *err)
{
	if (s->foot.end > survey->end)
		return error_set(err, -EUCLEAN,
				 "%s has records up to position %" PRIu64 ", and the log ends at "
				 "%" PRIu64 ": a part of the log is missing, and what it said of "
				 "them (put the files of log/ back; or move this snapshot away, to "
				 "go on from an older one and lose what came after it)",
				 s->name, s->foot.end, survey->end);
	if (s->foot.start < survey->first)
		return error_set(err, -EUCLEAN,
				 "the log begins at position %" PRIu64 ", and %s needs it from "
				 "%" PRIu64 " on: a part of the log is missing (put the files of "
				 "log/ back)",
				 survey->first, s->name, s->foot.start);
	return 0;
}

int data_begins(const struct log_survey *survey, struct error *err)
{
	if (!survey->segments || survey->first == 0)
		return 0;
	return error_set(err, -EUCLEAN,
			 "the log begins at position %" PRIu64 ", and there is no complete "
			 "snapshot with what was before (put the files of snapshot/ back)",
			 survey->first);
}
