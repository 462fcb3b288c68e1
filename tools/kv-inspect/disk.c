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

static void tell(struct tool *t, const struct disk *d, const char *fault)
{
	char store[40];

	tool_set(t, "directory", json_string(d->path));
	tool_set(t, "meta_fault", decode_text(fault));
	if (!d->store)
		return;
	snprintf(store, sizeof(store), "%016" PRIx64 "%016" PRIx64, d->meta.store[0],
		 d->meta.store[1]);
	tool_set(t, "store", json_string(store));
	tool_set(t, "format", json_integer(d->meta.format));
	tool_set(t, "life", decode_number(d->meta.life));
	tool_set(t, "hash_seed", decode_word(d->meta.hash_seed));
	tool_set(t, "written", disk_time(d->meta.clock_ms));
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
