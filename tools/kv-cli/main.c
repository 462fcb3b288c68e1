/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* kv-cli: descriptors and signals of the process; the rest is cli_run(). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "tools/kv-cli/cli.h"

/*
 * A closed standard descriptor would be handed to the next socket, and output would go into it.
 * What takes its place here cannot be used in the wrong direction, so that uses of it fail.
 */
static int main_fill_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		if (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int code;

	if (main_fill_descriptors())
		return CLI_FAILED;
	signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write(), with a sentence */
	log_setup("kv-cli", LOG_WARN, LOG_TEXT);
	code = cli_run(argc, argv);
	if (fclose(stdout) && code != CLI_FAILED)
		code = cli_error(CLI_FAILED, "writing to stdout: %s (what was printed is cut off)",
				 error_name(-errno));
	return code;
}
