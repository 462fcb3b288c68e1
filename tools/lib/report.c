/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/report.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_MAX_BYTES 4096

int report_folder_make(const char *folder, struct error *err)
{
	char itself[PATH_MAX_BYTES]; /* with a dot after: a file is none */
	int rc;

	if (snprintf(itself, sizeof(itself), "%s/.", folder) >= (int)sizeof(itself))
		return error_set(err, -ENAMETOOLONG, "the name of the folder is too long");
	if (mkdir(folder, 0777) && errno != EEXIST) {
		rc = -errno;
		return error_set(err, rc,
				 "making the folder %.400s failed: %s (its parent must be "
				 "there, and writable)",
				 folder, error_name(rc));
	}
	if (access(itself, W_OK | X_OK)) {
		rc = -errno;
		return error_set(err, rc, "%.400s: %s (give a folder that you may write)", folder,
				 error_name(rc));
	}
	return 0;
}

static int write_file(const char *folder, const struct report_file *file, const void *ctx,
		      struct error *err)
{
	char path[PATH_MAX_BYTES];
	FILE *out;
	int rc;

	if (snprintf(path, sizeof(path), "%s/%s", folder, file->name) >= (int)sizeof(path))
		return error_set(err, -ENAMETOOLONG, "the name of the folder is too long");
	out = fopen(path, "w");
	if (!out) {
		rc = -errno;
		return error_set(err, rc,
				 "opening %s failed: %s (give a folder that you may write)", path,
				 error_name(rc));
	}
	rc = file->write(ctx, out);
	if (ferror(out) && rc == 0)
		rc = -EIO;
	if (fclose(out) && rc == 0)
		rc = -errno;
	if (rc)
		return error_set(err, rc, "writing %s failed: %s (is there room?)", path,
				 error_name(rc));
	return 0;
}

int report_write(const char *folder, const struct report_file *files, const void *ctx,
		 struct error *err)
{
	int rc = 0;

	for (unsigned i = 0; files[i].name && rc == 0; i++)
		rc = write_file(folder, &files[i], ctx, err);
	return rc;
}
