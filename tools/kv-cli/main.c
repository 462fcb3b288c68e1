/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* kv-cli: descriptors and signals of the process; the rest is cli_run(). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "common/base/descriptors.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "tools/kv-cli/cli.h"

int main(int argc, char **argv)
{
	int code;

	if (descriptors_fill())
		return CLI_FAILED;
	/* a closed pipe is an error of write(), also of a socket */
	cli_heeds_pipes = signal(SIGPIPE, SIG_IGN) != SIG_IGN;
	log_setup("kv-cli", LOG_WARN, LOG_TEXT);
	code = cli_run(argc, argv);
	if (cli_pipe_closed()) {
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
	}
	if (fclose(stdout) && code != CLI_FAILED)
		code = cli_error(CLI_FAILED, "writing to stdout: %s (what was printed is cut off)",
				 error_name(-errno));
	return code;
}
