/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The table of commands, and the texts of --help and --version. */
#include <stdio.h>

#include "common/layout/version.h"
#include "tools/kv-cli/cli.h"

const struct command cli_commands[] = {
	{
		.name = "get",
		.usage = "[--meta] KEY",
		.summary = "write a value to stdout as it is; exit 1 if there is none",
		.details = "On a terminal a newline follows. --meta says version, size and expiry "
			   "on stderr.\n",
		.example = "kv-cli get greeting",
		.allowed = CLI_META,
		.operands_min = 1,
		.operands_max = 1,
		.run = cli_get,
	},
	{
		.name = "put",
		.usage = "KEY VALUE|-",
		.summary = "store a value; - reads it from stdin",
		.details = "'put -- KEY -' stores a dash. Values have 0 to 16 MiB.\n",
		.example = "kv-cli put logo - < logo.png",
		.operands_min = 2,
		.operands_max = 2,
		.run = cli_put,
	},
	{
		.name = "del",
		.usage = "KEY",
		.summary = "delete a record; exit 1 if there was none",
		.details = "",
		.example = "kv-cli del greeting",
		.operands_min = 1,
		.operands_max = 1,
		.run = cli_del,
	},
	{
		.name = "exists",
		.usage = "KEY",
		.summary = "say yes or no; exit 0 or 1",
		.details = "",
		.example = "if kv-cli exists greeting >/dev/null; then ...",
		.operands_min = 1,
		.operands_max = 1,
		.run = cli_exists,
	},
	{
		.name = "mget",
		.usage = "KEY...",
		.summary = "a line a key, KEY<TAB>VALUE or (not found); exit 1 if one is missing",
		.details = "Keys and values are escaped as \\t \\n \\\\ \\xHH. Their reads travel "
			   "together.\n",
		.example = "kv-cli mget apt bash coreutils",
		.operands_min = 1,
		.operands_max = -1,
		.run = cli_mget,
	},
	{
		.name = "load",
		.usage = "[--format F] [--skip-bad] [--verify] FILE|-",
		.summary = "store the records of a file",
		.details =
			"  --format F   deb822, tsv or jsonl; without it the file's name tells\n"
			"  --skip-bad   report bad records, go on, exit 1 at the end\n"
			"  --verify     then read each record back one-sided, compare every byte,\n"
			"               exit 1 if one differs; FILE is read twice\n"
			"\n"
			"  deb822  stanzas as in Debian's Packages files: the field Package is the key,\n"
			"          the stanza's text the value\n"
			"  tsv     KEY<TAB>VALUE a line, escaped as \\t \\n \\\\ \\xHH\n"
			"  jsonl   {\"key\": ..., \"value\": ...} a line; key_b64 and value_b64 carry\n"
			"          bytes that are not UTF-8\n"
			"\n"
			"A key that comes more than once gets its last value.\n",
		.example = "apt-cache dumpavail | kv-cli load --format deb822 -",
		.allowed = CLI_FORMAT | CLI_SKIP_BAD | CLI_VERIFY,
		.operands_min = 1,
		.operands_max = 1,
		.run = cli_load,
	},
	{
		.name = "verify",
		.usage = "[--format F] [--skip-bad] [-c COUNT] FILE|-",
		.summary = "read a file's records back one-sided and compare every byte; exit 1 if "
			   "one differs",
		.details =
			"Formats are those of load. Of a key that comes more than once, the last "
			"record counts.\n"
			"  -c, --count COUNT   read it all so many times, for a longer measurement\n",
		.example = "kv-cli verify backup.jsonl",
		.allowed = CLI_FORMAT | CLI_SKIP_BAD | CLI_COUNT,
		.operands_min = 1,
		.operands_max = 1,
		.run = cli_verify,
	},
	{
		.name = "dump",
		.usage = "[--format F] [-o FILE]",
		.summary = "write all records, in no order",
		.details =
			"  --format F     tsv (the default) or jsonl; with -o the file's name tells\n"
			"  -o, --output FILE   written as FILE.part, renamed when it is complete\n",
		.example = "kv-cli dump -o backup.jsonl",
		.allowed = CLI_FORMAT | CLI_OUTPUT,
		.operands_min = 0,
		.operands_max = 0,
		.run = cli_dump,
	},
	{
		.name = "stats",
		.usage = "",
		.summary = "the server's counters",
		.details = "Sizes are rounded in the table and exact with --json.\n",
		.example = "kv-cli stats --json",
		.operands_min = 0,
		.operands_max = 0,
		.run = cli_stats,
	},
	{
		.name = "ping",
		.usage = "[-c COUNT]",
		.summary = "time requests and replies",
		.details =
			"  -c, --count COUNT   how many, a fifth of a second apart (default 5)\n",
		.example = "kv-cli -s 10.0.0.5:7471 ping -c 3",
		.allowed = CLI_COUNT,
		.operands_min = 0,
		.operands_max = 0,
		.run = cli_ping,
	},
	{
		.name = "doctor",
		.usage = "[HOST[:PORT]]",
		.summary = "what RDMA there is here, what works, and what to do; or a connection "
			   "step by step",
		.details =
			"Without HOST: devices, ports, every GID and why it is taken or not, limits of\n"
			"devices and machine, and a READ on each ACTIVE port from itself. Exit 1 if the\n"
			"device that would be used (--device, else the first that is ACTIVE) has a\n"
			"problem. With HOST, or --server: connects to that kv-server and says how far it\n"
			"came; exit 1 if a step failed. --json prints one document (schema 1).\n",
		.example = "kv-cli doctor && kv-cli doctor 10.0.0.5",
		.operands_min = 0,
		.operands_max = 1,
		.run = cli_doctor,
	},
	{ .name = NULL },
};

static const char help_options[] =
	"Options:\n"
	"  -s, --server HOST:PORT  the server ($GRACEKV_SERVER, else 127.0.0.1:7471)\n"
	"  -d, --device NAME       RDMA device ($GRACEKV_DEVICE, else the first that works)\n"
	"  -x, --gid-index N|auto  GID of the device's port, 0 to 255\n"
	"  -i, --ib-port N         port of the device\n"
	"      --connect tcp|cm    how queue pairs are connected ($GRACEKV_CONNECT, else tcp)\n"
	"      --timeout MS        of one call, reconnecting included (default 5000)\n"
	"      --json              print JSON\n"
	"  -v, --verbose           say which device and server are used, and why\n"
	"  -h, --help              this text; kv-cli COMMAND --help says more of one\n"
	"  -V, --version           versions of kv-cli, libibverbs, liburcu and the layout\n";

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
	fputs("Usage: kv-cli [OPTIONS] COMMAND ...\n\n"
	      "Read and write the records of a kv-server.\n\nCommands:\n",
	      out);
	for (const struct command *c = cli_commands; c->name; c++)
		fprintf(out, "  %s%s%s\n        %s\n", c->name, c->usage[0] ? " " : "", c->usage,
			c->summary);
	fprintf(out, "\n%s", help_options);
	fputs("\nKeys have 1 to 1024 bytes, values 0 to 16 MiB, any bytes.\n"
	      "Exit: 0 done, 1 the answer is no (not found, differs), 2 wrong usage, 3 failed.\n\n"
	      "Example:\n"
	      "  kv-cli put greeting 'hello, world' && kv-cli get greeting\n",
	      out);
}

void cli_version(FILE *out)
{
	version_print(out, "kv-cli", gkv_version());
}
