/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The file of lines: order, bounds, who may read it, two prompts at once. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/folder.h"
#include "tests/lib/unit.h"

#include "tools/kv-cli/history.h"

static char seen[HISTORY_LINES + 8][64]; /* the beginnings of what history_open() handed out */
static size_t seen_count;
static struct error err;

static void see(void *arg, const char *line)
{
	assert_true(seen_count < HISTORY_LINES);
	snprintf(seen[seen_count++], sizeof(seen[0]), "%s", line);
}

static void open_it(struct history_file *f)
{
	seen_count = 0;
	assert_int_equal(history_open(f, see, NULL, &err), 0);
}

static const char *path(void)
{
	static char whole[128];

	snprintf(whole, sizeof(whole), "%s/state/gracekv/history", folder);
	return whole;
}

static size_t lines_of_file(void)
{
	FILE *in = fopen(path(), "r");
	size_t lines = 0;

	assert_non_null(in);
	for (int c; (c = getc(in)) != EOF;)
		lines += c == '\n';
	fclose(in);
	return lines;
}

static unsigned mode(const char *name)
{
	struct stat st;

	assert_int_equal(stat(name, &st), 0);
	return st.st_mode & 07777;
}

static int fresh_home(void **state)
{
	char text[160];

	snprintf(text, sizeof(text), "%s/state", folder);
	setenv("XDG_STATE_HOME", text, 1);
	return folder_empty(state);
}

UNIT_TEST(test_kept, fresh_home)
{
	struct history_file f;

	open_it(&f);
	assert_int_equal(seen_count, 0);
	history_keep(&f, "one");
	history_keep(&f, "one"); /* in a row: once */
	history_keep(&f, "two");
	history_keep(&f, " secret");
	history_keep(&f, "");
	history_keep(&f, "one");
	history_close(&f);
	open_it(&f);
	assert_int_equal(seen_count, 3);
	assert_string_equal(seen[0], "one");
	assert_string_equal(seen[1], "two");
	assert_string_equal(seen[2], "one");
	history_keep(&f, "one"); /* also the last one of the time before */
	history_close(&f);
	assert_int_equal(lines_of_file(), 3);
}

UNIT_TEST(test_of_the_user_alone, fresh_home)
{
	mode_t before = umask(0);
	struct history_file f;
	char parent[128];

	open_it(&f);
	history_keep(&f, "a");
	assert_int_equal(mode(path()), 0600);
	snprintf(parent, sizeof(parent), "%s/state/gracekv", folder);
	assert_int_equal(mode(parent), 0700);
	assert_int_equal(chmod(path(), 0644), 0);
	history_close(&f);
	assert_int_equal(mode(path()), 0600);
	open_it(&f);
	for (unsigned i = 0; i < 2 * HISTORY_LINES + 10; i++) {
		char line[16];

		snprintf(line, sizeof(line), "%u", i);
		history_keep(&f, line);
	}
	history_close(&f);
	assert_int_equal(mode(path()), 0600);
	umask(before);
}

UNIT_TEST(test_bounded, fresh_home)
{
	struct history_file f;
	char line[32];

	open_it(&f);
	for (unsigned i = 0; i < 3 * HISTORY_LINES + 5; i++) {
		snprintf(line, sizeof(line), "line %u", i);
		history_keep(&f, line);
		assert_true(i % 500 || lines_of_file() <= 2 * HISTORY_LINES);
	}
	history_close(&f);
	assert_int_equal(lines_of_file(), HISTORY_LINES);
	open_it(&f);
	assert_int_equal(seen_count, HISTORY_LINES);
	assert_string_equal(seen[0], "line 2005");
	assert_string_equal(seen[HISTORY_LINES - 1], "line 3004");
	history_close(&f);
}

UNIT_TEST(test_long_and_foreign_lines, fresh_home)
{
	char line[HISTORY_LINE_MAX + 2];
	struct history_file f;
	FILE *file;

	memset(line, 'x', sizeof(line));
	line[HISTORY_LINE_MAX + 1] = '\0';
	open_it(&f);
	history_keep(&f, line);
	line[HISTORY_LINE_MAX] = '\0';
	history_keep(&f, line);
	history_close(&f);
	assert_int_equal(lines_of_file(), 1);
	file = fopen(path(), "a");
	assert_non_null(file);
	line[HISTORY_LINE_MAX] = 'x';
	fprintf(file, "%s\n\nzero%cbyte\nlast", line, 0);
	assert_int_equal(fclose(file), 0);
	open_it(&f);
	assert_int_equal(seen_count, 2);
	assert_string_equal(seen[1], "last");
	history_close(&f);
}

UNIT_TEST(test_two_at_once, fresh_home)
{
	struct history_file a, b;

	open_it(&a);
	open_it(&b);
	history_keep(&a, "of a");
	history_keep(&b, "of b");
	history_keep(&a, "of a again");
	history_close(&a);
	history_close(&b);
	open_it(&a);
	assert_int_equal(seen_count, 3);
	assert_string_equal(seen[1], "of b");
	history_close(&a);
}

UNIT_TEST(test_places, fresh_home)
{
	struct history_file f;
	char command[300];

	setenv("XDG_STATE_HOME", "relative", 1);
	setenv("HOME", folder, 1);
	open_it(&f);
	history_keep(&f, "a");
	history_close(&f);
	snprintf(command, sizeof(command), "%s/.local/state/gracekv/history", folder);
	assert_int_equal(mode(command), 0600);
	unsetenv("HOME");
	assert_int_equal(history_open(&f, see, NULL, &err), -ENOENT);
	history_keep(&f, "into nothing");
	history_close(&f);
	setenv("HOME", folder, 1);
	fresh_home(NULL);
	snprintf(command, sizeof(command), "mkdir -p %s", path());
	assert_int_equal(system(command), 0);
	assert_true(history_open(&f, see, NULL, &err) < 0);
	history_keep(&f, "into a folder");
	history_close(&f);
	fresh_home(NULL);
	snprintf(command, sizeof(command), "mkdir -p %s/state/gracekv && mkfifo %s", folder,
		 path());
	assert_int_equal(system(command), 0);
	assert_int_equal(history_open(&f, see, NULL, &err), -EINVAL); /* and waits for nobody */
	assert_non_null(strstr(err.text, "is not a regular file"));
	history_close(&f);
}

UNIT_GROUP(folder_make, folder_remove);
