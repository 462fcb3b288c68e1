/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-inspect/disk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/kv-cli/units.h"
#include "tools/kv-inspect/decode.h"
#include "tools/kv-inspect/show.h"

static const struct show_field lines[] = {
	{ "directory", "directory", SHOW_PLAIN, "where it stands" },
	{ "store", "store", SHOW_PLAIN, "identity of the directory, random" },
	{ "format", "format", SHOW_PLAIN, "of the directory" },
	{ "life", "life", SHOW_PLAIN, "grows with each start; the upper 20 bits of versions" },
	{ "hash_seed", "hash seed", SHOW_PLAIN, "of the keys' XXH3" },
	{ "written", "written", SHOW_PLAIN, "when meta was, UTC" },
	{ "cluster", "cluster", SHOW_PLAIN, "identity of the cluster, random" },
	{ "group", "group", SHOW_PLAIN, "XXH3 of its name" },
	{ "term", "term", SHOW_PLAIN, "of the group, or a later one, when it led or learned last" },
	{ "whole_of", "whole of", SHOW_PLAIN,
	  "lives of which it has all, unless it was copied since" },
	{ "whole_until", "  until", SHOW_PLAIN, "how long that holds" },
	{ "meta_fault", "  meta", SHOW_FAULT, "the file that says all this" },
	{ 0 },
};

int disk_failed(const struct tool *t, const char *what, int rc, const struct error *err)
{
	bool at_fault = rc == -EUCLEAN || rc == -EXDEV || rc == -EPROTO || rc == -EBADMSG;

	return program_told(t->program, at_fault ? TOOL_NO : TOOL_FAILED, what, err->text);
}

json_t *disk_time(uint64_t ms)
{
	char text[UNITS_TIME_MAX];

	return ms ? json_string(units_time(text, ms)) : json_null();
}

static json_t *identity(const uint64_t id[2])
{
	char text[40];

	snprintf(text, sizeof(text), "%016" PRIx64 "%016" PRIx64, id[0], id[1]);
	return json_string(text);
}

/* That it may come back as primary: meta_format.h. */
static void tell_group(struct tool *t, const struct data_meta *m)
{
	json_t *lives = json_array();
	const char *until = m->boot[1] == 0   ? "for good"
			    : m->boot[1] == 1 ? "the machine starts again"
					      : "no longer";

	for (unsigned i = 0; i < 2; i++)
		if (m->whole[i])
			json_array_append_new(lives, decode_word(m->whole[i]));
	tool_set(t, "cluster", identity(m->cluster));
	tool_set(t, "group", decode_word(m->group));
	tool_set(t, "term", decode_number(m->term));
	tool_set(t, "whole_of", lives);
	tool_set(t, "whole_until", json_array_size(lives) ? json_string(until) : json_null());
}

static void tell(struct tool *t, const struct disk *d, const char *fault)
{
	tool_set(t, "directory", json_string(d->path));
	tool_set(t, "meta_fault", decode_text(fault));
	if (!d->store)
		return;
	tool_set(t, "store", identity(d->store));
	tool_set(t, "format", json_integer(d->meta.format));
	tool_set(t, "life", decode_number(d->meta.life));
	tool_set(t, "hash_seed", decode_word(d->meta.hash_seed));
	tool_set(t, "written", disk_time(d->meta.clock_ms));
	if (d->meta.group)
		tell_group(t, &d->meta);
}

int disk_open(struct disk *d, struct tool *t, const char *path)
{
	struct error err;
	int rc;

	*d = (struct disk){ 0 };
	snprintf(d->path, sizeof(d->path), "%s", path);
	rc = log_io_kernel(&d->io, path, false, &err);
	if (rc)
		return disk_failed(t, "opening the data directory", rc, &err);
	rc = meta_read(&d->io, &d->meta, &err);
	if (rc == -ENOENT) {
		disk_close(d);
		return disk_failed(t, path, rc, &err);
	}
	if (rc == 0)
		d->store = d->meta.store;
	tell(t, d, rc ? err.text : NULL);
	return rc ? TOOL_NO : TOOL_GOOD;
}

void disk_close(struct disk *d)
{
	log_io_kernel_close(&d->io);
}

void disk_head(const struct tool *t)
{
	show_lines(t->doc, lines);
	putchar('\n');
}
