/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Failures on stderr: a line for people, or with --json a document of JSON on a line. All have one
 * form, "what failed: why (what to do)", by which the document's fields are told apart. For the
 * main thread.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

struct failure {
	const char *program;
	uint64_t line; /* of the script that it stands in; 0: of none */
	int code; /* what the program, or the line, exits with */
	const char *error; /* the errno's name; NULL: it has none */
};

/* failure_as_json - from now on failures are documents, or lines of text. */
void failure_as_json(bool json);

/* failure_json_given - does --json stand anywhere before "--", or its @letter (0: it has none)?
 * What fails before it is read is of its form too. */
bool failure_json_given(int argc, char **argv, char letter);

/*
 * failure_print - say it. Where @fmt has the marks of the form, its parts are told apart by them:
 * what is put in for a %s may hold any of them.
 */
void failure_print(const struct failure *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* failure_print_list - the same, with the arguments as a list. */
void failure_print_list(const struct failure *f, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
