/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* lin-client: one of the processes that the supervisor (../run.py) starts, stops and kills. */
#include <string.h>

#include "tests/linearizability/client/member.h"
#include "tools/lib/program.h"

#define ROLES "actors|grow|press"

static struct member_options given = { .role = "actors", .threads = 2, .process = 1 };

static const struct program_option options[] = {
	{ "server", 's', PROGRAM_TEXT, .value = &given.server },
	{ "device", 'd', PROGRAM_TEXT, .value = &given.device },
	{ "board", 'b', PROGRAM_TEXT, .value = &given.board },
	{ "folder", 'f', PROGRAM_TEXT, .value = &given.folder },
	{ "role", 'r', PROGRAM_CHOICE, .value = &given.role, .words = ROLES },
	{ "seed", 'S', PROGRAM_NUMBER, .value = &given.seed, .max = UINT64_MAX },
	{ "process", 'p', PROGRAM_NUMBER, .value = &given.process, .min = 1, .max = 1000000 },
	{ "threads", 't', PROGRAM_NUMBER, .value = &given.threads, .min = 1,
	  .max = MEMBER_THREADS_MAX },
	{ "pace", 'P', PROGRAM_NUMBER, .value = &given.pace_us, .max = 1000000 },
	{ NULL },
};

static const struct program program = {
	.name = "lin-client",
	.usage =
		"Usage: lin-client --server HOST:PORT --board FILE --folder DIR [OPTIONS]\n\n"
		"A client process of tests/linearizability, as its supervisor run.py starts it: makes\n"
		"operations on the keys that the board names and records them in DIR.\n\n"
		"  -s, --server HOST:PORT\n"
		"  -d, --device NAME  [auto]\n"
		"  -b, --board FILE   made by the supervisor\n"
		"  -f, --folder DIR   for the history: history.PROCESS.THREAD\n"
		"  -r, --role WHAT    " ROLES " [actors]\n"
		"  -p, --process N    number of this process, which no other had in DIR [1]\n"
		"  -t, --threads N    [2]\n"
		"  -P, --pace US      a pause of so many microseconds, on the average, between eight\n"
		"                     operations [0]\n"
		"  -S, --seed N       of all choices [0]\n\n"
		"Exit status: 0 it was told to stop; 1 an answer that cannot be, on stderr as WRONG;\n"
		"2 wrong usage; 3 it could not run.\n",
	.options = options,
};

int main(int argc, char **argv)
{
	struct board *board;
	struct error err;
	int status;

	if (program_options(&program, argc, argv, &status))
		return status;
	if (!given.board || (!given.folder && strcmp(given.role, "actors") == 0))
		return program_failed(&program, "--board and --folder", "are both needed");
	if (board_map(given.board, &board, &err))
		return program_failed(&program, "the board", err.text);
	if (strcmp(given.role, "grow") == 0)
		return ballast_grow(&given, board);
	if (strcmp(given.role, "press") == 0)
		return ballast_press(&given, board);
	return member_run(&given, board);
}
