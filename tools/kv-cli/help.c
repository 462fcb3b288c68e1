/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The texts of --help, --version and of help at the prompt. */
#include <stdio.h>

#include "common/layout/version.h"
#include "tools/kv-cli/cli.h"

static const char help_options[] =
	"Options:\n"
	"  -s, --server HOST:PORT  the server ($GRACEKV_SERVER, else 127.0.0.1:7471); those of a\n"
	"                          group with commas between them\n"
	"  -d, --device NAME       RDMA device ($GRACEKV_DEVICE, else auto: on the network to the server)\n"
	"  -x, --gid-index N|auto  GID of the device's port, 0 to 255\n"
	"  -i, --ib-port N         port of the device\n"
	"      --pkey-index N      of the port's P_Key table: the partition (kv-cli doctor shows it)\n"
	"      --service-level N   of packets, 0 to 15; on Ethernet the priority, 0 to 7\n"
	"      --traffic-class N   of packets, 0 to 255; on RoCE v2 four times the DSCP\n"
	"      --connect tcp|cm    how queue pairs are connected ($GRACEKV_CONNECT, else tcp)\n"
	"      --timeout MS        of one call, reconnecting included (default 5000, or 5s)\n"
	"      --json              print JSON; errors too, on stderr, one document a line: program, line\n"
	"                          (of a script), what, why, action (what to do), code (the exit), error\n"
	"  -v, --verbose           say which device and server are used, and why\n"
	"  -h, --help              this text; kv-cli COMMAND --help explains a command\n"
	"  -V, --version           versions of kv-cli, libibverbs, liburcu and the layout\n";

static void help_commands(FILE *out)
{
	for (const struct command *c = cli_commands; c->name; c++)
		fprintf(out, "  %s%s%s\n        %s\n", c->name, c->usage[0] ? " " : "", c->usage,
			c->summary);
}

void cli_help(const struct command *command, FILE *out)
{
	if (command) {
		fprintf(out, "Usage: kv-cli [OPTIONS] %s%s%s\n\n%c%s.\n", command->name,
			command->usage[0] ? " " : "", command->usage,
			command->summary[0] - 'a' + 'A', command->summary + 1);
		if (command->details[0])
			fprintf(out, "\n%s", command->details);
		fprintf(out, "\nExample: %s\n", command->example);
		return;
	}
	fputs("Usage: kv-cli [OPTIONS] [COMMAND ...]\n\n"
	      "Read and write the records of a kv-server.\n\nCommands:\n",
	      out);
	help_commands(out);
	fprintf(out, "\n%s", help_options);
	fputs("\nWithout COMMAND: a prompt, where help explains the rest. If stdin is not a terminal, "
	      "each of\nits lines is a command; the first one that fails ends kv-cli with its exit "
	      "code. Otherwise\nkv-cli exits with 1 if an answer was no.\n"
	      "\nKeys have 1 to 1024 bytes, values 0 to 16 MiB, any bytes.\n"
	      "Exit: 0 done, 1 the answer is no (not found, differs, another version), 2 wrong "
	      "usage, 3 failed.\nA closed pipe, as by head, ends kv-cli quietly by SIGPIPE "
	      "(141 in a shell).\n\n"
	      "Example:\n"
	      "  kv-cli put greeting 'hello, world' && kv-cli get greeting\n",
	      out);
}

void cli_help_lines(FILE *out)
{
	fputs("Commands (help COMMAND explains one):\n", out);
	help_commands(out);
	fputs("  quit, exit\n        end\n"
	      "\n"
	      "Words are quoted as in a shell: '...' takes all as it is, \"...\" knows \\n \\t "
	      "\\r \\\\ \\\" \\xHH.\n"
	      "A line that begins with # is a comment. stdin carries the lines, so - cannot stand for "
	      "it.\n"
	      "At the prompt: Tab completes a command, the arrows and ^R find earlier lines, ^C "
	      "abandons the\nline, ^D ends. The history does not keep a line that begins with a "
	      "space.\n",
	      out);
}

int cli_help_command(struct cli *cli)
{
	const struct command *command = NULL;

	if (cli->operand_count &&
	    cli_command_of(cli->operands[0], cli->shell ? "help" : "kv-cli --help", &command))
		return CLI_USAGE;
	if (!command && cli->shell)
		cli_help_lines(stdout);
	else
		cli_help(command, stdout);
	return cli_flush(stdout, "stdout");
}

void cli_version(FILE *out)
{
	version_print(out, "kv-cli", gkv_version());
}
