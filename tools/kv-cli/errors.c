/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Errors of kv-cli and of its scripts' lines: tools/lib/failure.h says what they look like. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "tools/kv-cli/cli.h"
#include "tools/kv-cli/text.h"
#include "tools/lib/failure.h"

static uint64_t cli_line; /* of a script; 0: none */

void cli_at_line(uint64_t number)
{
	cli_line = number;
}

int cli_error(int exit_code, const char *fmt, ...)
{
	const struct failure failure = { "kv-cli", cli_line, exit_code, NULL };
	va_list ap;

	va_start(ap, fmt);
	failure_print_list(&failure, fmt, ap);
	va_end(ap);
	return exit_code;
}

int cli_call_failed(const struct cli *cli, int rc, const char *what, const void *key,
		    size_t key_len)
{
	const struct failure failure = { "kv-cli", cli_line, CLI_FAILED, strerrorname_np(-rc) };
	const char *why = cli->handle ? gkv_error(cli->handle) : "";
	char shown[TEXT_KEY_MAX] = "";

	if (key)
		text_key(shown, key, key_len);
	if (!why || !why[0])
		why = gkv_strerror(rc);
	failure_print(&failure, "%s%s%s: %s", what, key ? " " : "", shown, why);
	return CLI_FAILED;
}
