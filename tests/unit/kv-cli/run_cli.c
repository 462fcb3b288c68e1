/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/kv-cli/run_cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/unit.h"
#include "tests/unit/kv-cli/fake_gkv.h"

#define WORDS_MAX 32

char out[CAPTURE_MAX], errors[CAPTURE_MAX];
size_t out_len;
const char *stdout_path;

/* A sanitizer or an assertion may end the program while stderr is captured: it is shown. */
static int captured_fd, shown_fd;

static void show_last_words(int signal)
{
	char text[4096];
	ssize_t n;

	for (off_t at = 0; (n = pread(captured_fd, text, sizeof(text), at)) > 0; at += n) {
		if (write(shown_fd, text, (size_t)n) != n)
			return;
	}
}

static size_t capture_end(int fd, int saved, int target, char *text)
{
	ssize_t n;

	dup2(saved, target);
	close(saved);
	n = pread(fd, text, CAPTURE_MAX - 1, 0);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

static int run_bytes(const char *input, size_t input_len, va_list words)
{
	int out_fd = stdout_path ? open(stdout_path, O_RDWR) : memfd_create("out", 0);
	int err_fd = memfd_create("err", 0), in_fd = memfd_create("in", 0);
	int saved[3] = { dup(0), dup(1), dup(2) };
	char *argv[WORDS_MAX] = { strdup("kv-cli") };
	int argc = 1, code;
	char *word;

	while ((word = va_arg(words, char *)) && argc < WORDS_MAX - 1)
		argv[argc++] = strdup(word);
	assert_true(pwrite(in_fd, input, input_len, 0) == (ssize_t)input_len);
	fflush(stdout);
	fflush(stderr);
	dup2(in_fd, 0);
	dup2(out_fd, 1);
	dup2(err_fd, 2);
	captured_fd = err_fd;
	shown_fd = saved[2];
	signal(SIGABRT, show_last_words);
	code = cli_run(argc, argv);
	fflush(stdout);
	clearerr(stdout);
	out_len = capture_end(out_fd, saved[1], 1, out);
	capture_end(err_fd, saved[2], 2, errors);
	dup2(saved[0], 0);
	close(saved[0]);
	close(in_fd);
	stdout_path = NULL;
	for (int i = 0; i < argc; i++)
		free(argv[i]);
	/* an error is one line with the program's name */
	if (code == CLI_USAGE && argc > 1)
		assert_ptr_equal(strchr(errors, '\n'), errors + strlen(errors) - 1);
	if (errors[0] && argc > 1)
		assert_true(strncmp(errors, "kv-cli: ", 8) == 0 ||
			    strncmp(errors, "{\"program\":\"kv-cli\",", 20) == 0 ||
			    strncmp(errors, "version=", 8) == 0);
	return code;
}

int run(const char *input, ...)
{
	va_list words;
	int code;

	va_start(words, input);
	code = run_bytes(input, strlen(input), words);
	va_end(words);
	return code;
}

int run_script(const char *text, size_t len, ...)
{
	va_list words;
	int code;

	va_start(words, len);
	code = run_bytes(text, len, words);
	va_end(words);
	return code;
}

const char *path(const char *name)
{
	static char whole[4][256];
	static unsigned next;
	char *p = whole[next++ % 4];

	snprintf(p, sizeof(whole[0]), "%s/%s", folder, name);
	return p;
}

const char *file(const char *name, const char *text)
{
	char whole[256];

	snprintf(whole, sizeof(whole), "/%s", name);
	folder_put(whole, text);
	return path(name);
}

int setup(void **state)
{
	fake_clear();
	return 0;
}

void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' has no '%s'", text, part);
}

int make_folder(void **state)
{
	unsetenv("GRACEKV_SERVER");
	return folder_make(state);
}
