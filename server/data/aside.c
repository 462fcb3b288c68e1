/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The directory of a member that learns from another server: what it has goes to aside/, and stays
 * there until the member has all that the group has.
 *
 * ORDER. meta goes first, by a rename: from then on there is none, and aside/meta says that what
 * stands in log/ and snapshot/ belongs to it. The files follow, and when the last one is gone a new
 * meta begins the directory. A start that finds no meta but aside/meta goes on there.
 *
 * If there is something aside already, the member has never had all since: what it has is a part
 * of what others have, and is deleted. aside/meta goes first when what is aside is not wanted any
 * more: what is there without it is deleted as well.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mutant.h"
#include "server/data/data_internal.h"

#define NAME_MAX_LEN 64u

static const char meta_aside[] = "aside/meta";
static const char *const folders[] = { "log", "snapshot" };

static int remember(void *arg, const char *file)
{
	char *name = arg;

	if (file[0] == '.' || strlen(file) >= NAME_MAX_LEN)
		return 0;
	strcpy(name, file);
	return 1;
}

/* A file of the folder, any. 1, 0: there is none, or a negative errno. */
static int any_file(const struct log_io *io, const char *folder, char name[NAME_MAX_LEN])
{
	int rc = io->list(io->ctx, folder, remember, name);

	return rc == -ENOENT ? 0 : rc;
}

/* Each file of @from goes to @to; NULL: it is deleted. */
static int empty(const struct log_io *io, const char *from, const char *to)
{
	char file[NAME_MAX_LEN], old[2 * NAME_MAX_LEN], new[2 * NAME_MAX_LEN];
	int rc;

	while ((rc = any_file(io, from, file)) == 1) {
		snprintf(old, sizeof(old), "%s/%s", from, file);
		if (to)
			snprintf(new, sizeof(new), "%s/%s", to, file);
		rc = to ? io->rename(io->ctx, old, new) : io->unlink(io->ctx, old);
		if (rc)
			return rc;
	}
	return rc;
}

static int empty_all(const struct log_io *io, bool keep)
{
	char to[NAME_MAX_LEN];
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < 2; i++) {
		snprintf(to, sizeof(to), "aside/%s", folders[i]);
		rc = empty(io, folders[i], keep ? to : NULL);
		if (rc == 0 && keep)
			rc = io->sync_dir(io->ctx, to);
		if (rc == 0)
			rc = io->sync_dir(io->ctx, folders[i]);
	}
	return rc;
}

static int delete_aside(const struct log_io *io)
{
	int rc = io->unlink(io->ctx, meta_aside);

	if (rc == 0)
		rc = io->sync_dir(io->ctx, "aside");
	if (rc == 0)
		rc = empty(io, "aside/log", NULL);
	return rc ? rc : empty(io, "aside/snapshot", NULL);
}

static int make_folders(const struct log_io *io)
{
	int rc = io->make_dir(io->ctx, "aside");

	if (rc == 0)
		rc = io->make_dir(io->ctx, "aside/log");
	if (rc == 0)
		rc = io->make_dir(io->ctx, "aside/snapshot");
	if (rc == 0)
		rc = io->sync_dir(io->ctx, "aside");
	return rc ? rc : io->sync_dir(io->ctx, "");
}

static int failed(const struct data *d, int rc, struct error *err)
{
	return error_set(err, rc,
			 "moving what %s has into %s/aside failed: %s (look at the disk, and at "
			 "its rights)",
			 d->path, d->path, error_name(rc));
}

bool data_has_aside(const struct log_io *io)
{
	struct log_file *f;

	if (io->open(io->ctx, meta_aside, LOG_OPEN_READ, &f))
		return false;
	io->close(f);
	return true;
}

int data_finish_aside(struct data *d, struct error *err)
{
	int rc = empty_all(d->io, true);

	return rc ? failed(d, rc, err) : 0;
}

static int move_all(struct data *d)
{
	const struct log_io *io = d->io;
	int rc = make_folders(io);

	if (rc == 0)
		rc = delete_aside(io); /* what has no meta */
	if (rc == 0 && MUTANT(aside_meta_last))
		rc = empty_all(io, true);
	if (rc == 0)
		rc = io->rename(io->ctx, "meta", meta_aside);
	if (rc == 0)
		rc = io->sync_dir(io->ctx, "aside");
	if (rc == 0)
		rc = io->sync_dir(io->ctx, "");
	return rc ? rc : empty_all(io, true);
}

int data_set_aside(struct data *d, struct error *err)
{
	const struct data_meta was = d->meta;
	int rc;

	if (data_is_empty(d))
		return 0;
	if (data_has_aside(d->io)) {
		rc = empty_all(d->io, false);
		return rc ? failed(d, rc, err) : 0;
	}
	rc = move_all(d);
	if (rc)
		return failed(d, rc, err);
	log_info("data", "%s: what was there is kept in aside/ until this server has all again",
		 d->path);
	return data_make_meta(d, &was, err);
}

void data_forget_aside(struct data *d)
{
	atomic_store_explicit(&d->forgets_aside, true, memory_order_relaxed);
}

void data_delete_aside(struct data *d)
{
	int rc;

	if (!atomic_exchange_explicit(&d->forgets_aside, false, memory_order_relaxed) ||
	    !data_has_aside(d->io))
		return;
	rc = delete_aside(d->io);
	if (rc)
		log_warn("data", "%s/aside is not needed any more, and cannot be deleted: %s",
			 d->path, error_name(rc));
	else
		log_info("data", "%s/aside is not needed any more, and was deleted", d->path);
}
