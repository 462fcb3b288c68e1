/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The table of commands. */
#include <strings.h>

#include "tools/kv-cli/cli.h"

const struct command cli_commands[] = {
	{
		.name = "get",
		.usage = "[--meta] KEY",
		.summary = "write a value to stdout as it is; exit 1 if there is none",
		.details =
			"On a terminal a newline follows, and always at the prompt and in a script\n"
			"(kv-cli without COMMAND), into a file or a pipe too: values are lines there.\n"
			"--meta says on stderr version, size, and when it expires: in UTC, and in how\n"
			"many seconds (ttl), both by the server's clock. With --json these are in the\n"
			"document.\n",
		.example = "kv-cli get --meta greeting",
		.allowed = CLI_META,
		.operands_min = 1,
		.operands_max = 1,
		.run = cli_get,
	},
	{
		.name = "put",
		.usage = "[--ttl S] [--keep-ttl] [--if-absent|--if-version V] KEY VALUE|-",
		.summary = "store a value; - reads it from stdin; exit 1 if a condition does not "
			   "hold",
		.details =
			"  --ttl S          it expires after S seconds, or 250ms, 30s, 5m, 2h, 1d; without\n"
			"                   it never\n"
			"  --keep-ttl       a record that is there expires as before; --ttl is for a new one\n"
			"  --if-absent      only where the key is not there\n"
			"  --if-version V   only where the key is there in version V\n"
			"\n"
			"'put -- KEY -' stores a dash. Values have 0 to 16 MiB.\n",
		.example = "kv-cli put --ttl 30 --if-absent lock/nightly $HOSTNAME",
		.allowed = CLI_TTL | CLI_KEEP_TTL | CLI_IF_ABSENT | CLI_IF_VERSION,
		.operands_min = 2,
		.operands_max = 2,
		.run = cli_put,
	},
	{
		.name = "append",
		.usage = "[--ttl S] [--if-absent|--if-version V] KEY VALUE|-",
		.summary = "add to the end of a value, or create the record",
		.details = "The record expires as before; --ttl is for one that is created. The "
			   "rest is as for put.\n",
		.example = "kv-cli append log/today 'it rains, '",
		.allowed = CLI_TTL | CLI_IF_ABSENT | CLI_IF_VERSION,
		.operands_min = 2,
		.operands_max = 2,
		.run = cli_append,
	},
	{
		.name = "cas",
		.usage = "KEY VERSION VALUE|-",
		.summary =
			"compare and swap: store a value where the key is there in this version; "
			"else exit 1",
		.details =
			"The same as put --if-version. The record never expires then. get --meta "
			"says the version.\n",
		.example = "kv-cli cas config 17 'debug = false'",
		.operands_min = 3,
		.operands_max = 3,
		.run = cli_cas,
	},
	{
		.name = "del",
		.usage = "[--if-version V] KEY",
		.summary = "delete a record; exit 1 if there was none, or not this version",
		.details = "",
		.example = "kv-cli del greeting",
		.allowed = CLI_IF_VERSION,
		.operands_min = 1,
		.operands_max = 1,
		.run = cli_del,
	},
	{
		.name = "getdel",
		.usage = "[--meta] KEY",
		.summary = "delete a record and write the value that it had; exit 1 if there was "
			   "none",
		.details = "The output is that of get. What is written is what was deleted.\n",
		.example = "kv-cli getdel ticket/17",
		.allowed = CLI_META,
		.operands_min = 1,
		.operands_max = 1,
		.run = cli_getdel,
	},
	{
		.name = "incr",
		.usage = "[--ttl S] KEY [N]",
		.summary = "add N, or 1, to a decimal number and print the sum",
		.details =
			"N may be negative. A key that is not there counts as 0, and expires after "
			"--ttl;\na record that is there expires as before. A value that is not a "
			"number, or a\nsum of more than 64 bits: exit 3, nothing changes.\n",
		.example = "kv-cli incr visits; kv-cli incr --ttl 1m calls/ann",
		.allowed = CLI_TTL,
		.operands_min = 1,
		.operands_max = 2,
		.negative = true,
		.run = cli_incr,
	},
	{
		.name = "ttl",
		.usage = "KEY",
		.summary = "print the seconds until a record expires, or never; exit 1 if there is "
			   "none",
		.details =
			"By the server's clock as this client knows it: up to 0.15 s too many.\n",
		.example = "kv-cli ttl lock/nightly",
		.operands_min = 1,
		.operands_max = 1,
		.run = cli_ttl,
	},
	{
		.name = "touch",
		.usage = "KEY S",
		.summary = "make a record expire S seconds from now, 0: never; exit 1 if there is "
			   "none",
		.details = "S may have a unit: 250ms, 30s, 5m, 2h, 1d. The record gets another "
			   "version.\n",
		.example = "kv-cli touch lock/nightly 30",
		.operands_min = 2,
		.operands_max = 2,
		.negative = true,
		.run = cli_touch,
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
		.summary =
			"print KEY<TAB>VALUE a line, or KEY<TAB>\\N where there is none; exit 1 if one is missing",
		.details =
			"Keys and values are escaped as \\t \\n \\\\ \\xHH, so that no value reads as "
			"\\N.\nWith --json each key says found, and its value where it was. The reads\n"
			"travel together.\n",
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
			"          bytes that are not UTF-8; expiry_ms, since 1970 by the server's\n"
			"          clock, is when the record expires, 0 or without it never\n"
			"\n"
			"A key that comes more than once gets its last value. A record with expiry_ms\n"
			"keeps the time that it has left; records that have expired are left out and\n"
			"counted. Many records are on their way at once: after one that could not be\n"
			"stored, some of those that follow it may have been.\n",
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
			"The formats are those of load. If a key comes more than once, its last "
			"record counts.\nExpired records are counted, not looked up.\n"
			"  -c, --count COUNT   read all of it COUNT times, for a longer measurement\n",
		.example = "kv-cli verify backup.jsonl",
		.allowed = CLI_FORMAT | CLI_SKIP_BAD | CLI_COUNT,
		.operands_min = 1,
		.operands_max = 1,
		.run = cli_verify,
	},
	{
		.name = "dump",
		.usage = "[--format F] [--prefix P] [-o FILE]",
		.summary = "write all records, in no order",
		.details =
			"  --format F     tsv (the default) or jsonl; with -o the file's name tells\n"
			"  --prefix P     only records whose keys begin with P\n"
			"  -o, --output FILE   written as FILE.part, renamed when it is complete\n"
			"\n"
			"jsonl keeps the expiry of a record (expiry_ms), and load gives it the time that\n"
			"was left. tsv does not; stderr says how many records had one. Versions are not\n"
			"kept: a loaded record gets a new one.\n",
		.example = "kv-cli dump -o backup.jsonl",
		.allowed = CLI_FORMAT | CLI_OUTPUT | CLI_PREFIX,
		.operands_min = 0,
		.operands_max = 0,
		.run = cli_dump,
	},
	{
		.name = "keys",
		.usage = "[PREFIX]",
		.summary = "list the keys, or those that begin with PREFIX, in no order",
		.details =
			"A key a line, escaped as in tsv: \\t, \\n, \\\\ and \\xHH. With --json a document\n"
			"a line: key (or key_b64), size of the value, expiry_ms if it expires. The keys of\n"
			"all records are read, but no values.\n",
		.example = "kv-cli keys user/ | sort | head",
		.operands_min = 0,
		.operands_max = 1,
		.run = cli_keys,
	},
	{
		.name = "count",
		.usage = "[PREFIX]",
		.summary = "count the records, or those whose keys begin with PREFIX",
		.details =
			"Without PREFIX the server is asked for its counter, which includes records that\n"
			"have expired and are not deleted yet. With one, the keys of all records are read.\n",
		.example = "kv-cli count user/",
		.operands_min = 0,
		.operands_max = 1,
		.run = cli_count,
	},
	{
		.name = "stats",
		.usage = "[--watch [--interval S] [-c COUNT]]",
		.summary =
			"print the server's counters, or with --watch what happens, every second",
		.details =
			"Sizes are rounded in the table; --json has them exactly, counters in groups.\n"
			"  --watch             rates, memory, growth, sessions, on the whole terminal; q or\n"
			"                      ^C leaves; if stdout is not a terminal, page after page\n"
			"  --interval S        every S seconds, or 100ms to 1d (default 1)\n"
			"  -c, --count COUNT   end after COUNT pages; exit 3 if the last one found no server\n"
			"\n"
			"GET, READ and retry come from the clients, which report their one-sided reads\n"
			"with each announcement; the server sees none of them. Rates need a second look.\n"
			"For each session: the epochs by which it lags, the bytes that it keeps from being\n"
			"reused (defer), and how often its client was fenced. \"-\" means not known: an\n"
			"older server has no such counter.\n"
			"K, M, G, T of bytes are powers of two; k, M, G of others powers of ten.\n"
			"Each look costs the server one request, in which a worker writes all figures down.\n"
			"With --watch --json, one document a line: counters, interval_s, rates per second,\n"
			"null where they are not known. While there is no server, reconnecting says why.\n",
		.example = "kv-cli stats --watch --json --interval 10 >stats.jsonl",
		.allowed = CLI_WATCH | CLI_INTERVAL | CLI_COUNT,
		.operands_min = 0,
		.operands_max = 0,
		.run = cli_stats,
	},
	{
		.name = "save",
		.usage = "[--no-wait]",
		.summary = "have the server write a snapshot, and wait until it is there",
		.details =
			"The server goes on meanwhile. A snapshot has every write that was answered before\n"
			"save was called; after a restart the server reads the newest one, and what the log\n"
			"has beyond it. Only a server with --data-dir has snapshots: it takes them by\n"
			"itself, too, as its log grows (--snapshot-every) and when it is stopped.\n"
			"  --no-wait   return at once; stats says when snapshots has reached the number\n"
			"              that is printed. Exit 3 if it cannot be written.\n",
		.example = "kv-cli save && cp -a /var/lib/gracekv/snapshot /backup/",
		.allowed = CLI_NO_WAIT,
		.operands_min = 0,
		.operands_max = 0,
		.run = cli_save,
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
		.usage = "[--address ADDRESS] [HOST[:PORT]]",
		.summary = "say what RDMA there is here, what works, and what to do; or try a "
			   "connection step by step",
		.details =
			"Without HOST: devices, ports, every GID and why it is used or not, limits of\n"
			"devices and machine, and a READ on each ACTIVE port from itself. Exit 1 if the\n"
			"device that would be used has a problem: that of --device, or else the rail of\n"
			"  --address ADDRESS   of this machine: a server listens on it, or a client connects\n"
			"                      from it; without it, the first with an ACTIVE port.\n"
			"With HOST, or --server: connects to that kv-server and says how far it came;\n"
			"exit 1 if a step failed. --json prints one document (schema 1).\n",
		.example = "kv-cli doctor && kv-cli doctor 10.0.0.5",
		.allowed = CLI_ADDRESS,
		.operands_min = 0,
		.operands_max = 1,
		.run = cli_doctor,
	},
	{
		.name = "help",
		.usage = "[COMMAND]",
		.summary = "list the commands, or explain one",
		.details = "",
		.example = "kv-cli help put",
		.operands_min = 0,
		.operands_max = 1,
		.run = cli_help_command,
	},
	{ .name = NULL },
};

const struct command *cli_find(const char *name)
{
	for (const struct command *c = cli_commands; c->name; c++) {
		if (strcasecmp(name, c->name) == 0)
			return c;
	}
	return NULL;
}
