/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * DIR/meta. A new one is written beside it, synced, and renamed over it; then the directory is
 * synced. So after any crash the old one is there, or the new one, whole.
 */
#include "server/log/meta.h"

#include <errno.h>

#define NAME	 "meta"
#define NAME_NEW "meta.new"

static int broken(int rc, const char *why, struct error *err)
{
	if (rc == -EPROTO)
		return error_set(err, rc,
				 "the data directory's " NAME " is of another format: %s (use the "
				 "release of GraceKV that wrote it)",
				 why);
	return error_set(err, -EUCLEAN,
			 "the data directory's " NAME " is corrupt: %s (restore the directory from "
			 "a back-up; `kv-inspect log DIR` shows what is there)",
			 why);
}

int meta_read(const struct log_io *io, struct data_meta *out, struct error *err)
{
	const struct data_meta *found;
	_Alignas(8) uint8_t bytes[sizeof(*out)];
	const char *why = "it is too short";
	struct log_file *f;
	int64_t len;
	int rc = io->open(io->ctx, NAME, LOG_OPEN_READ, &f);

	if (rc == -ENOENT)
		return error_set(err, rc, "the data directory has no " NAME " (is it one?)");
	if (rc)
		return error_set(err, rc,
				 "opening the data directory's " NAME " failed: %s (give the user "
				 "the right to read it)",
				 error_name(rc));
	len = io->read(f, bytes, sizeof(bytes), 0);
	io->close(f);
	if (len < 0)
		return error_set(err, (int)len,
				 "reading the data directory's " NAME
				 " failed: %s (look at the disk)",
				 error_name((int)len));
	rc = meta_decode(bytes, (uint64_t)len, &found, &why);
	if (rc)
		return broken(rc, why, err);
	*out = *found;
	return 0;
}

static int replace(const struct log_io *io, const struct data_meta *m)
{
	struct log_file *f;
	int rc = io->open(io->ctx, NAME_NEW, LOG_OPEN_NEW, &f);

	if (rc)
		return rc;
	rc = io->write(f, m, sizeof(*m), 0);
	if (rc == 0)
		rc = io->sync(f);
	io->close(f);
	if (rc == 0)
		rc = io->rename(io->ctx, NAME_NEW, NAME);
	return rc ? rc : io->sync_dir(io->ctx, "");
}

int meta_write(const struct log_io *io, struct data_meta *m, struct error *err)
{
	int rc;

	m->magic = META_MAGIC;
	m->format = META_FORMAT;
	m->checksum = meta_checksum(m);
	rc = replace(io, m);
	return rc ? error_set(err, rc, "writing the data directory's " NAME " failed: %s (%s)",
			      error_name(rc),
			      rc == -ENOSPC || rc == -EDQUOT
				      ? "make room on its disk"
				      : "look at the disk, and at its rights")
		  : 0;
}
