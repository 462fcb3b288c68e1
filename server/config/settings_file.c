/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The settings of --config FILE. */
#include "server/config/settings_internal.h"

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/nearest.h"

struct file_scan {
	struct setting_values *v;
	FILE *file;
	bool seen[SETTINGS_COUNT]; /* in this file */
	int line; /* being read */
	int wrong_line;
	char wrong[160]; /* what is wrong there, in words */
};

__attribute__((format(printf, 2, 3))) static int file_wrong(struct file_scan *scan, const char *fmt,
							    ...)
{
	va_list ap;

	scan->wrong_line = scan->line;
	va_start(ap, fmt);
	vsnprintf(scan->wrong, sizeof(scan->wrong), fmt, ap);
	va_end(ap);
	return 0;
}

static int file_unknown(struct file_scan *scan, const char *name)
{
	struct nearest near = nearest_to(name);

	for (unsigned i = 0; i < SETTINGS_COUNT; i++)
		nearest_try(&near, settings[i].name);
	if (near.name)
		return file_wrong(scan, "there is no setting '%.80s' (did you mean %s?)", name,
				  near.name);
	return file_wrong(scan, "there is no setting '%.80s' (see kv-server --help)", name);
}

static int file_line(void *user, const char *section, const char *name, const char *value)
{
	struct file_scan *scan = user;
	char where[SETTINGS_WHERE_MAX];

	(void)section; /* file_section() has looked at it */
	for (unsigned i = 0; i < SETTINGS_COUNT; i++) {
		if (strcmp(settings[i].name, name) != 0)
			continue;
		if (scan->seen[i])
			return file_wrong(scan, "'%s' is given twice (leave one)", name);
		scan->seen[i] = true;
		snprintf(where, sizeof(where), "%.250s line %d: %s", scan->v->config_file,
			 scan->line, name);
		return settings_give(scan->v, i, value, where) == 0;
	}
	return file_unknown(scan, name);
}

/* A line that names a section, also of one without settings: inih does not tell of those. */
static bool file_section(struct file_scan *scan, const char *line)
{
	const char *name = line + 1 + strspn(line + 1, " \t");
	size_t len = strcspn(name, "]\n");

	while (len && (name[len - 1] == ' ' || name[len - 1] == '\t'))
		len--;
	if (len == strlen("kv-server") && strncmp(name, "kv-server", len) == 0)
		return true;
	file_wrong(scan, "there is no section [%.*s] (settings stand in [kv-server], or in none)",
		   (int)(len < 80 ? len : 80), name);
	return false;
}

/*
 * A line for inih, as fgets() gives it, but: blanks in front are dropped, for inih takes an
 * indented line for more of the value before it; what does not fit is dropped from a comment, and
 * ends the reading elsewhere, for inih would take the rest for a line of its own.
 */
static char *file_read(char *line, int size, void *user)
{
	struct file_scan *scan = user;
	int n = 0, c;

	if (scan->wrong[0])
		return NULL; /* enough */
	scan->line++;
	c = fgetc(scan->file);
	while (c == ' ' || c == '\t')
		c = fgetc(scan->file);
	for (; c != EOF && c != '\n'; c = fgetc(scan->file)) {
		if (c == '\0' || (n + 2 >= size && line[0] != '#' && line[0] != ';')) {
			file_wrong(scan,
				   c ? "it is longer than 198 bytes" : "it holds a zero byte");
			return NULL;
		}
		if (n + 2 < size)
			line[n++] = (char)c;
	}
	if (c == EOF && n == 0)
		return NULL;
	line[n] = '\n';
	line[n + 1] = '\0';
	return line[0] != '[' || file_section(scan, line) ? line : NULL;
}

int settings_from_file(struct setting_values *v, struct error *err)
{
	struct file_scan scan = { .v = v };
	int rc, code;

	if (!v->config_file)
		return 0;
	errno = 0;
	scan.file = fopen(v->config_file, "re");
	rc = scan.file ? ini_parse_stream(file_read, &scan, file_line, &scan) : -1;
	code = !scan.file || ferror(scan.file) ? errno : 0;
	if (scan.file)
		fclose(scan.file);
	if (code)
		return error_set(err, -ENOENT, "reading %s failed: %s (give a readable INI file)",
				 v->config_file, error_name(code));
	if (scan.wrong[0] && (rc == 0 || rc == scan.wrong_line))
		return error_set(err, -EINVAL, "%s line %d: %s", v->config_file, scan.wrong_line,
				 scan.wrong);
	if (rc)
		return error_set(err, -EINVAL, "%s line %d is not 'name = value'", v->config_file,
				 rc);
	return 0;
}
