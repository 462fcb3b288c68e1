/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"

int out_file_open(struct out_file *f, const char *name, struct error *err)
{
	int flags = O_WRONLY | O_CLOEXEC, fd;
	struct stat st;

	*f = (struct out_file){ 0 };
	f->name = realpath(name, NULL); /* of a symbolic link the target is replaced */
	if (!f->name)
		f->name = strdup(name);
	if (!f->name)
		return error_set(err, -ENOMEM, "no memory");
	if (stat(f->name, &st) == 0 && S_ISDIR(st.st_mode)) {
		out_file_abandon(f);
		return error_set(err, -EISDIR, "is a directory (give a file)");
	}
	if (stat(f->name, &st) || S_ISREG(st.st_mode)) {
		if (asprintf(&f->part, "%s.part", f->name) < 0) {
			f->part = NULL;
			out_file_abandon(f);
			return error_set(err, -ENOMEM, "no memory");
		}
		flags |= O_CREAT | O_TRUNC | O_NOFOLLOW;
	}
	fd = open(f->part ? f->part : f->name, flags, 0666);
	f->stream = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f->stream) {
		int code = -errno;

		error_set(err, code, "cannot open %s: %s", f->part ? f->part : f->name,
			  error_name(code));
		if (fd >= 0) {
			close(fd);
		} else { /* there is nothing of ours to remove */
			free(f->part);
			f->part = NULL;
		}
		out_file_abandon(f);
		return code;
	}
	return 0;
}

/* A rename is on disk only when its folder is. Some file systems cannot sync folders: no error. */
static void out_file_sync_folder(const char *name)
{
	autofree char *copy = strdup(name);
	autoclose int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0)
		fsync(fd);
}

int out_file_commit(struct out_file *f, struct error *err)
{
	int bad = ferror(f->stream), code = 0;

	errno = EIO; /* for a write that failed earlier */
	if (fflush(f->stream) || bad)
		code = -errno;
	else if (f->part && fsync(fileno(f->stream)))
		code = -errno;
	if (fclose(f->stream) && !code)
		code = -errno;
	f->stream = NULL;
	if (code)
		return error_set(err, code, "writing: %s", error_name(code));
	if (f->part && rename(f->part, f->name)) {
		code = -errno;
		return error_set(err, code, "renaming %s: %s", f->part, error_name(code));
	}
	if (f->part)
		out_file_sync_folder(f->name);
	free(f->part);
	f->part = NULL;
	return 0;
}

void out_file_abandon(struct out_file *f)
{
	if (f->stream)
		fclose(f->stream);
	if (f->part)
		unlink(f->part);
	free(f->part);
	free(f->name);
	*f = (struct out_file){ 0 };
}
