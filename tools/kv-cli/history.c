/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "tools/kv-cli/line_reader.h"

/* The newest lines of a file; next is where the next one goes. */
struct ring {
	char *line[HISTORY_LINES];
	size_t next, read; /* read: lines that there were in all */
};

static void ring_free(struct ring *r)
{
	for (size_t i = 0; r && i < HISTORY_LINES; i++)
		free(r->line[i]);
	free(r);
}

static size_t ring_count(const struct ring *r)
{
	return r->read < HISTORY_LINES ? r->read : HISTORY_LINES;
}

/* The line at @i, the oldest first. */
static const char *ring_at(const struct ring *r, size_t i)
{
	return r->line[(r->next + HISTORY_LINES - ring_count(r) + i) % HISTORY_LINES];
}

static int ring_add(struct ring *r, const char *text, size_t len)
{
	char *copy = strndup(text, len);

	if (!copy)
		return -ENOMEM;
	free(r->line[r->next]);
	r->line[r->next] = copy;
	r->next = (r->next + 1) % HISTORY_LINES;
	r->read++;
	return 0;
}

/* Lines that are too long, or have a zero byte, are none of ours. */
static int ring_read(struct ring *r, int fd)
{
	struct line_reader reader;
	struct line line;
	int rc = line_reader_init(&reader, fd, HISTORY_LINE_MAX);

	while (rc == 0) {
		rc = line_reader_next(&reader, &line);
		if (rc == 0)
			break;
		if (rc == 1)
			rc = line.len && !memchr(line.text, '\0', line.len)
				     ? ring_add(r, line.text, line.len)
				     : 0;
		else if (rc == -E2BIG)
			rc = 0;
	}
	line_reader_free(&reader);
	return rc;
}

/* Folders of @path that are missing, for the user alone. */
static int make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		int rc;

		*slash = '\0';
		rc = mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
		*slash = '/';
		if (rc)
			return rc;
	}
	return 0;
}

/* An XDG path that is not absolute is to be ignored (XDG Base Directory Specification). */
static int find_path(char path[PATH_MAX])
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int len;

	if (state && state[0] == '/')
		len = snprintf(path, PATH_MAX, "%s/gracekv/history", state);
	else if (home && home[0] == '/')
		len = snprintf(path, PATH_MAX, "%s/.local/state/gracekv/history", home);
	else
		return -ENOENT;
	return len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Read the file, which is made where there is none, and keep others out of it. */
static int read_file(const char *path, struct ring *r)
{
	autoclose int fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((st.st_mode & 0177) && fchmod(fd, 0600))
		return -errno;
	return ring_read(r, fd);
}

/* Replaces the file by these lines, whole or not at all. */
static int write_file(const char *path, const struct ring *r)
{
	char part[PATH_MAX + 8];
	FILE *out;
	int fd, rc = 0;

	snprintf(part, sizeof(part), "%s.XXXXXX", path);
	fd = mkostemp(part, O_CLOEXEC); /* mode 0600 */
	if (fd < 0)
		return -errno;
	out = fdopen(fd, "w");
	if (!out) {
		close(fd);
		unlink(part);
		return -ENOMEM;
	}
	for (size_t i = 0; i < ring_count(r); i++)
		fprintf(out, "%s\n", ring_at(r, i));
	if (ferror(out))
		rc = -EIO;
	if (fclose(out) || rc || rename(part, path)) {
		rc = rc ? rc : -errno;
		unlink(part);
	}
	return rc;
}

/* The file has HISTORY_LINES lines at most then. @each may be NULL. */
static int read_and_cut(struct history_file *f, void (*each)(void *arg, const char *line),
			void *arg)
{
	struct ring *r = calloc(1, sizeof(*r));
	int rc = r ? read_file(f->path, r) : -ENOMEM;

	if (rc == 0 && r->read > HISTORY_LINES)
		rc = write_file(f->path, r);
	for (size_t i = 0; rc == 0 && each && i < ring_count(r); i++)
		each(arg, ring_at(r, i));
	if (rc == 0 && ring_count(r)) {
		free(f->last);
		f->last = strdup(ring_at(r, ring_count(r) - 1));
	}
	f->lines = r ? ring_count(r) : 0;
	ring_free(r);
	return rc;
}

int history_open(struct history_file *f, void (*each)(void *arg, const char *line), void *arg,
		 struct error *err)
{
	int rc;

	*f = (struct history_file){ 0 };
	rc = find_path(f->path);
	if (rc)
		return error_set(err, rc,
				 "history: there is no folder for it (set HOME or XDG_STATE_HOME)");
	rc = make_folders(f->path);
	if (rc == 0)
		rc = read_and_cut(f, each, arg);
	if (rc)
		rc = error_set(err, rc, "history %s: %s", f->path,
			       rc == -EINVAL ? "is not a regular file" : error_name(rc));
	if (rc)
		f->path[0] = '\0';
	return rc;
}

void history_keep(struct history_file *f, const char *line)
{
	size_t len = strlen(line);
	autofree char *whole = NULL;
	autoclose int fd = -1;

	if (!f->path[0] || len == 0 || len > HISTORY_LINE_MAX || line[0] == ' ' ||
	    (f->last && strcmp(f->last, line) == 0) || asprintf(&whole, "%s\n", line) < 0)
		return;
	fd = open(f->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
	/* in one piece, so that it stands by itself also where another prompt writes */
	if (fd < 0 || write(fd, whole, len + 1) != (ssize_t)len + 1)
		return;
	f->lines++;
	free(f->last);
	f->last = strdup(line);
	if (f->lines >= 2 * HISTORY_LINES)
		read_and_cut(f, NULL, NULL);
}

void history_close(struct history_file *f)
{
	if (f->path[0])
		read_and_cut(f, NULL, NULL);
	free(f->last);
	f->last = NULL;
}
